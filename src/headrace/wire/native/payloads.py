"""Payloads of the native protocol: one msgpack map each, with limits on what it may contain.

Decoding raises only CommandInvalid, whatever the bytes; extension types are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from enum import IntEnum
from typing import Any, TypeVar

import msgpack

from headrace.errors import CommandInvalid
from headrace.wire.native.frames import HEAD, SMALL, frame

C = TypeVar("C", bound=Sized)

VERSION = 1
# An array is allocated by its announced length: up to 64 KiB for each level of nesting.
MAX_ARRAY = 8192
MAX_MAP = 4096
MAX_NAME = 255  # bytes; AMQP has no room for longer names and keys
# Containers and values of a payload: 32 for each of MAX_ARRAY messages. They are counted while the
# payload is decoded, because a byte of it can become an object of 72.
MAX_VALUES = 32 * MAX_ARRAY


class Op(IntEnum):
    """The types of frames."""

    CHANNEL_OPEN = 0x01
    CHANNEL_CLOSE = 0x02
    EXCHANGE_DECLARE = 0x03
    EXCHANGE_DELETE = 0x04
    QUEUE_DECLARE = 0x05
    QUEUE_DELETE = 0x06
    BIND = 0x07
    UNBIND = 0x08
    PUBLISH = 0x09
    CONSUME = 0x0A
    ACK = 0x0B
    PUSH = 0x0C
    HELLO = 0x0D
    PING = 0x0E
    CANCEL = 0x0F
    NACK = 0x10
    QOS = 0x11
    GET = 0x12
    PURGE = 0x13
    LIST = 0x14
    TOPIC_DECLARE = 0x20
    TOPIC_DELETE = 0x21
    TOPIC_DESCRIBE = 0x22
    APPEND = 0x23
    READ = 0x24
    COMMIT = 0x25
    TOPIC_NACK = 0x26
    RENEW = 0x27
    SEEK = 0x28
    LAG = 0x29
    FORGET_GROUP = 0x2A
    DEAD = 0x2B
    BOUNDS = 0x30
    FETCH = 0x31
    STAGE = 0x32
    PUBLISH_STAGED = 0x33
    PIN = 0x34
    UNPIN = 0x35
    TELL_PIPELINE = 0x36
    LOCATE = 0x37
    RECORDS = 0x38


_SIZES: dict[int, int] = {
    **dict.fromkeys((Op.PUBLISH, Op.APPEND, Op.STAGE), 1 << 31),  # as the settings say
    **dict.fromkeys((Op.COMMIT, Op.TOPIC_NACK, Op.RENEW, Op.PUBLISH_STAGED), 1 << 20),  # lists
    Op.TELL_PIPELINE: 1 << 20,  # has a limit that refuses without ending the connection
}


def request_size(kind: int) -> int:
    """Bytes of the largest payload that a request of this type may have, if frames allow it."""
    return _SIZES.get(kind, SMALL)


def _plain(value: object) -> object:
    """Values that msgpack has no type for, such as decimals, travel as text."""
    return str(value)


# Text which is not UTF-8 (AMQP allows it) is shown with question marks.
_pack = msgpack.Packer(default=_plain, unicode_errors="replace").pack


def pack(value: object) -> bytes:
    """One value as msgpack."""
    packed: bytes = _pack(value)
    return packed


def unpack(payload: bytes | memoryview) -> dict[str, Any]:
    """The map in a payload; CommandInvalid when it is none."""
    count = _counter() if len(payload) > SMALL else None
    try:
        value = msgpack.unpackb(
            payload,
            max_array_len=MAX_ARRAY,
            max_map_len=MAX_MAP,
            max_ext_len=0,
            ext_hook=_no_extension,
            object_hook=count,
            list_hook=count,
        )
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        text = str(error) or type(error).__name__
        raise CommandInvalid(f"the payload is not one legal msgpack map: {text[:200]}") from None
    if type(value) is not dict:
        raise CommandInvalid(f"the payload is no map but a {type(value).__name__}")
    return value


def _counter() -> Callable[[C], C]:
    left = MAX_VALUES

    def count(container: C) -> C:
        nonlocal left
        left -= len(container) + 1
        if left < 0:
            raise ValueError(f"more than {MAX_VALUES} values")
        return container

    return count


def unpack_trusted(payload: bytes | bytearray) -> dict[str, Any]:
    """A map that we packed ourselves."""
    value: dict[str, Any] = msgpack.unpackb(payload)
    return value


def _no_extension(code: int, data: bytes) -> object:
    raise ValueError(f"extension type {code}")


def message(kind: int, fields: Mapping[str, object]) -> bytes:
    """A whole frame with these fields."""
    return frame(kind, pack(fields))


def message_head(kind: int, fields: Mapping[str, object], name: str, size: int) -> bytes:
    """The beginning of a frame with these fields (at most 14) and a last one, the ``size`` bytes
    that follow: large ones are not copied."""
    fixed = pack(fields)
    packed = bytes([fixed[0] + 1]) + fixed[1:] + pack(name) + b"\xc6" + size.to_bytes(4, "big")
    return HEAD.pack(kind, len(packed) + size) + packed


class Request:
    """The fields of one request, read with their types; CommandInvalid when one is wrong."""

    __slots__ = ("ch", "fields", "kind", "rid")

    def __init__(self, kind: int, fields: dict[str, Any]) -> None:
        self.kind = kind
        self.fields = fields
        self.rid: int | str = self._identity("rid")
        self.ch: int | str | None = self._identity("ch") if "ch" in fields else None

    def _identity(self, name: str) -> Any:  # noqa: ANN401 - int or str
        value = self.fields.get(name)
        if type(value) not in (int, str) or (type(value) is str and len(value) > MAX_NAME):
            raise CommandInvalid(f"'{name}' must be an integer or a short string")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        value = self.fields.get(name)
        if value is None and default is not None:
            return default
        if type(value) is not str:
            raise CommandInvalid(f"'{name}' must be a string, not {_kind_of(value)}")
        return value

    def name(self, name: str, default: str | None = None) -> str:
        """A text of at most 255 bytes."""
        value = self.text(name, default)
        check_length(name, value)
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.fields.get(name, default)
        if type(value) is not bool:
            raise CommandInvalid(f"'{name}' must be true or false, not {_kind_of(value)}")
        return value

    def whole(self, name: str, default: int | None = None) -> int:
        value = self.fields.get(name, default)
        if type(value) is not int or value < 0:
            raise CommandInvalid(f"'{name}' must be a whole number from 0 on")
        return value

    def maps(self, name: str) -> list[dict[str, object]]:
        """A list of maps."""
        value = self.fields.get(name)
        if type(value) is not list or not all(type(one) is dict for one in value):
            raise CommandInvalid(f"'{name}' must be a list of maps")
        return value

    def texts(self, name: str) -> list[str]:
        """A list of strings; absent is empty."""
        value = self.fields.get(name, [])
        if type(value) is not list or not all(type(one) is str for one in value):
            raise CommandInvalid(f"'{name}' must be a list of strings")
        return value

    def table(self, name: str) -> dict[str, object]:
        value = self.fields.get(name)
        if value is None:
            return {}
        if type(value) is not dict:
            raise CommandInvalid(f"'{name}' must be a map, not {_kind_of(value)}")
        return value


def check_length(name: str, value: str) -> None:
    if len(value) > MAX_NAME // 4 and len(value.encode()) > MAX_NAME:
        raise CommandInvalid(f"'{name}' is longer than {MAX_NAME} bytes")


def _kind_of(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
