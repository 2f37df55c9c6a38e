"""What a check of a data directory found: for people, for programs, and for the repair."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

from headrace.store.api.metadata import Declarations
from headrace.store.log.recovery_state import Range, RecoveredState


class RepairAction(enum.Enum):
    """What a repair does about a damaged place."""

    FILL = "overwrite with an empty record"
    SETTLE = "mark the messages as settled"
    CUT = "cut the file there"
    RENEW = "write the file again"
    NOTE = "continue without it"
    COPY = "copy the file around what cannot be read"
    RENAME = "give the file the name of its segment"
    MOVE = "move the file to lost+found"
    RAISE = "give new messages offsets behind those of the reader"
    ACCEPT = "keep what is readable"
    NONE = "restore a backup"


@dataclass(slots=True)
class DamagedRange:
    """Damaged bytes, and the messages that are lost with them as far as that can be known."""

    file: str
    offset: int
    size: int
    what: str
    remedy: RepairAction
    lost: list[Range] = field(default_factory=list)
    target: str = ""  # the new name of the file

    @property
    def messages(self) -> int:
        return sum(stop - first for _, first, stop in self.lost)


@dataclass(slots=True)
class SegmentFindings:
    """One segment; its messages are counted once per queue that they are in."""

    base: int
    size: int
    used: int = 0
    messages: int = 0
    live: int = 0
    live_bytes: int = 0
    index: Literal["good", "missing", "damaged"] = "missing"


@dataclass(slots=True)
class Findings:
    """Everything. ``places`` is damage; ``notes`` is what a crash or a deletion leaves behind."""

    queues: Mapping[int, tuple[str, str]] | None = None  # number: vhost and name
    position: int = 0  # of the checkpoint
    is_clean_end: bool = False
    segments: list[SegmentFindings] = field(default_factory=list)
    places: list[DamagedRange] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    orphans: dict[int, int] = field(default_factory=dict)  # number of a queue: messages
    kept: set[int] = field(default_factory=set)  # orphans whose queue may not have been deleted
    declarations: Declarations = field(default_factory=Declarations)  # what is declared
    state: RecoveredState = field(default_factory=RecoveredState)  # as recovery found it

    @property
    def is_sound(self) -> bool:
        return not self.places

    def add(
        self,
        file: str,
        what: str,
        remedy: RepairAction,
        offset: int = 0,
        size: int = 0,
        lost: Sequence[Range] = (),
        target: str = "",
    ) -> None:
        """Note a damaged place."""
        self.places.append(DamagedRange(file, offset, size, what, remedy, list(lost), target))

    def queue_name(self, number: int) -> str:
        if self.queues is None or number not in self.queues:
            return f"queue number {number}"
        vhost, name = self.queues[number]
        return f"queue '{name}' in vhost '{vhost}'"

    def as_json(self) -> dict[str, object]:
        return {
            "sound": self.is_sound,
            "queues": None if self.queues is None else len(self.queues),
            "checkpoint": {"position": self.position, "clean_end": self.is_clean_end},
            "segments": [asdict(one) for one in self.segments],
            "damage": [self._place_json(place) for place in self.places],
            "orphans": [
                {"queue_number": number, "messages": count, "kept": number in self.kept}
                for number, count in self.orphans.items()
            ],
            "notes": self.notes,
        }

    def _place_json(self, place: DamagedRange) -> dict[str, object]:
        return {
            "file": place.file,
            "offset": place.offset,
            "size": place.size,
            "what": place.what,
            "repair": place.remedy.value,
            "lost": [self._range_json(one) for one in place.lost],
        }

    def _range_json(self, lost: Range) -> dict[str, object]:
        number, first, stop = lost
        vhost, name = (self.queues or {}).get(number, (None, None))
        return {
            "vhost": vhost,
            "queue": name,
            "queue_number": number,
            "first": first,
            "last": stop - 1,
        }


def describe_ranges(ranges: Sequence[Range], findings: Findings) -> list[str]:
    """`queue 'q' in vhost '/': messages 3 to 5`, one line for each range."""
    return [
        f"{findings.queue_name(number)}: "
        + (f"message {first}" if stop - first == 1 else f"messages {first} to {stop - 1}")
        for number, first, stop in ranges
    ]
