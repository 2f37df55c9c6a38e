"""What the broker tells the fetch process: a job, and which request its frames answer. In msgpack,
in a file without a name.

With it go open descriptors: where to write the frames, then one per segment. The segments may be
deleted meanwhile; who has a descriptor can still read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.bulk.read_plan import ReadPlan
from headrace.wire.native.payloads import pack, unpack_trusted


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """One fetch."""

    rid: int | str
    ch: int | str
    job: ReadPlan

    def encode(self) -> bytes:
        return pack({"rid": self.rid, "ch": self.ch, "job": self.job.encode()})

    @classmethod
    def decode(cls, data: bytes) -> FetchRequest:
        fields: dict[str, Any] = unpack_trusted(data)
        return cls(fields["rid"], fields["ch"], ReadPlan.decode(fields["job"]))


# A frame of data is long; the last one of an order is short, and says so at its end.
_SHORT = 4096
_LAST = pack("last") + pack(True)


def is_last(frame: bytes | bytearray) -> bool:
    """Whether the order ends with this frame. Long ones are not searched."""
    return len(frame) < _SHORT and _LAST in frame
