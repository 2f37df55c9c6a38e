"""What is to be replayed, and how a message of the past becomes one of today. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from headrace.spark.errors import BadOption
from headrace.spark.row_mapping import as_publish

REPLAY_HEADER = "x-replay-of"
BLOCK = 100  # offsets that are sent in one step; part of what makes a repetition the same
# They belonged to the first life of the message.
_DROPPED = frozenset(
    {"delivery_mode", "priority", "message_id", "timestamp", "user_id", "cluster_id", "CC", "BCC",
     "x-death", "x-delay"}
)  # fmt: skip
_DROPPED_PREFIXES = ("x-first-death-", "x-last-death-")


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Which messages: stored in [from, to), of these sources, for which ``where`` is true."""

    queues: tuple[str, ...]
    topics: tuple[str, ...]
    since: datetime
    until: datetime
    where: str | None
    into: str
    routing_key: str | None = None

    def key(self, origin: str) -> str:
        """The same for the same request: what was sent under it is not sent again."""
        parts = [origin, sorted(self.queues), sorted(self.topics), self.since.isoformat(),
                 self.until.isoformat(), self.where, self.into, self.routing_key]  # fmt: skip
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def moment(text: str, option: str) -> datetime:
    """An ISO date and time, UTC unless it says otherwise."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadOption(f"{option}: wanted e.g. 2026-01-31T12:00:00, not {text!r}") from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def replayed(row: Mapping[str, object], request: ReplayRequest) -> dict[str, object]:
    """The message to publish: as it was, with a header that says where it is from."""
    given = row.get("properties")
    assert given is None or isinstance(given, Mapping)
    kept = {name: value for name, value in (given or {}).items() if not _is_dropped(str(name))}
    kept[REPLAY_HEADER] = f"{row['source']}/{row['partition']}/{row['offset']}"
    message = {
        name: row[name]
        for name in ("key", "tags", "message_id", "priority")
        if row.get(name) is not None
    }
    body = row["body"]
    assert isinstance(body, bytes | bytearray)
    routing_key = request.routing_key
    if routing_key is None:
        routing_key = str(row.get("routing_key") or row.get("tags") or "")
    message |= {"routing_key": routing_key, "properties": kept, "body": bytes(body)}
    return as_publish(request.into, message)


def _is_dropped(name: str) -> bool:
    return name in _DROPPED or name.startswith(_DROPPED_PREFIXES)
