"""Messages as rows and back. What has no column of its own is JSON in `props`, which people and
other programs can read in SQL."""

from __future__ import annotations

import json
import zlib
from functools import lru_cache
from typing import Any, Final

from headrace.errors import BadTopicValue, BodyTooLarge
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.names import check_token
from headrace.model.topics.source_address import address_text, packed_address
from headrace.store.topics.types import Entry, StoredMessage

MAX_KEY: Final = 255
MAX_PROPS: Final = 1 << 20
COLUMNS: Final = "body,source_ip,token,ref_key,queue_id,props"
SELECTED: Final = (
    "id,body,source_ip,token,ref_key,queue_id,flags,props,"
    "CAST(UNIX_TIMESTAMP(created_at)*1000 AS SIGNED)"
)
TOMBSTONE: Final = 1
Values = tuple[bytes, bytes | None, str, str | None, int, bytes | None]
_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


_checked = lru_cache(1000)(check_token)


def values_of(entry: Entry, queue: int, max_body: int, own: bytes | None = None) -> Values:
    """The row of an entry, in the order of COLUMNS; deliberate errors for what cannot be stored.
    ``own``: the address of an entry that has none."""
    if len(entry.body) > max_body:
        raise BodyTooLarge(
            f"a body of {len(entry.body):,} bytes is refused: at most {max_body:,} (16 MiB less "
            "one, or less when the server's max_allowed_packet is small); nothing was stored"
        )
    if entry.token:
        _checked(entry.token)
    if entry.key is not None and len(entry.key) > MAX_KEY:
        raise BadTopicValue(f"a key of {len(entry.key)} characters is refused: at most {MAX_KEY}")
    return (
        bytes(entry.body),
        own if entry.source_ip is None else packed_address(entry.source_ip),
        entry.token,
        entry.key,
        queue,
        _props(entry),
    )


def queue_of(key: str, queues: int) -> int:
    """Messages of one key go to one queue."""
    return zlib.crc32(key.encode()) % queues


def _props(entry: Entry) -> bytes | None:
    found: dict[str, object] = {}
    if entry.tags is not None:
        found["tags"] = entry.tags
    if entry.message_id is not None:
        found["message_id"] = entry.message_id
    if entry.born is not None:
        found["born"] = entry.born
    if entry.properties:
        found["properties"] = dict(entry.properties)
    if not found:
        return None
    try:
        packed = _json(found).encode()
    except (TypeError, ValueError) as error:
        raise BadTopicValue(f"tags, ids and properties must be text: {error}") from None
    if len(packed) > MAX_PROPS:
        raise BadTopicValue(f"the properties take {len(packed):,} bytes: at most {MAX_PROPS:,}")
    return packed


def message_of(row: tuple[Any, ...], priority: Priority, attempts: int) -> StoredMessage:
    """The message of a row of SELECTED."""
    number, body, address, token, key, queue, _flags, props, time_ms = row
    found = json.loads(props) if props else {}
    return StoredMessage(
        id=number,
        priority=priority,
        partition_index=queue,
        time=time_ms,
        body=body,
        token=token,
        key=key,
        tags=found.get("tags"),
        source_ip=None if address is None else address_text(address),
        message_id=found.get("message_id"),
        born=found.get("born"),
        properties=found.get("properties") or {},
        attempts=attempts,
    )
