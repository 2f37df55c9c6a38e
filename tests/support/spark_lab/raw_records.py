"""Whole or cut records as the broker sends them to readers that decode them."""

from __future__ import annotations

from collections.abc import Iterator
from struct import unpack_from
from typing import Any

from headrace.bulk.client import BulkConnection
from headrace.client.errors import error_in
from headrace.wire.native.payloads import Op

COLUMNS = ("positions", "first_offsets", "low_offsets", "high_offsets")


def records(bulk: BulkConnection, start: int, end: int, **fields: object) -> list[dict[str, Any]]:
    """All frames of the answer but the last."""
    rid = bulk._send(Op.RECORDS, {"start": start, "end": end, **fields})
    found = []
    while True:
        answer = bulk._receive()
        assert answer["rid"] == rid
        if not answer["ok"]:
            raise error_in(answer)
        if answer["last"]:
            return found
        found.append(answer)


def beginnings(frames: list[dict[str, Any]]) -> Iterator[tuple[int, bytes]]:
    """Offset and content of each message that is wanted, or what is there of the content."""
    for frame in frames:
        data, width = bytes(frame["data"]), frame.get("width")
        columns = [unpack_from(f"<{len(frame[name]) // 8}Q", frame[name]) for name in COLUMNS]
        for at, first, low, high in zip(*columns, strict=True):
            head_size, count = (unpack_from("<I", data, at + place)[0] for place in (8, 16))
            lengths = unpack_from(f"<{count}I", data, at + head_size - 8 * count)
            place = at + head_size
            for offset, length in enumerate(lengths, first):
                there = length if width is None else min(length, width)
                if low <= offset < high:
                    yield offset, data[place : place + there]
                place += length if width is None else width
