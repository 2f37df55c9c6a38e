"""GET /api/deadletters: what died, grouped by where and why, from the messages' own history."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.core.queues.queue import Queue
from headrace.server.http.api.messages.browse import look
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.router import MANAGEMENT, SEES_VHOST, ApiRoutes
from headrace.wire.amqp.properties import HeaderTable, headers_raw

ROUTES = ApiRoutes()

PER_QUEUE = 2000  # messages looked at, from the head
SLICE = 200
_MARK = b"\x07x-death"

Cause = tuple[str, str, str, str, str]  # vhost, queue that holds it, died in, reason, exchange


@dataclass(slots=True)
class _DeathGroup:
    count: int = 0
    first_offset: int | None = None
    oldest: int | None = None  # seconds since 1970
    newest: int | None = None
    keys: dict[str, None] = field(default_factory=dict)

    def add(self, offset: int, death: Mapping[str, object]) -> None:
        self.count += 1
        if self.first_offset is None:
            self.first_offset = offset
        time = death.get("time")
        if isinstance(time, int):
            self.oldest = time if self.oldest is None else min(self.oldest, time)
            self.newest = time if self.newest is None else max(self.newest, time)
        keys = death.get("routing-keys")
        if isinstance(keys, list) and len(self.keys) < 10:
            self.keys.update(dict.fromkeys(str(key) for key in keys))


def death_of(content: bytes) -> Mapping[str, object] | None:
    """The last death of a message; x-death has the newest first."""
    raw = headers_raw(content)
    if _MARK not in raw:
        return None
    history = HeaderTable(raw).get("x-death")
    if isinstance(history, list) and history and isinstance(history[0], dict):
        return history[0]
    return None


async def _scan(queue: Queue, groups: dict[Cause, _DeathGroup]) -> int:
    """Sort the queue's dead letters into groups; returns how many messages were scanned."""
    start = looked = 0
    while looked < PER_QUEUE and not queue.deleted:
        seen = look(queue, start, SLICE)
        for one in seen:
            looked += 1
            death = death_of(one.content)
            if death is not None:
                cause = (
                    queue.services.name,
                    queue.name,
                    str(death.get("queue", "")),
                    str(death.get("reason", "")),
                    str(death.get("exchange", "")),
                )
                groups.setdefault(cause, _DeathGroup()).add(one.offset, death)
        if len(seen) < SLICE:
            break
        start = seen[-1].offset + 1
        await asyncio.sleep(0)
    return looked


@ROUTES.get("/api/deadletters", MANAGEMENT, "Dead letters by cause")
@ROUTES.get("/api/deadletters/{vhost}", SEES_VHOST, "Dead letters of a vhost by cause")
async def _deadletters(call: ApiRequest) -> object:
    groups: dict[Cause, _DeathGroup] = {}
    queues = [
        queue
        for vhost in call.visible_vhosts()
        for queue in tuple(vhost.queues.values())
        if queue.backlog.count and call.user.allows(vhost.name, "read", queue.name)
    ]
    partly: list[dict[str, object]] = []
    for queue in queues:
        looked = await _scan(queue, groups)
        if looked < queue.backlog.count:
            partly.append(
                {"vhost": queue.services.name, "queue": queue.name, "looked_at": looked,
                 "messages_ready": queue.backlog.count}
            )  # fmt: skip
    rows = [
        {
            "vhost": cause[0],
            "queue": cause[1],
            "died_in": cause[2],
            "reason": cause[3],
            "exchange": cause[4],
            "routing_keys": list(group.keys),
            "count": group.count,
            "first_offset": group.first_offset,
            "oldest": group.oldest,
            "newest": group.newest,
        }
        for cause, group in sorted(groups.items(), key=lambda item: -item[1].count)
    ]
    return {"groups": rows, "partly": partly}
