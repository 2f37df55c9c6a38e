"""Reports made of the messages of a vhost, kept for the page; nothing else is done with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.core.parameters import REPORT, Parameters

MAX_REPORTS = 50  # per vhost; the oldest goes first


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
