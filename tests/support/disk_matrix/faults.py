"""What can happen to a file, and to which one."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.disk_matrix.original import MARK, Original
from support.disk_matrix.programs import Unreadable

PAGE = 4096


# -- which file ---------------------------------------------------------------------------------


def _segment(at: int) -> Callable[[Original], Path]:
    return lambda original: original.segments()[at]


def _index(at: int) -> Callable[[Original], Path]:
    def choose(original: Original) -> Path:
        return sorted(original.data.glob("journal/*.idx"))[at]

    return choose


def _checkpoint(at: int) -> Callable[[Original], Path]:
    """By age, the newest first."""

    def choose(original: Original) -> Path:
        found = [one for one in original.data.glob("journal/checkpoint*") if one.suffix != ".new"]
        return sorted(found, key=lambda one: -one.stat().st_mtime_ns)[at]

    return choose


def _named(name: str) -> Callable[[Original], Path]:
    return lambda original: original.data / name


FILES: dict[str, Callable[[Original], Path]] = {
    "first segment": _segment(0),
    "second segment": _segment(1),
    "middle segment": lambda original: original.segments()[len(original.segments()) // 2],
    "last full segment": _segment(-2),
    "active segment": _segment(-1),
    "first index": _index(0),
    "middle index": lambda original: _index(len(list(original.data.glob("journal/*.idx"))) // 2)(
        original
    ),
    "last index": _index(-1),
    "checkpoint": _checkpoint(0),
    "checkpoint before": _checkpoint(1),
    "meta.db": _named("meta.db"),
    "meta.db-wal": _named("meta.db-wal"),
    "format": _named("format"),
    "reserve": _named("journal/reserve"),
}
TOGETHER = {
    "the log": "journal/*",
    "all segments": "journal/*.log",
    "all indexes": "journal/*.idx",
    "all checkpoints": "journal/checkpoint*",
}
"""Files that are lost at once."""


def chosen(original: Original, name: str) -> Path:
    """The file; the test is skipped where there is none."""
    try:
        file = FILES[name](original)
    except IndexError:
        pytest.skip(f"no {name}")
    if not file.exists():
        pytest.skip(f"no {name}")
    return file


# -- what happens to it -------------------------------------------------------------------------


def gone(file: Path, original: Original, chance: random.Random) -> None:
    file.unlink()


def empty(file: Path, original: Original, chance: random.Random) -> None:
    _need(file.stat().st_size > 0)
    file.write_bytes(b"")


def cut(file: Path, original: Original, chance: random.Random) -> None:
    data = file.read_bytes()
    _need(bool(data))
    file.write_bytes(data[: _used(data) // 2])


def bit(file: Path, original: Original, chance: random.Random) -> None:
    data = bytearray(file.read_bytes())
    _need(any(data))
    at = chance.choice([at for at in range(_used(data)) if data[at]])
    data[at] ^= 1 << chance.randrange(8)
    file.write_bytes(data)


def page(file: Path, original: Original, chance: random.Random) -> None:
    """Zeros, but not at the very end, where they would be an unfinished write."""
    data = bytearray(file.read_bytes())
    start = _start_of_page(data, chance)
    data[start : start + PAGE] = bytes(min(PAGE, len(data) - start))
    file.write_bytes(data)


def older(file: Path, original: Original, chance: random.Random) -> None:
    before = original.older / file.relative_to(_root(file))
    _need(before.exists() and before.read_bytes() != file.read_bytes())
    shutil.copyfile(before, file)
    if file.name == "meta.db":
        file.with_name("meta.db-wal").unlink(missing_ok=True)
        file.with_name("meta.db-shm").unlink(missing_ok=True)


def swapped(file: Path, original: Original, chance: random.Random) -> None:
    """With another of its kind; where there is one only, with that of another broker."""
    others = [
        one
        for one in sorted(file.parent.glob(f"*{file.suffix}"))
        if file.suffix in (".log", ".idx") and one != file
    ]
    if others:
        other = chance.choice(others)
        mine, its = file.read_bytes(), other.read_bytes()
        file.write_bytes(its)
        other.write_bytes(mine)
        return
    foreign = original.foreign / file.relative_to(_root(file))
    _need(foreign.exists() and foreign.read_bytes() != file.read_bytes())
    shutil.copyfile(foreign, file)
    if file.name == "meta.db":
        file.with_name("meta.db-wal").unlink(missing_ok=True)
        file.with_name("meta.db-shm").unlink(missing_ok=True)


def unreadable(file: Path, original: Original, chance: random.Random) -> Unreadable:
    data = file.read_bytes()
    _need(bool(data))
    start = _start_of_page(data, chance) if _used(data) > 2 * PAGE else 0
    return Unreadable(file, start, start + PAGE)


def misnamed(file: Path, original: Original, chance: random.Random) -> None:
    """A segment or an index with the name of another place in the log."""
    _need(file.suffix in (".log", ".idx"))
    file.rename(file.with_name(f"{int(file.stem) + PAGE:020}{file.suffix}"))


FAULTS: dict[str, Callable[[Path, Original, random.Random], Unreadable | None]] = {
    "gone": gone,
    "empty": empty,
    "cut": cut,
    "one bit": bit,
    "zeroed page": page,
    "older copy": older,
    "swapped": swapped,
    "misnamed": misnamed,
    "unreadable": unreadable,
}


def _need(condition: bool) -> None:
    if not condition:
        pytest.skip("it would change nothing")


def _used(data: bytes | bytearray) -> int:
    """Without the zeros at the end, which are space set aside."""
    return len(bytes(data).rstrip(b"\0"))


def _start_of_page(data: bytes | bytearray, chance: random.Random) -> int:
    """Of a page with something in it and, in a segment, messages behind it."""
    marks = [mark.start() for mark in MARK.finditer(data)]
    stop = marks[-2] - 2 * PAGE if len(marks) > 2 else _used(data)
    starts = [at for at in range(0, max(1, stop), PAGE) if any(data[at : at + PAGE])]
    _need(bool(starts))
    return chance.choice(starts)


def _root(file: Path) -> Path:
    return file.parent.parent if file.parent.name == "journal" else file.parent


def parameters() -> list[object]:
    """Each file with each fault; twice where chance chooses the place."""
    found = []
    for name in FILES:
        for fault in FAULTS:
            if fault == "misnamed" and not name.endswith(("segment", "index")):
                continue
            for repeat in range(2 if fault in ("one bit", "zeroed page", "unreadable") else 1):
                found.append(pytest.param(name, fault, repeat, id=f"{name}-{fault}-{repeat}"))
    return found
