"""What a broker's log and fsck say is lost, and whether that covers a message."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.disk_matrix.original import NUMBERS, mark_of

LOSS = re.compile(
    r"damage|missing|lost|gone|cannot (be )?read|unreadable|unfinished|cut off|older|not the one|"
    r"Input/output|foreign|orphan|dropped|no record|wrong|incomplete|another|belongs",
    re.IGNORECASE,
)
NAMED = re.compile(r"'([\w.$/]+)'.*?(?:messages?|offsets?) (\d+)(?:(?: to |-)(\d+))?")
NUMBERED = re.compile(r"messages? (\d+)(?: to (\d+))? of queue number (\d+)")
BYTES = re.compile(r"(\d+) bytes (?:of an unfinished write )?at (\d+)(?: of segment (\d{20}))?")
REACH = 2048  # a message may begin this much before the bytes that carry its mark, or end behind


def lines_about_loss(text: str) -> list[str]:
    return [line for line in text.splitlines() if LOSS.search(line)]


def _plain(name: str) -> str:
    """`topic.events/middle.0` is the topic `events`, all of whose messages have one priority."""
    return name.removeprefix("topic.").partition("/")[0]


class Reported:
    """What the broker's log and fsck say is lost: offsets, bytes of the log, files."""

    def __init__(
        self,
        fsck: Mapping[str, Any],
        declared: set[str],
        places: Mapping[tuple[str, int], list[tuple[str, int]]],
        said: list[str],
    ) -> None:
        self.levels: set[str] = set()  # how closely it was said, of what was asked for
        self._declared = declared
        self._places = places
        self._offsets: list[tuple[str, int, int]] = []
        self._bytes: list[tuple[int, int]] = []
        self._files: set[str] = set()
        for line in said:
            self._read(line)
        for place in fsck.get("damage", ()):
            self._add(place)
        self._has_orphans = bool(fsck.get("orphans"))

    def _read(self, line: str) -> None:
        """As closely as it says: a line about some bytes does not stand for the whole file."""
        offsets = [(_plain(one), first, last) for one, first, last in NAMED.findall(line)]
        offsets += [(NUMBERS[int(one)], *range_) for *range_, one in NUMBERED.findall(line)]
        self._offsets += [(one, int(first), int(last or first)) for one, first, last in offsets]
        places = [(int(at) + int(base or 0), int(size)) for size, at, base in BYTES.findall(line)]
        self._bytes += [(at, at + size) for at, size in places]
        if not offsets and not places:
            self._files |= set(re.findall(r"\b\d{20}\b|meta\.db|the log is gone", line))

    def _add(self, place: dict[str, Any]) -> None:
        for lost in place["lost"]:
            self._offsets.append((_plain(lost["queue"] or ""), lost["first"], lost["last"]))
        name = Path(place["file"]).name
        if not place["size"]:
            self._files.add(name.removesuffix(".log"))
        elif name.endswith(".log"):
            start = int(name[:20]) + place["offset"]
            self._bytes.append((start, start + place["size"]))

    def covers(self, name: str, number: int) -> bool:
        if any(one == name and first <= number <= last for one, first, last in self._offsets):
            return self._by("offsets")
        for file, at in self._places.get(mark_of(name, number), ()):
            position = int(file[:20]) + at
            if any(low - REACH <= position <= high + REACH for low, high in self._bytes):
                return self._by("bytes of the log")
            if file[:20] in self._files:
                return self._by("file")
        if self._files & {"journal", "the log is gone"}:
            return self._by("directory")
        if self._has_orphans and name not in self._declared:
            return self._by("number of the queue")
        return name not in self._declared and "meta.db" in self._files and self._by("file")

    def _by(self, level: str) -> bool:
        self.levels.add(level)
        return True
