"""Parameters: named values, global or of a vhost, metadata of vhosts, and stored reports.

The broker only stores them, and uses one of them: the name of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.core.access import audit
from headrace.core.storage import Storage
from headrace.errors import PreconditionFailed
from headrace.store.api.rows import ParameterRow

CLUSTER_NAME = "cluster_name"  # a global one
GLOBAL = ""  # the vhost of what belongs to no vhost
_GLOBAL_COMPONENT = "global"
_DESCRIPTION = ("vhost", "metadata")  # component and name of what describes a vhost
REPORT = "headrace-report"  # the component of reports: shown in their own place
TOPIC_SETTINGS = "rocketmq-topic"  # the component of a topic's settings: deleted with the topic
MAX_NAME = 255
MAX_REPORTS = 50  # per vhost; the oldest goes first


@dataclass(frozen=True, slots=True)
class Parameter:
    """One value; in JSON's types."""

    vhost: str
    component: str
    name: str
    value: object


class Parameters:
    """All of them, by vhost, component and name."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._kept: dict[tuple[str, str, str], Parameter] = {}

    def restore(self, rows: Iterable[ParameterRow]) -> None:
        """What was kept before a restart."""
        for row in rows:
            value = row.settings.get("value")
            self._kept[row.vhost, row.component, row.name] = Parameter(
                row.vhost, row.component, row.name, value
            )

    def find(self, vhost: str, component: str, name: str) -> Parameter | None:
        return self._kept.get((vhost, component, name))

    def listed(self, vhost: str | None = None, component: str | None = None) -> list[Parameter]:
        """Those of vhosts, without descriptions and reports."""
        return [
            one
            for (where, kind, name), one in sorted(self._kept.items())
            if where != GLOBAL
            and (kind, name) != _DESCRIPTION
            and kind != REPORT
            and vhost in (None, where)
            and component in (None, kind)
        ]

    def of_component(self, vhost: str, component: str) -> list[Parameter]:
        """All of one kind in a vhost, of whatever kind it is."""
        return [
            one
            for (where, kind, _), one in self._kept.items()
            if (where, kind) == (vhost, component)
        ]

    def set(self, vhost: str, component: str, name: str, value: object) -> bool:
        """Keep a value; True when it is new."""
        for part in (component, name):
            if not part or len(part.encode("utf-8", "surrogateescape")) > MAX_NAME:
                raise PreconditionFailed(
                    f"invalid component or name: expected 1 to {MAX_NAME} bytes"
                )
        self._storage.save(ParameterRow(vhost, component, name, {"value": value}))
        key = (vhost, component, name)
        new = key not in self._kept
        self._kept[key] = Parameter(vhost, component, name, value)
        audit.record("parameter set", vhost=vhost, component=component, name=name)
        return new

    def clear(self, vhost: str, component: str, name: str) -> bool:
        """Delete a value; False when there is none."""
        found = self._kept.pop((vhost, component, name), None)
        if found is not None:
            self._storage.delete(ParameterRow(vhost, component, name, {}))
            audit.record("parameter cleared", vhost=vhost, component=component, name=name)
        return found is not None

    # -- global ---------------------------------------------------------------------------------

    def globals(self) -> Mapping[str, object]:
        return {
            name: one.value for (where, _, name), one in sorted(self._kept.items())
            if where == GLOBAL
        }  # fmt: skip

    def set_global(self, name: str, value: object) -> bool:
        return self.set(GLOBAL, _GLOBAL_COMPONENT, name, value)

    def clear_global(self, name: str) -> bool:
        return self.clear(GLOBAL, _GLOBAL_COMPONENT, name)

    def cluster_name(self, configured: str) -> str:
        """The name set while the broker ran; otherwise the configured one."""
        found = self.find(GLOBAL, _GLOBAL_COMPONENT, CLUSTER_NAME)
        name = found.value if found is not None else None
        return name if isinstance(name, str) and name else configured

    # -- vhosts ---------------------------------------------------------------------------------

    def vhost_metadata(self, vhost: str) -> dict[str, object]:
        """Description and tags of the vhost."""
        found = self.find(vhost, *_DESCRIPTION)
        known = found.value if found is not None and isinstance(found.value, dict) else {}
        return {"description": "", "tags": [], **known}

    def describe_vhost(self, vhost: str, values: Mapping[str, object]) -> None:
        self.set(vhost, *_DESCRIPTION, {**self.vhost_metadata(vhost), **values})

    def forget_vhost(self, vhost: str) -> None:
        """The vhost is gone, and with it what was kept for it."""
        for key in [key for key in self._kept if key[0] == vhost]:
            del self._kept[key]


class Reports:
    """By vhost and name; on disk with what else is kept under a name."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters

    def listed(self, vhost: str) -> dict[str, Mapping[str, Any]]:
        """The newest first."""
        kept = {
            one.name: one.value
            for one in self._parameters.of_component(vhost, REPORT)
            if isinstance(one.value, dict)
        }
        return dict(sorted(kept.items(), key=lambda item: (-_made(item[1]), item[0])))

    def find(self, vhost: str, name: str) -> Mapping[str, Any] | None:
        return self.listed(vhost).get(name)

    def put(self, vhost: str, name: str, report: Mapping[str, Any], made_at: int) -> bool:
        """Keep a report; True when there was none of that name. ``made_at`` in ms since 1970."""
        new = self._parameters.set(vhost, REPORT, name, {**report, "made_at": made_at})
        for old in list(self.listed(vhost))[MAX_REPORTS:]:
            self.delete(vhost, old)
        return new

    def delete(self, vhost: str, name: str) -> bool:
        """False when there is none."""
        return self._parameters.clear(vhost, REPORT, name)


def _made(report: Mapping[str, Any]) -> int:
    made = report.get("made_at")
    return made if isinstance(made, int) else 0
