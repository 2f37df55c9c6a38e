"""The x-death header: where a dead-lettered message has been, newest first.

Clients can send the header too, so everything here survives values of any type.
"""

from __future__ import annotations

REJECTED = "rejected"


def read_history(value: object) -> list[dict[str, object]]:
    """The usable entries of an x-death header, as copies; anything else counts as none."""
    if not isinstance(value, (list, tuple)):
        return []
    return [
        dict(entry)
        for entry in value
        if isinstance(entry, dict)
        and isinstance(entry.get("queue"), str)
        and isinstance(entry.get("reason"), str)
    ]


def add_death(
    history: object,
    *,
    queue: str,
    reason: str,
    exchange: str,
    routing_keys: list[str],
    time: int,
    original_expiration: str | None,
) -> list[dict[str, object]]:
    """A new history with one more death in front; the given one stays as it is.

    The same queue and reason again: its entry moves to the front and counts one more, and
    is unchanged otherwise.
    """
    entries = _grouped(read_history(history))
    for place, entry in enumerate(entries):
        if entry["queue"] == queue and entry["reason"] == reason:
            del entries[place]
            entry["count"] = _count(entry) + 1
            return [entry, *entries]
    entry = {
        "count": 1,
        "reason": reason,
        "queue": queue,
        "time": time,
        "exchange": exchange,
        "routing-keys": list(routing_keys),
    }
    if original_expiration is not None:
        entry["original-expiration"] = original_expiration
    return [entry, *entries]


def _grouped(entries: list[dict[str, object]]) -> list[dict[str, object]]:
    """One entry for each queue and reason: brokers before 3.6 wrote one for each death."""
    by_cause: dict[tuple[object, object], dict[str, object]] = {}
    for entry in entries:
        first = by_cause.setdefault((entry["queue"], entry["reason"]), entry)
        first["count"] = _count(entry) + (_count(first) if first is not entry else 0)
    return list(by_cause.values())


def is_cycle(history: object, target_queue: str) -> bool:
    """Whether the message came round to `target_queue` without a rejection.

    `history` already has the latest death. Such a message would never leave the cycle, so it
    is dropped for that queue; a rejection in between is the decision of a consumer, which may
    decide otherwise the next time.
    """
    for entry in read_history(history):
        if entry["reason"] == REJECTED:
            return False
        if entry["queue"] == target_queue:
            return True
    return False


def _count(entry: dict[str, object]) -> int:
    count = entry.get("count")
    return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 1
