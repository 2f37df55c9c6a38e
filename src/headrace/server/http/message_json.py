"""Messages in JSON: properties and payload, to and from the content that is stored."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from headrace.errors import BrokerError, MalformedError
from headrace.server.http import replies
from headrace.wire.amqp.content import body_of, body_size, properties_of
from headrace.wire.amqp.properties import HeaderTable, Properties

_TEXTS = ("content_type", "content_encoding", "correlation_id", "reply_to", "expiration",
          "message_id", "type", "user_id", "app_id", "cluster_id")  # fmt: skip
_NUMBERS = ("delivery_mode", "priority", "timestamp")


def read_properties(given: object) -> Properties:
    """Properties from JSON; as in RabbitMQ, unknown names are passed over."""
    if given == []:  # how RabbitMQ itself writes "none"
        given = {}
    if not isinstance(given, Mapping):
        raise replies.bad_request("'properties' must be of type object")
    properties = Properties()
    for name in _TEXTS:
        value = given.get(name)
        if value is not None:
            setattr(properties, name, _text(name, value))
    for name in _NUMBERS:
        value = given.get(name)
        if value is not None:
            setattr(properties, name, _number(name, value))
    headers = given.get("headers")
    if headers:
        if not isinstance(headers, Mapping):
            raise replies.bad_request("'headers' must be of type object")
        properties.headers = HeaderTable.of(headers)
    return properties


def _text(name: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)  # an expiration of 1000 is meant as "1000"
    if not isinstance(value, str) or len(value.encode("utf-8", "surrogatepass")) > 255:
        raise replies.bad_request(f"property '{name}' must be a string of at most 255 bytes")
    return value


def _number(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise replies.bad_request(f"property '{name}' must be a number")
    return value


def read_payload(body: Mapping[str, Any]) -> bytes:
    """`payload` and `payload_encoding` of a publish."""
    replies.require(body, "payload", "payload_encoding")
    payload, encoding = body["payload"], body["payload_encoding"]
    if not isinstance(payload, str):
        raise replies.bad_request("'payload' must be of type string")
    if encoding == "string":
        return payload.encode("utf-8", "surrogatepass")
    if encoding != "base64":
        raise replies.bad_request(f"unsupported encoding '{encoding}': string or base64")
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        raise replies.bad_request("the payload is not base64") from None


def shown(content: bytes, *, encoding: str = "auto", truncate: int | None = None) -> dict[str, Any]:
    """Properties and payload of a stored message."""
    try:
        body = body_of(content)
        properties = properties_of(content).as_dict()
    except BrokerError as error:
        raise MalformedError(f"a stored message cannot be read: {error}") from error
    part = body if truncate is None else body[:truncate]
    payload, used = _encoded(part, encoding, cut=len(part) < len(body))
    return {
        "payload_bytes": body_size(content),
        "properties": properties or [],
        "payload": payload,
        "payload_encoding": used,
    }


def _encoded(body: bytes, encoding: str, *, cut: bool) -> tuple[str, str]:
    if encoding == "auto":
        try:
            return body.decode("utf-8"), "string"
        except UnicodeDecodeError as error:
            # A text cut in the middle of a character is still a text.
            if cut and error.start >= len(body) - 3:
                return body[: error.start].decode("utf-8"), "string"
    return base64.b64encode(body).decode("ascii"), "base64"
