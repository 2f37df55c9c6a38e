"""The properties of many AMQP messages with the same flags: the same fields in the same order, so
one walk over the fields finds each of them in all messages."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.bulk.decode.gather import Bytes, Places, read
from headrace.bulk.decode.text_maps import TEXT, PropertyColumn, maps_of
from headrace.wire.amqp.properties import FIELDS, SHORT, TABLE, HeaderTable


def fields_of(data: Bytes, flags: int, at: Places) -> dict[str, PropertyColumn]:
    """The fields that ``flags`` announce; ``at`` is where the values of each message begin."""
    found: dict[str, PropertyColumn] = {}
    for name, flag, width in FIELDS:
        if not flags & flag:
            continue
        if width == SHORT:
            lengths = read(data, ">u1", at)
            at = at + 1
        elif width == TABLE:
            lengths = read(data, ">u4", at)
            at = at + 4
        else:
            lengths = np.full(len(at), width, np.int64)
        found[name] = PropertyColumn(at, lengths, TEXT if width == SHORT else width)
        at = at + lengths
    return found


def map_of(data: Bytes, fields: dict[str, PropertyColumn], n: int) -> pa.Array:
    """All properties as text under their own names, then the headers under theirs."""
    plain = {name: field for name, field in fields.items() if name != "headers"}
    return maps_of(data, n, plain, fields.get("headers"), _decode)


def _decode(table: bytes) -> dict[str, object]:
    return HeaderTable(table).as_dict()
