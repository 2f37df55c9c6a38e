"""Locks on queues: one member of a group at a time. No I/O; times are given."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.wire.remoting.message_queue import MessageQueue

EXPIRY_MS = 60_000  # after the last refresh


class QueueLocks:
    """By group and queue: who holds it, and since when nobody refreshed it."""

    def __init__(self) -> None:
        self._held: dict[str, dict[tuple[str, int], tuple[str, int]]] = {}

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], now: int
    ) -> list[MessageQueue]:
        """Those that the client holds now."""
        held = self._held.setdefault(group, {})
        taken = []
        for queue in queues:
            place = queue.topic, queue.queue_id
            owner, since = held.get(place, (client_id, now))
            if owner == client_id or now - since > EXPIRY_MS:
                held[place] = client_id, now
                taken.append(queue)
        return taken

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Only what the client holds itself."""
        held = self._held.get(group, {})
        for queue in queues:
            place = queue.topic, queue.queue_id
            if held.get(place, ("", 0))[0] == client_id:
                del held[place]
        if not held:
            self._held.pop(group, None)

    def release(self, group: str, client_id: str) -> None:
        """The client is gone: nobody has to wait for the expiry."""
        held = self._held.get(group, {})
        for place in [place for place, (owner, _) in held.items() if owner == client_id]:
            del held[place]
        if not held:
            self._held.pop(group, None)

    def is_orderly(self, group: str, now: int) -> bool:
        """Whether anybody in the group holds a queue."""
        held = self._held.get(group, {})
        return any(now - since <= EXPIRY_MS for _, since in held.values())

    def owner(self, group: str, topic: str, queue_id: int, now: int) -> str | None:
        owner, since = self._held.get(group, {}).get((topic, queue_id), ("", 0))
        return owner if owner and now - since <= EXPIRY_MS else None
