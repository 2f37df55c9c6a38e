"""/api/topics and /api/groups: topics with their lanes, groups with their lag and members."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import TypeVar

from headrace.core.spark_support.pins import queries_of
from headrace.core.topics.async_engine import AsyncTopicEngine, DeclaredTopic, EngineReply, Then
from headrace.core.vhost import Vhost
from headrace.errors import EngineUnavailable, HttpRefused, NoSuchTopic
from headrace.model.retention import Retention
from headrace.model.topics.message_priority import BY_URGENCY, Priority
from headrace.server.http import replies
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.durability import until_durable
from headrace.server.http.listing import ListColumns, Row, listed, reduced
from headrace.server.http.replies import Reply
from headrace.server.http.router import ENTERS_VHOST, MANAGEMENT, SEES_VHOST, ApiRoute
from headrace.store.topics.types import ConsumerSpec, GroupInfo, PriorityLag, TopicInfo, TopicSpec

T = TypeVar("T")
SECONDS = 30.0  # an engine that is a database far away may take its time
EXCHANGE_PREFIX = "topic."  # a topic's permissions are those of its exchange
_LANES = {lane.label: lane for lane in Priority}
_ENDS = {"earliest": 0, "latest": 1 << 52}  # as times: before and after every message


async def ask(call: ApiRequest, question: Callable[[Then[T]], object]) -> T | None:
    """What an engine answers, when it is on disk as far as it must be; raises its error."""
    future: asyncio.Future[EngineReply[T]] = asyncio.get_running_loop().create_future()

    def then(answer: EngineReply[T]) -> None:
        if not future.done():
            future.set_result(answer)

    question(then)
    try:
        async with asyncio.timeout(SECONDS):
            answer = await future
    except TimeoutError:
        raise HttpRefused("the engine did not answer in time", 504, "timeout") from None
    if answer.error is not None:
        raise answer.error
    if answer.position:
        await until_durable(call.broker, answer.position)
    return answer.value


def _engine(call: ApiRequest, action: str) -> AsyncTopicEngine:
    """The engine of the path's topic, if the user may do that."""
    call.check(action, "topic", EXCHANGE_PREFIX + call.name)
    try:
        return call.vhost.topics.engine_of(call.name)
    except NoSuchTopic:
        raise replies.not_found() from None


# -- topics --------------------------------------------------------------------------------------


def _part_rows(info: TopicInfo) -> list[Row]:
    return [{**asdict(part), "lane": part.lane.label} for part in info.parts]


def _topic_row(vhost: str, info: TopicInfo) -> Row:
    return {
        "name": info.name,
        "vhost": vhost,
        "engine": info.engine,
        "queues": info.queues,
        "retention": asdict(info.retention) if info.retention is not None else None,
        "created_at": info.created_at,
        "messages": sum(part.end - part.first for part in info.parts),
        "last_time": max((one.last_time for one in info.parts if one.last_time), default=None),
        "lanes": {
            lane.label: sum(part.end - part.first for part in info.parts if part.lane is lane)
            for lane in BY_URGENCY
        },
        "parts": _part_rows(info),
    }


_TOPIC_COLUMNS = ("name", "vhost", "engine", "queues", "retention", "created_at", "messages",
                  "last_time", "lanes", "parts")  # fmt: skip
_TOPIC_FIELDS: ListColumns[Row] = ListColumns(
    {name: (lambda row, name=name: row[name]) for name in _TOPIC_COLUMNS}  # type: ignore[misc]
)


def _may_see(call: ApiRequest, vhost: Vhost, resource: str) -> bool:
    actions = ("configure", "write", "read")
    return call.sees_all or any(call.user.allows(vhost.name, one, resource) for one in actions)


async def _topics(call: ApiRequest) -> Reply:
    rows: list[Row] = []
    for vhost in call.visible_vhosts():
        for info in await ask(call, vhost.topics.infos) or ():
            if _may_see(call, vhost, EXCHANGE_PREFIX + info.name):
                rows.append(_topic_row(vhost.name, info))
    return await listed(call, rows, _TOPIC_FIELDS)


async def _topic(call: ApiRequest) -> Reply:
    engine = _engine(call, "read")
    info = await ask(call, partial(engine.describe, call.name))
    assert info is not None
    row = _topic_row(call.vhost.name, info)
    row["groups"] = await _groups_of(call, call.vhost, call.name)
    return replies.data(reduced(call, row))


async def _declare(call: ApiRequest) -> Reply:
    call.check("configure", "topic", EXCHANGE_PREFIX + call.name)
    ms, size = call.value("retention_ms", int, None), call.value("retention_bytes", int, None)
    if (ms is not None and ms <= 0) or (size is not None and size <= 0):
        raise replies.bad_request("retention_ms and retention_bytes are above 0, or left out")
    retention = None if ms is None and size is None else Retention(ms, size)
    spec = TopicSpec(call.name, call.value("queues", int, 1), retention)
    engine = call.value("engine", str, "log")
    declared: DeclaredTopic | None = await ask(
        call, partial(call.vhost.topics.declare, spec, engine)
    )
    return replies.created(new=declared is not None and declared.created)


async def _delete(call: ApiRequest) -> Reply:
    engine = _engine(call, "configure")
    await ask(call, partial(engine.delete, call.name))
    return replies.DONE


# -- groups --------------------------------------------------------------------------------------


def _lag_row(lag: PriorityLag, now_ms: int) -> Row:
    behind = None if lag.oldest_time is None else max(0, now_ms - lag.oldest_time) / 1000
    return {**asdict(lag), "lane": lag.lane.label, "seconds": behind}


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


_GROUP_COLUMNS = ("name", "group", "token", "topic", "queue", "vhost", "members", "messages",
                  "claimed", "retrying", "dead", "seconds", "lanes")  # fmt: skip
_GROUP_FIELDS: ListColumns[Row] = ListColumns(
    {name: (lambda row, name=name: row[name]) for name in _GROUP_COLUMNS}  # type: ignore[misc]
)


async def _groups_of(call: ApiRequest, vhost: Vhost, topic: str) -> list[Row]:
    engine = vhost.topics.engine_of(topic)
    found = await ask(call, partial(engine.groups, topic)) or []
    return [_group_row(call, vhost.name, topic, info) for info in found]


def _queries(call: ApiRequest, vhost: Vhost) -> Iterator[Row]:
    """Readers outside of queues; those of topics are among the groups of the topic."""
    queues = {pin.name for pin in vhost.pins if pin.kind == "queue"}
    for queue in sorted(queues):
        if _may_see(call, vhost, queue):
            for info in queries_of(vhost, "queue", queue):
                yield _group_row(call, vhost.name, "", info, queue)


async def _groups(call: ApiRequest) -> Reply:
    rows: list[Row] = []
    for vhost in call.visible_vhosts():
        for topic in vhost.topics.names():
            if _may_see(call, vhost, EXCHANGE_PREFIX + topic):
                try:
                    rows += await _groups_of(call, vhost, topic)
                except (NoSuchTopic, EngineUnavailable):
                    continue  # deleted since the names were listed, or its database is away
        rows += _queries(call, vhost)
    return await listed(call, rows, _GROUP_FIELDS)


async def _of_topic(call: ApiRequest) -> Reply:
    _engine(call, "read")
    return await listed(call, await _groups_of(call, call.vhost, call.name), _GROUP_FIELDS)


def _reader(call: ApiRequest) -> ConsumerSpec:
    return ConsumerSpec(token="management", group=call.params["group"])


async def _seek(call: ApiRequest) -> Reply:
    """To the beginning, the end, a time or positions per lane; claims are void then."""
    engine = _engine(call, "read")
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
    await ask(call, partial(engine.seek, call.name, _reader(call), chosen, time_ms))
    return replies.DONE


def _positions(given: dict[str, object]) -> dict[Priority, int]:
    chosen: dict[Priority, int] = {}
    for label, position in given.items():
        if label not in _LANES or not isinstance(position, int) or isinstance(position, bool):
            raise replies.bad_request("positions: numbers by lane, which is low, middle or high")
        chosen[_LANES[label]] = position
    return chosen


async def _known_group(call: ApiRequest) -> None:
    rows = await _groups_of(call, call.vhost, call.name)
    if call.params["group"] not in [row["group"] for row in rows]:
        raise replies.not_found()


async def _forget(call: ApiRequest) -> Reply:
    engine = _engine(call, "read")
    await _known_group(call)
    await ask(call, partial(engine.forget_group, call.name, _reader(call)))
    return replies.DONE


_TOPIC = "/api/topics/{vhost}/{name}"
_GROUP = _TOPIC + "/groups/{group}"

ROUTES = (
    ApiRoute("GET", "/api/topics", _topics, MANAGEMENT, "All topics with their lanes"),
    ApiRoute("GET", "/api/topics/{vhost}", _topics, SEES_VHOST, "Topics of a vhost"),
    ApiRoute("GET", _TOPIC, _topic, ENTERS_VHOST, "One topic with its groups"),
    ApiRoute("PUT", _TOPIC, _declare, ENTERS_VHOST, "Make a topic",
          {"queues": "integer", "engine": "string", "retention_ms": "integer",
           "retention_bytes": "integer"}),
    ApiRoute("DELETE", _TOPIC, _delete, ENTERS_VHOST, "Delete a topic"),
    ApiRoute("GET", "/api/groups", _groups, MANAGEMENT, "All groups with their lag"),
    ApiRoute("GET", "/api/groups/{vhost}", _groups, SEES_VHOST, "Groups of a vhost"),
    ApiRoute("GET", _TOPIC + "/groups", _of_topic, ENTERS_VHOST, "Groups of a topic"),
    ApiRoute("POST", _GROUP + "/seek", _seek, ENTERS_VHOST,
          "Set a group to the beginning, the end, a time or a position per lane",
          {"to": "string", "time_ms": "integer", "positions": "object"}),
    ApiRoute("DELETE", _GROUP, _forget, ENTERS_VHOST, "Forget a group and its positions"),
)  # fmt: skip
