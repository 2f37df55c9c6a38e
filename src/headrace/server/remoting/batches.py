"""The entries of a batch. Messages that differ only in their ids and bodies share everything else,
which is made once.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.errors import PreconditionFailed
from headrace.server.remoting.message_mapping import TopicRecord, delay_level, encode_record
from headrace.store.topics.entry import around_message_id
from headrace.wire.remoting.message import take_batch
from headrace.wire.remoting.properties import UNIQ_KEY, take_properties

Make = Callable[[bytes, dict[str, str], int], TopicRecord]  # of body, properties and flag

_NAME = UNIQ_KEY.encode() + b"\x01"
_END = b"\x02"
MAX_SHAPES = 16  # of one batch; where all differ, nothing is gained by looking


def entries_of(data: bytes, make: Make, largest: int) -> tuple[list[bytes], str]:
    """The entries of a batch, and the id of its first message.

    Bodies above ``largest`` are left to ``make``, which may refuse or change them.
    """
    contents: list[bytes] = []
    first = ""
    shapes: dict[tuple[int, int, bytes], tuple[bytes, bytes]] = {}
    for flag, body, raw in take_batch(data):
        unique, rest = _take_id(raw) if len(body) <= largest else (b"", raw)
        shape = flag, len(unique), rest
        around = shapes.get(shape) if unique else None
        if around is None:
            record = _checked(make(body, take_properties(raw.decode("utf-8", "replace")), flag))
            content = encode_record(record)
            if unique and len(shapes) < MAX_SHAPES:
                shapes[shape] = around_message_id(content, len(body))
            first = first or record.properties[UNIQ_KEY]
        else:
            content = b"".join((around[0], unique, around[1], body))
        contents.append(content)
    return contents, first


def _checked(record: TopicRecord) -> TopicRecord:
    if delay_level(record):
        raise PreconditionFailed("messages of a batch can be neither delayed nor retried")
    return record


def _take_id(raw: bytes) -> tuple[bytes, bytes]:
    """The producer's id and the other properties; no id where it takes a closer look."""
    at = raw.find(_NAME)
    if at < 0 or (at and raw[at - 1 : at] != _END):
        return b"", raw
    unique, _, rest = raw[at + len(_NAME) :].partition(_END)
    if not unique.isascii() or _NAME in rest:
        return b"", raw
    return unique, raw[:at] + rest
