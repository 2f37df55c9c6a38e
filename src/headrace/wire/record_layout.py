"""Byte layout of log records and of topic entries: read by the log, by bulk reads and by others
that map segments. Little-endian.

A record begins at a multiple of 8 and is padded to one:

    0  u32  crc32 of bytes 4 .. head size, seeded with the segment's base: see segment_seed
    4  u32  size of the whole record
    8  u32  head size: everything before the contents
   12  u8   kind       13  u8  level       14  u16  destinations
   16  u32  count      20  u32  groups: crc32 of everything behind the head; others: how many bytes
                                of the segment were synced when the record was appended
   24  u64  time, ms since 1970

    MESSAGES  32  u64  ttl in ms + 1, 0 = none
              40  u16  origin     42  u8 length of exchange    43  u8 length of key    44  u32  0
              48  exchange, key, padded to 8
                  destinations x { u64 queue, u64 first offset, u64 count }
                  count x u32 length of content, count x u32 crc32 of content
                  contents end to end
    SETTLED   32  count x { u64 queue, u64 first, u64 stop }
    REQUEUED  32  count x { u64 queue, u64 first, u64 stop, u64 deliveries }
    GROUP     32  count whole records, which apply all or not at all

The seed keeps a record from being taken for one of another segment. Each content has a checksum of
its own, so damage costs one message; a group has one over everything, so it is complete or not
there. Records inside a group have another seed: what is left of a torn group is no record.

The content of a topic's message is an entry:

    0  u8   1, the version       1  u8   which fields are there: 1 key, 2 tags, 4 source ip,
                                         8 message id, 16 born
    2  u16  length of the key    4  u16  of the tags     6  u16  of the message id
    8  u16  of the token        10  u16  of the source ip
   12  u32  of the properties   16  i64  born, ms since 1970; 0 when it is not there
   24  u64  0
   32  key, tags, message id, token, source ip, properties, then the body to the end

Text is UTF-8; the properties are one msgpack map of text to text, or nothing.
"""

from __future__ import annotations

from struct import Struct
from typing import Final
from zlib import crc32

MESSAGES, SETTLED, REQUEUED, GROUP = 1, 2, 3, 4

RECORD_HEAD: Final = Struct("<IIIBBHIIQ")
RECORD_HEAD_SIZE: Final = RECORD_HEAD.size
SIZE_AT, HEAD_SIZE_AT, DESTINATIONS_AT, COUNT_AT, TIME_AT = 4, 8, 14, 16, 24
ROUTE: Final = Struct("<QHBBI")
EXCHANGE_LENGTH_AT, KEY_LENGTH_AT, NAMES_AT = 42, 43, 48
DESTINATION: Final = Struct("<QQQ")

ENTRY_VERSION: Final = 1
ENTRY_HEAD: Final = Struct("<BBHHHHHIqQ")
ENTRY_HEAD_SIZE: Final = ENTRY_HEAD.size
ENTRY_FIELDS: Final = ("version", "flags", "key", "tags", "message_id", "token", "source_ip",
                       "properties", "born", "spare")  # fmt: skip
assert RECORD_HEAD_SIZE == ENTRY_HEAD_SIZE == 32


class EntryFlags:
    """Which fields an entry has. Plain numbers: an enumeration's would cost more than the rest."""

    KEY: Final = 1
    TAGS: Final = 2
    SOURCE_IP: Final = 4
    MESSAGE_ID: Final = 8
    BORN: Final = 16


def segment_seed(base: int, full_from: int = 0) -> int:
    """The seed of record checksums in a segment: its base, as if it stood before each record.

    Segments that begin below ``full_from`` are of format 1 and use the low half of it only.
    """
    return crc32(base.to_bytes(8, "little")) if base >= full_from else base & 0xFFFFFFFF


def inner_seed(seed: int) -> int:
    """The seed of records inside a group."""
    return seed ^ 1
