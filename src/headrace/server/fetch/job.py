"""What the broker tells the fetch process: plain data, in msgpack, in a file without a name.

With it go open descriptors: where to write the frames, then one per segment. The segments may be
deleted meanwhile; who has a descriptor can still read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.wire.native.messages import pack, unpack_trusted


@dataclass(frozen=True, slots=True)
class Piece:
    """Records of one destination in one segment: four columns of 64-bit numbers."""

    base: int
    positions: bytes  # in the whole log
    firsts: bytes
    lows: bytes
    highs: bytes


@dataclass(frozen=True, slots=True)
class Job:
    """One fetch."""

    rid: int | str
    ch: int | str
    kind: str  # "queue" or "topic": how the contents are to be read
    source: str
    partition: int
    lane: str  # of a topic
    columns: tuple[str, ...]
    next: int  # the offset at which the client goes on
    pieces: tuple[Piece, ...]

    def encode(self) -> bytes:
        return pack(
            {
                **{name: getattr(self, name) for name in _PLAIN},
                "columns": list(self.columns),
                "pieces": [[getattr(one, name) for name in _PIECE] for one in self.pieces],
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Job:
        fields: dict[str, Any] = unpack_trusted(data)
        fields["columns"] = tuple(fields["columns"])
        fields["pieces"] = tuple(Piece(*one) for one in fields["pieces"])
        return cls(**fields)


_PLAIN = ("rid", "ch", "kind", "source", "partition", "lane", "next")
_PIECE = ("base", "positions", "firsts", "lows", "highs")


# A frame of data is long; the last one of a job is short, and says so at its end.
_SHORT = 4096
_LAST = pack("last") + pack(True)


def is_last(frame: bytes | bytearray) -> bool:
    """Whether the job ends with this frame. Long ones are not searched."""
    return len(frame) < _SHORT and _LAST in frame
