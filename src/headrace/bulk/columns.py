"""The columns of a bulk read, the same for queues and topics: names, order and Spark SQL types.

The broker checks requests against them without Arrow; Arrow's types follow in decode/schema.
"""

from __future__ import annotations

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
