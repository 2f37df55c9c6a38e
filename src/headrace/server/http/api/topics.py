"""/api/topics: topics with their partitions and groups."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

from headrace.core.topics.async_engine import DeclaredTopic
from headrace.core.topics.exchange_bridge import PREFIX as TOPIC_PREFIX
from headrace.model.retention import Retention
from headrace.model.topics.message_priority import BY_URGENCY
from headrace.server.http import replies
from headrace.server.http.api.groups import groups_of
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.durability import engine_call, engine_reply
from headrace.server.http.listing import Row, listed_rows, reduced
from headrace.server.http.router import ENTERS_VHOST, MANAGEMENT, SEES_VHOST, ApiRoutes
from headrace.store.topics.types import TopicInfo, TopicSpec

ROUTES = ApiRoutes()
_TOPIC = "/api/topics/{vhost}/{name}"


def _part_rows(info: TopicInfo) -> list[Row]:
    return [
        {
            "lane": part.priority.label,
            "partition": part.partition_index,
            "first": part.first,
            "end": part.end,
            "first_time": part.first_time,
            "last_time": part.last_time,
        }
        for part in info.parts
    ]


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
            priority.label: sum(p.end - p.first for p in info.parts if p.priority is priority)
            for priority in BY_URGENCY
        },
        "parts": _part_rows(info),
    }


@ROUTES.get("/api/topics", MANAGEMENT, "All topics with their lanes")
@ROUTES.get("/api/topics/{vhost}", SEES_VHOST, "Topics of a vhost")
async def _topics(call: ApiRequest) -> replies.Reply:
    rows: list[Row] = []
    for vhost in call.visible_vhosts():
        for info in await engine_reply(call.broker, vhost.topics.infos) or ():
            if call.may_see(vhost, TOPIC_PREFIX + info.name):
                rows.append(_topic_row(vhost.name, info))
    return await listed_rows(call, rows)


@ROUTES.get(_TOPIC, ENTERS_VHOST, "One topic with its groups")
async def _topic(call: ApiRequest) -> object:
    engine = call.topic_engine("read")
    info = await engine_call(call.broker, engine, lambda one: one.describe(call.name))
    assert info is not None
    row = _topic_row(call.vhost.name, info)
    row["groups"] = await groups_of(call, call.vhost, call.name)
    return reduced(call, row)


@ROUTES.put(_TOPIC, ENTERS_VHOST, "Create a topic",
    {"queues": "integer", "engine": "string", "retention_ms": "integer",
     "retention_bytes": "integer"})  # fmt: skip
async def _declare(call: ApiRequest) -> replies.Reply:
    call.check("configure", "topic", TOPIC_PREFIX + call.name)
    ms, size = call.value("retention_ms", int, None), call.value("retention_bytes", int, None)
    if (ms is not None and ms <= 0) or (size is not None and size <= 0):
        raise replies.bad_request(
            "retention_ms and retention_bytes must be greater than 0, or omitted"
        )
    retention = None if ms is None and size is None else Retention(ms, size)
    spec = TopicSpec(call.name, call.value("queues", int, 1), retention)
    engine = call.value("engine", str, "log")
    declared: DeclaredTopic | None = await engine_reply(
        call.broker, partial(call.vhost.topics.declare, spec, engine)
    )
    return replies.created(new=declared is not None and declared.created)


@ROUTES.delete(_TOPIC, ENTERS_VHOST, "Delete a topic")
async def _delete(call: ApiRequest) -> None:
    engine = call.topic_engine("configure")
    await engine_reply(call.broker, partial(engine.delete, call.name))
