"""/api/groups: consumer groups with their lag and members; reset of their offsets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from headrace.core.topics.exchange_bridge import PREFIX as TOPIC_PREFIX
from headrace.core.vhost import Vhost
from headrace.errors import EngineUnavailable, NoSuchTopic
from headrace.model.topics.message_priority import Priority
from headrace.server.http import replies
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.durability import engine_call
from headrace.server.http.listing import Row, listed_rows
from headrace.server.http.router import ENTERS_VHOST, MANAGEMENT, SEES_VHOST, ApiRoutes
from headrace.store.topics.types import ConsumerSpec, GroupInfo, PriorityLag

ROUTES = ApiRoutes()
_GROUPS = "/api/topics/{vhost}/{name}/groups"
_GROUP = _GROUPS + "/{group}"

_PRIORITIES = {priority.label: priority for priority in Priority}
_ENDS = {"earliest": 0, "latest": 1 << 52}  # as times: before and after every message


def _lag_row(lag: PriorityLag, now_ms: int) -> Row:
    behind = None if lag.oldest_time is None else max(0, now_ms - lag.oldest_time) / 1000
    fields = asdict(lag)
    del fields["priority"]
    return {"lane": lag.priority.label, **fields, "seconds": behind}


def _group_row(call: ApiRequest, vhost: str, topic: str, info: GroupInfo, queue: str = "") -> Row:
    now_ms = int(call.broker.clock.wall_seconds() * 1000)
    lags = [_lag_row(lag, now_ms) for lag in info.lag]
    return {
        "name": info.group or info.token,
        "group": info.group,
        "token": info.token,
        "topic": topic,
        "queue": queue,
        "vhost": vhost,
        "members": list(info.members),
        "messages": sum(lag.messages for lag in info.lag),
        "claimed": sum(lag.claimed for lag in info.lag),
        "retrying": sum(lag.retrying for lag in info.lag),
        "dead": sum(lag.dead for lag in info.lag),
        "seconds": max((row["seconds"] for row in lags if row["seconds"] is not None),  # type: ignore[type-var]
                       default=0),
        "lanes": lags,
    }  # fmt: skip


async def groups_of(call: ApiRequest, vhost: Vhost, topic: str) -> list[Row]:
    engine = vhost.topics.engine_of(topic)
    found = await engine_call(call.broker, engine, lambda one: one.groups(topic)) or []
    return [_group_row(call, vhost.name, topic, info) for info in found]


def _queries(call: ApiRequest, vhost: Vhost) -> Iterator[Row]:
    """Readers outside of queues; those of topics are among the groups of the topic."""
    queues = {pin.name for pin in vhost.pins if pin.kind == "queue"}
    for queue in sorted(queues):
        if call.may_see(vhost, queue):
            for info in vhost.pins.groups_of("queue", queue):
                yield _group_row(call, vhost.name, "", info, queue)


@ROUTES.get("/api/groups", MANAGEMENT, "All groups with their lag")
@ROUTES.get("/api/groups/{vhost}", SEES_VHOST, "Groups of a vhost")
async def _groups(call: ApiRequest) -> replies.Reply:
    rows: list[Row] = []
    for vhost in call.visible_vhosts():
        for topic in vhost.topics.names():
            if call.may_see(vhost, TOPIC_PREFIX + topic):
                try:
                    rows += await groups_of(call, vhost, topic)
                except (NoSuchTopic, EngineUnavailable):
                    continue  # deleted since the names were listed, or its database is away
        rows += _queries(call, vhost)
    return await listed_rows(call, rows)


@ROUTES.get(_GROUPS, ENTERS_VHOST, "Groups of a topic")
async def _of_topic(call: ApiRequest) -> replies.Reply:
    call.topic_engine("read")
    return await listed_rows(call, await groups_of(call, call.vhost, call.name))


def _reader(call: ApiRequest) -> ConsumerSpec:
    return ConsumerSpec(token="management", group=call.params["group"])


@ROUTES.post(_GROUP + "/seek", ENTERS_VHOST,
    "Reset the offsets of a group: earliest, latest, a time or a position per lane",
    {"to": "string", "time_ms": "integer", "positions": "object"})  # fmt: skip
async def _seek(call: ApiRequest) -> None:
    """To the beginning, the end, a time or positions per lane; claims are void then."""
    engine = call.topic_engine("read")
    await _known_group(call)
    to = call.value("to", str, None)
    time_ms = call.value("time_ms", int, None)
    positions = call.value("positions", dict, None)
    if [to, time_ms, positions].count(None) != 2:
        raise replies.bad_request("one of 'to' (earliest, latest), 'time_ms', 'positions'")
    if to is not None:
        if to not in _ENDS:
            raise replies.bad_request("'to' is earliest or latest")
        time_ms = _ENDS[to]
    chosen = _positions(positions) if positions is not None else None
    await engine_call(
        call.broker,
        engine,
        lambda one: one.seek(call.name, _reader(call), positions=chosen, time_ms=time_ms),
    )


def _positions(given: dict[str, object]) -> dict[Priority, int]:
    chosen: dict[Priority, int] = {}
    for label, position in given.items():
        if label not in _PRIORITIES or not isinstance(position, int) or isinstance(position, bool):
            raise replies.bad_request("positions: numbers by lane, which is low, middle or high")
        chosen[_PRIORITIES[label]] = position
    return chosen


async def _known_group(call: ApiRequest) -> None:
    rows = await groups_of(call, call.vhost, call.name)
    replies.found(call.params["group"] in [row["group"] for row in rows])


@ROUTES.delete(_GROUP, ENTERS_VHOST, "Delete a group and its positions")
async def _delete(call: ApiRequest) -> None:
    engine = call.topic_engine("read")
    await _known_group(call)
    await engine_call(call.broker, engine, lambda one: one.forget_group(call.name, _reader(call)))
