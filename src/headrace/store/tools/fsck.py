"""Checking a data directory: every file, every record, every checksum. Changes nothing.

Recovery is run as the broker would, on files that refuse to be written to; then every segment is
walked again, and what recovery takes on trust (contents, index files) is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

from headrace.errors import StoreError
from headrace.store.api.metadata import Declarations
from headrace.store.consistency import find_older_copy, readers_ahead, remove_dangling_rows
from headrace.store.data_directory import FORMAT_FILE, JOURNAL, DamagedFormat, read_format
from headrace.store.disk import RealDisk
from headrace.store.log.checkpoint_file import load_checkpoints
from headrace.store.log.recovery import FIRST_BYTES, find_format_2, recover
from headrace.store.log.recovery_state import SHORT, UNUSABLE, lost_in
from headrace.store.log.segment import (
    SUFFIX,
    Segment,
    SegmentRecord,
    base_of,
    leftovers,
    segment_name,
    walk,
)
from headrace.store.sqlite.metadata import FILE_NAME
from headrace.store.tools.findings import Findings, RepairAction
from headrace.store.tools.offline import ReadOnlyDisk, read_declarations
from headrace.store.tools.segment_check import RecoveredIndex, SegmentCheck

Progress = Callable[[int, int], None]  # done, of how many


def check(path: Path, progress: Progress = lambda done, total: None) -> Findings:
    """Read everything in a data directory that no broker is using."""
    findings = Findings()
    declarations = _check_metadata(path, findings)
    _check_checkpoints(path / JOURNAL, findings)
    try:
        format_2_from = _check_format(path, findings)
        _check_journal(path / JOURNAL, findings, progress, format_2_from)
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error}") from error
    state = findings.state
    is_old = format_2_from is None and (path / JOURNAL).is_dir()
    if findings.queues and not is_old and state.report.is_empty:
        what = f"it is gone, with all messages of {len(findings.queues)} queues"
        findings.add(JOURNAL, what, RepairAction.NOTE)
    if state.format_2_from != format_2_from:
        findings.add(FORMAT_FILE, "it does not belong to this commit log", RepairAction.RENEW)
    _check_positions(declarations, findings)
    older = find_older_copy(declarations, findings.state.metadata_generation)
    if older is not None and findings.queues is not None:  # else it is not there at all
        findings.add(FILE_NAME, older, RepairAction.ACCEPT)
    return findings


def _check_format(path: Path, findings: Findings) -> int | None:
    """From where on segments have the whole seed, as the file says, else as the segments say."""
    try:
        return read_format(path)
    except FileNotFoundError:
        what = "the file is missing"
    except DamagedFormat:
        what = "it is damaged"
    findings.add(FORMAT_FILE, what, RepairAction.RENEW)
    return find_format_2(ReadOnlyDisk(path / JOURNAL))


def _check_metadata(path: Path, findings: Findings) -> Declarations:
    try:
        declarations = read_declarations(path)
    except StoreError as error:
        findings.add(FILE_NAME, str(error), RepairAction.NONE)
        return Declarations()
    remove_dangling_rows(declarations)
    findings.queues = declarations.destinations()
    findings.declarations = declarations
    for one in declarations.damaged:
        findings.add(FILE_NAME, str(one), RepairAction.ACCEPT)
    return declarations


def _check_positions(declarations: Declarations, findings: Findings) -> None:
    queues = findings.state.queues

    def next_offset(number: int) -> int:
        return queues[number].next_offset if number in queues else 0

    for one in readers_ahead(declarations, next_offset):
        lost = [(one.number, one.end, one.offset)]
        findings.add(FILE_NAME, str(one), RepairAction.RAISE, lost=lost)


def _check_checkpoints(journal: Path, findings: Findings) -> None:
    found, wrong = load_checkpoints(ReadOnlyDisk(journal))
    for name, why in wrong:
        if found is None:
            why += ": messages that were acknowledged may come again"
        file = journal / name
        size = file.stat().st_size if file.exists() else 0
        findings.add(f"{JOURNAL}/{name}", why, RepairAction.RENEW, size=size)
    if found is not None:
        findings.position = found.position
        findings.is_clean_end = found.clean


def _check_journal(
    directory: Path, findings: Findings, progress: Progress, format_2_from: int | None
) -> None:
    if not directory.is_dir():
        findings.state.format_2_from = format_2_from
        findings.state.report.is_empty = True
        return
    names = sorted(entry.name for entry in directory.iterdir() if entry.is_file())
    bases = [base for name in names if (base := base_of(name)) is not None]
    total, done = 2 * len(bases), 0  # recovery reads them, and so does the check

    def step(name: str = SUFFIX) -> None:
        nonlocal done
        if name.endswith(SUFFIX):
            done += 1
            progress(done, total)

    state = findings.state = recover(ReadOnlyDisk(directory, step), format_2_from)
    used = {segment.base: segment.used for segment in state.segments}
    for segment in state.segments:
        if segment.file is not None:
            segment.file.close()
    _count_orphans(findings)
    disk = RealDisk(directory)
    bases = _check_names(disk, bases, findings)
    books = RecoveredIndex(findings, bases)
    for base in bases:
        one = SegmentCheck(disk, base, used.get(base, 0), findings, books)
        findings.segments.append(one.run())
        step()
    for name in leftovers(names, bases):
        findings.notes.append(f"{JOURNAL}/{name} is left over and not used")


def _check_names(disk: RealDisk, bases: list[int], findings: Findings) -> list[int]:
    """Segments that are missing, and files that are not what their names say; returns the rest."""
    state = findings.state
    wrong = {one.base: one for one in state.places if not one.offset and one.what in UNUSABLE}
    for base, place in wrong.items():
        name = f"{JOURNAL}/{segment_name(base)}"
        lost, remedy, target = lost_in(place, state), RepairAction.NOTE, ""
        if base in bases:
            right = _right_base(disk, base, wrong, findings)
            remedy = RepairAction.MOVE if right is None else RepairAction.RENAME
            target = "" if right is None else segment_name(right)
        size = place.size if base in bases else 0
        findings.add(name, place.what, remedy, 0, size, lost, target)
    for place in state.places:
        if place.what == SHORT:
            name = f"{JOURNAL}/{segment_name(place.base)}"
            findings.add(name, SHORT, RepairAction.NOTE, place.offset, 0, lost_in(place, state))
    return [base for base in bases if base not in wrong]


def _right_base(
    disk: RealDisk, base: int, candidates: Iterable[int], findings: Findings
) -> int | None:
    """Of which segment the file is, as the sums of its records say."""
    with closing(disk.open(segment_name(base))) as file:
        data = Segment(base, file.size(), file).read(base, min(file.size(), FIRST_BYTES))
    for one in candidates:
        if any(
            isinstance(step, SegmentRecord) for step in walk(data, one, findings.state.seed(one))
        ):
            return one
    return None


def _count_orphans(findings: Findings) -> None:
    """Messages of queues that are not declared: the broker drops those of deleted queues."""
    if findings.queues is None:
        return
    for number, index in findings.state.queues.items():
        if number not in findings.queues:
            live = sum(index.settled.count_missing(one.first, one.stop) for one in index.entries())
            if live:
                findings.orphans[number] = live
    findings.kept = findings.declarations.orphans(findings.orphans)
