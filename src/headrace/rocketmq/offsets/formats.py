"""Offset files: ours, the original lines, and the JSON of Java and Go."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from headrace.errors import MalformedError
from headrace.rocketmq.errors import OffsetFileError
from headrace.rocketmq.offsets.offset_store import OffsetEntry
from headrace.wire.remoting.message_queue import MessageQueue, take_offsets

VERSION = 1
_LINE = re.compile(r"(?P<topic>.+)@(?P<broker>[^@]+):(?P<queue>\d+)=(?P<offset>\d+)")


def dump(entries: Iterable[OffsetEntry]) -> bytes:
    """Strict JSON, one queue per element."""
    offsets = [
        {
            **entry.queue.as_map(),
            "offset": entry.offset,
            "lastUpdateTimestamp": entry.last_update_timestamp,
        }
        for entry in sorted(entries, key=lambda one: one.queue)
    ]
    return json.dumps({"version": VERSION, "offsets": offsets}, indent=1).encode() + b"\n"


def parse(data: bytes) -> list[OffsetEntry]:
    """Offsets in any of the known formats; OffsetFileError when it is none of them."""
    try:
        text = data.decode("utf-8").strip()
        if not text:
            raise OffsetFileError("the file is empty")
        if not text.startswith("{"):
            return [_of_line(line) for line in text.splitlines() if line.strip()]
        if '"offsetTable"' in text:
            return _of_java(data)
        return [_of_record(one) for one in json.loads(text)["offsets"]]
    except OffsetFileError:
        raise
    except (UnicodeDecodeError, ValueError, MalformedError, KeyError, TypeError) as error:
        raise OffsetFileError(f"this is no offset file: {error!r}") from error


def _of_record(one: dict[str, Any]) -> OffsetEntry:
    offset = one["offset"]
    if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
        raise OffsetFileError(f"offset {offset!r} is no offset")
    queue = MessageQueue(str(one["topic"]), str(one["brokerName"]), int(one["queueId"]))
    return OffsetEntry(queue, offset, int(one["lastUpdateTimestamp"]))


def _of_line(line: str) -> OffsetEntry:
    found = _LINE.fullmatch(line.strip())
    if found is None:
        raise OffsetFileError(f"line {line[:80]!r} is not topic@brokerId:queueId=offset")
    queue = MessageQueue(found["topic"], found["broker"], int(found["queue"]))
    return OffsetEntry(queue, int(found["offset"]))


def _of_java(data: bytes) -> list[OffsetEntry]:
    found = take_offsets("offsetTable", data).items()
    return [OffsetEntry(queue, offset) for queue, offset in found]
