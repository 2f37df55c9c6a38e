"""Topic entries <-> bytes; the layout is in wire/record_layout. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import error as StructError
from typing import Final, NamedTuple

import msgpack

from headrace.errors import BadTopicValue, StoreError
from headrace.store.topics.types import Entry, UniformEntries
from headrace.wire.record_layout import ENTRY_HEAD, ENTRY_HEAD_SIZE, ENTRY_VERSION, EntryFlags

_LONGEST: Final = 0xFFFF
_NOTHING: Final[list[object]] = [None] * 5  # no key, tags, source ip, message id, born
_NO_PROPERTIES: Mapping[str, str] = {}


class EntryFields(NamedTuple):
    """An entry taken apart; fields in the order of store.topics.types.StoredMessage."""

    body: bytes
    token: str
    key: str | None
    tags: str | None
    source_ip: str | None
    message_id: str | None
    born: int | None
    properties: Mapping[str, str]


def encode_entry(entry: Entry) -> bytes:
    """BadTopicValue when a field is too long to be kept."""
    return encode_parts(entry.body, *entry[2:])  # all but the priority


def encode_entries(entries: Iterable[Entry]) -> list[bytes]:
    """The same for many: those which have only a body and a token share their head."""
    if isinstance(entries, UniformEntries):
        head = encode_parts(b"", entries.token, None, None, None, None, None, {})
        return [head + body for body in entries.bodies]
    heads: dict[str, bytes] = {}
    found = []
    for entry in entries:
        body, _, token, *others, properties = entry
        if properties or others != _NOTHING:
            found.append(encode_entry(entry))
            continue
        known = heads.get(token)
        if known is None:
            known = heads[token] = encode_parts(b"", token, None, None, None, None, None, {})
        found.append(known + body)
    return found


def encode_parts(
    body: bytes,
    token: str,
    key: str | None,
    tags: str | None,
    source_ip: str | None,
    message_id: str | None,
    born: int | None,
    properties: Mapping[str, str],
) -> bytes:
    """The same without an Entry, for those who have none and many messages."""
    texts = (_text(key), _text(tags), _text(message_id), _text(token), _text(source_ip))
    packed: bytes = msgpack.packb(dict(properties)) if properties else b""
    lengths = [len(text) for text in texts]
    if max(lengths) > _LONGEST:
        raise BadTopicValue(f"a key, tag, token or message id has more than {_LONGEST} bytes")
    flags = (
        (EntryFlags.KEY if key is not None else 0)
        | (EntryFlags.TAGS if tags is not None else 0)
        | (EntryFlags.SOURCE_IP if source_ip is not None else 0)
        | (EntryFlags.MESSAGE_ID if message_id is not None else 0)
        | (EntryFlags.BORN if born is not None else 0)
    )
    head = ENTRY_HEAD.pack(ENTRY_VERSION, flags, *lengths, len(packed), born or 0, 0)
    return b"".join((head, *texts, packed, body))


def around_message_id(content: bytes, body_size: int) -> tuple[bytes, bytes]:
    """What stands before the message id and what between it and the body: with another id of the
    same length, and another body, it is another entry."""
    _, _, key, tags, name, *_ = ENTRY_HEAD.unpack_from(content)
    at = ENTRY_HEAD_SIZE + key + tags
    return content[:at], content[at + name : len(content) - body_size]


def decode_entry(content: bytes) -> EntryFields:
    """The inverse; StoreError when the bytes are no entry."""
    try:
        version, flags, key, tags, name, token, address, size, born, _ = ENTRY_HEAD.unpack_from(
            content
        )
        if version != ENTRY_VERSION:
            raise StoreError(f"an entry has version {version}; this broker knows {ENTRY_VERSION}")
        at = ENTRY_HEAD_SIZE
        texts = []
        for length in (key, tags, name, token, address):
            texts.append(content[at : at + length].decode())
            at += length
        properties = msgpack.unpackb(content[at : at + size]) if size else _NO_PROPERTIES
        at += size
        if at > len(content) or type(properties) not in (dict, type(_NO_PROPERTIES)):
            raise StoreError("an entry of a topic is shorter than its head says")
    except (StructError, ValueError, msgpack.UnpackException) as error:
        raise StoreError(f"an entry of a topic cannot be decoded: {error}") from error
    return EntryFields(
        content[at:],
        texts[3],
        texts[0] if flags & EntryFlags.KEY else None,
        texts[1] if flags & EntryFlags.TAGS else None,
        texts[4] if flags & EntryFlags.SOURCE_IP else None,
        texts[2] if flags & EntryFlags.MESSAGE_ID else None,
        born if flags & EntryFlags.BORN else None,
        properties,
    )


def tags_of(content: bytes) -> str | None:
    """Only the tags of an entry."""
    _, flags, key, tags, *_ = ENTRY_HEAD.unpack_from(content)
    if not flags & EntryFlags.TAGS:
        return None
    return content[ENTRY_HEAD_SIZE + key : ENTRY_HEAD_SIZE + key + tags].decode()


def _text(text: str | None) -> bytes:
    if text is None:
        return b""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadTopicValue("text that is no valid Unicode cannot be kept") from error
