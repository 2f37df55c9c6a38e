"""What is to be read of one destination, as plain data: it goes to another process with open
descriptors, or with the names of files, one per segment."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.model.record_columns import RecordColumns
from headrace.wire.native.payloads import Op, pack, unpack_trusted

ROWS_PER_QUERY = 50_000  # of a database, read at once: bounds the memory of a task


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """One range of offsets, or the beginning of it."""

    kind: str  # "queue" or "topic": how the contents are to be read
    source: str
    partition: int
    lane: str  # of a topic
    columns: Sequence[str]
    next: int  # the offset at which the client goes on
    pieces: tuple[RecordColumns[bytes], ...]  # one per segment
    number: int = 0  # of the queue or partition in the log

    @property
    def messages(self) -> int:
        """How many are to be read."""
        return sum(
            sum(array("Q", one.high_offsets)) - sum(array("Q", one.low_offsets))
            for one in self.pieces
        )

    def encode(self) -> bytes:
        return pack(
            {
                **{name: getattr(self, name) for name in _PLAIN},
                "columns": list(self.columns),
                "pieces": [list(one) for one in self.pieces],
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> ReadPlan:
        fields: dict[str, Any] = unpack_trusted(data)
        fields["pieces"] = tuple(RecordColumns(*one) for one in fields["pieces"])
        return cls(**fields)


_PLAIN = ("kind", "number", "source", "partition", "lane", "next")


@dataclass(frozen=True, slots=True)
class SqlPlan:
    """One range of ids of a topic in a database."""

    source: str
    partition: int
    lane: str
    columns: Sequence[str]
    next: int
    uuid: str  # of the topic
    url: str = field(repr=False)
    rows_query: str
    uuid_query: str

    def encode(self) -> bytes:
        return pack({**asdict(self), "columns": list(self.columns)})


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """One fetch: of rows as Arrow batches, or of whole records."""

    rid: int | str
    ch: int | str
    job: ReadPlan | SqlPlan
    op: int = Op.FETCH
    part: tuple[bool, int] | None = None
    """A part of one Arrow stream: whether it is the first, and how many rows at most."""
    is_direct: bool = False
    """The fetch process writes to the client's socket itself, which comes behind the request."""

    def encode(self) -> bytes:
        fields = {"rid": self.rid, "ch": self.ch, "op": self.op, "job": self.job.encode()}
        kinds = {"sql": isinstance(self.job, SqlPlan), "direct": self.is_direct}
        return pack({**fields, **kinds, "part": self.part})

    @classmethod
    def decode(cls, data: bytes) -> FetchRequest:
        fields: dict[str, Any] = unpack_trusted(data)
        job = fields["job"]
        plan = SqlPlan(**unpack_trusted(job)) if fields["sql"] else ReadPlan.decode(job)
        ids = (fields["rid"], fields["ch"])
        return cls(*ids, plan, fields["op"], fields["part"], fields["direct"])


# A frame of data is long; the last one of an order is short, and says so at its end.
_SHORT = 4096
_LAST = pack("last") + pack(True)


def is_last(frame: bytes | bytearray) -> bool:
    """Whether the order ends with this frame. Long ones are not searched."""
    return len(frame) < _SHORT and _LAST in frame
