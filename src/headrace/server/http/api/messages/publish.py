"""POST .../publish, and where a message would go without publishing it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.config import Config
from headrace.errors import HttpRefused, PreconditionFailed
from headrace.model.message import PublishedRun
from headrace.server.http import replies
from headrace.server.http.api.messages.explain_route import explain
from headrace.server.http.api_request import ApiRequest, exchange_named
from headrace.server.http.durability import until_durable, until_taken
from headrace.server.http.message_json import read_payload, read_properties
from headrace.server.http.router import ENTERS_VHOST, MANAGEMENT, ApiRoutes
from headrace.server.publish_inspection import PublishInspection
from headrace.wire.amqp.content import make_content
from headrace.wire.amqp.properties import (
    FLAG_EXPIRATION,
    FLAG_HEADERS,
    FLAG_REPLY_TO,
    FLAG_USER_ID,
    Properties,
)

ROUTES = ApiRoutes()

CHANNEL_NUMBER = 1  # the channel number in the frames of contents made here
_PERSISTENT = 2


def _batches(
    call: ApiRequest, exchange: str, key: str, content: bytes, properties: Properties
) -> Iterator[PublishedRun]:
    """One message as batches on their way; raises what is wrong with it."""
    flags = FLAG_EXPIRATION | FLAG_REPLY_TO | FLAG_USER_ID
    flags |= FLAG_HEADERS if properties.headers else 0
    return PublishInspection(call).batches(
        call.vhost.routes.get(exchange, key),
        flags,
        [content],
        len(content),
        number=CHANNEL_NUMBER,
        persistent=properties.delivery_mode == _PERSISTENT,
        reply_name=None,
    )


def _largest(config: Config) -> int:
    """Room for the largest message in base64, and for properties."""
    return config.max_message_size * 4 // 3 + (64 << 10)


@ROUTES.post("/api/exchanges/{vhost}/{name}/publish", ENTERS_VHOST,
    "Publish a message; replies when it is on disk",
    {"routing_key": "string", "payload": "string", "payload_encoding": "string",
     "properties": "object"}, largest=_largest)  # fmt: skip
async def _publish(call: ApiRequest) -> object:
    vhost, name = call.vhost, call.exchange_name
    body = await call.read_json()
    key = call.value("routing_key", str)
    payload = read_payload(body)
    limits = call.management.config
    if len(payload) > limits.max_message_size:
        raise PreconditionFailed(
            f"message size {len(payload)} is larger than configured max size "
            f"{limits.max_message_size} (setting max_message_size)"
        )
    properties = read_properties(body.get("properties", {}))
    exchange = call.open_exchange(vhost, name)
    call.check_key("write", vhost, name, key)
    alarm = call.broker.alarms.reason
    if alarm is not None:
        raise HttpRefused(f"publishers are blocked: {alarm}", 503, "alarm")
    content = make_content(properties, payload, CHANNEL_NUMBER, limits.frame_max)
    position, routed, taken = 0, False, True
    exchange.published += 1
    for batch in list(_batches(call, name, key, content, properties)):
        routed = bool(batch.route.destinations)
        if routed:
            exchange.routed += len(batch.route.destinations)
            vhost.publish(batch)
            position = batch.position
            taken = await until_taken(batch.engine_confirms) and not batch.refused
    if not routed:
        vhost.counters.returned += 1
    await until_durable(call.broker, position)
    if not taken:
        raise HttpRefused("a full queue, or the engine of a topic, refused it", 503, "refused")
    return {"routed": routed}


@ROUTES.post("/api/route", MANAGEMENT,
    "Explain where a message would be routed; nothing is published",
    {"vhost": "string", "exchange": "string", "routing_key": "string",
     "properties": "object"})  # fmt: skip
async def _explain(call: ApiRequest) -> object:
    body: Mapping[str, Any] = call.json()
    name = call.value("vhost", str, "/")
    vhost = call.broker.vhosts.get(name)
    if vhost is None or not call.sees(name):
        raise replies.not_found()
    properties = read_properties(body.get("properties", {}))
    found = vhost.get_exchange(exchange_named(call.value("exchange", str, "")))
    headers = properties.headers.as_dict() if properties.headers is not None else {}
    return explain(vhost, found, call.value("routing_key", str, ""), headers)
