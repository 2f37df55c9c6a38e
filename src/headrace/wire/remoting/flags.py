"""Bits of the RocketMQ protocol: of messages, of pulls, of topics."""

from __future__ import annotations

from enum import IntFlag


class SysFlag(IntFlag):
    """What is special about a message."""

    COMPRESSED = 0x1
    MULTI_TAGS = 0x2
    TRANSACTION_PREPARED = 0x4
    TRANSACTION_COMMIT = 0x8
    TRANSACTION_ROLLBACK = 0xC  # both bits: also the mask
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    NEED_UNWRAP = 0x40
    INNER_BATCH = 0x80
    LZ4 = 0x100
    ZSTD = 0x200
    ZLIB = 0x300


TRANSACTION_MASK = 0xC
COMPRESSION_MASK = 0x700


class PullFlag(IntFlag):
    """What a pull wants besides messages."""

    COMMIT_OFFSET = 0x1  # commitOffset is to be stored
    SUSPEND = 0x2  # the broker may hold the request
    SUBSCRIPTION = 0x4  # the expression is in the request
    CLASS_FILTER = 0x8
    LITE_PULL = 0x10


class Perm(IntFlag):
    """What may be done with a topic or a queue."""

    INHERIT = 0x1  # may be the template of new topics
    WRITE = 0x2
    READ = 0x4
    PRIORITY = 0x8


READ_WRITE = Perm.READ | Perm.WRITE
