"""The columns of a bulk read, the same for queues and topics: names, order and Spark SQL types.

The broker checks requests against them without Arrow; Arrow's types follow in decode/schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

COLUMNS: Final[dict[str, str]] = {
    "source": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "born": "timestamp",
    "priority": "string",
    "exchange": "string",
    "routing_key": "string",
    "key": "string",
    "tags": "string",
    "message_id": "string",
    "properties": "map<string,string>",
    "body": "binary",
}
# What has to be selected in a database for each column that is no constant.
_NEEDS: Final = {
    "offset": ("offset",),
    "timestamp": ("timestamp",),
    "key": ("key",),
    "body": ("body",),
    "born": ("props",),
    "tags": ("props",),
    "message_id": ("props",),
    "properties": ("token", "source_ip", "props"),
}


_OF_RECORDS: Final = ("source", "partition", "offset", "timestamp", "exchange", "routing_key")
_NOT_IN_CONTENTS: Final = {
    "topic": (*_OF_RECORDS, "priority"),
    "queue": (*_OF_RECORDS, "key", "tags"),  # it has neither
}


def shown_contents(kind: str, columns: Sequence[str]) -> tuple[str, ...] | None:
    """Which of these columns are read from contents; None when the body is one of them."""
    found = tuple(one for one in columns if one not in _NOT_IN_CONTENTS[kind])
    return None if "body" in found else found


def selected(columns: Sequence[str]) -> list[str]:
    """What to select for these columns."""
    found = [name for column in columns for name in _NEEDS.get(column, ())]
    return list(dict.fromkeys(found)) or ["offset"]
