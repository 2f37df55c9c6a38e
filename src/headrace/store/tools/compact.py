"""Compacting a log at once, without a broker: whatever is dead gives its space back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.errors import StoreError
from headrace.model.policy import Policy, effective
from headrace.model.queue_arguments import queue_settings
from headrace.store.api.metadata import Declarations
from headrace.store.consistency import numbers_to_retain
from headrace.store.data_directory import JOURNAL, read_format, write_format
from headrace.store.disk import RealDisk
from headrace.store.log.commit_log import CommitLog
from headrace.store.log.compaction import CompactionRule
from headrace.store.log.group_commit import RESERVE
from headrace.store.log.segment import Segment
from headrace.store.tools.offline import LogDriver, read_declarations

_WORTH_IT = 0.9  # less of a segment alive than that: it is written again


@dataclass(frozen=True, slots=True)
class SpaceUsed:
    """What a log takes."""

    segments: int
    bytes: int
    messages: int

    def as_json(self) -> dict[str, int]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _ChosenSegments(CompactionRule):
    """Only segments that were there at the beginning: what is written now is as small as it is."""

    bases: frozenset[int] = frozenset()

    def fits(self, segment: Segment) -> bool:
        return segment.live > 0 and segment.base in self.bases


def compact(path: Path, progress: Callable[[int, int], None]) -> tuple[SpaceUsed, SpaceUsed]:
    """Before and after. The directory must be held."""
    journal = path / JOURNAL
    declarations = read_declarations(path)
    before = _files(journal)
    try:
        noted = read_format(path)
        log = CommitLog(RealDisk(journal), lambda: time.time_ns() // 1_000_000, format_2_from=noted)
        if noted != log.segments.format_2_from:
            write_format(path, log.segments.format_2_from)
        log.index.retain_only(numbers_to_retain(declarations, log))
        _retain(log, declarations)
        messages = sum(segment.live for segment in log.segments)
        _run(log, progress)
        alive = sum(segment.live for segment in log.segments)
        # Compacting is no clean end of a broker that had none.
        log.close(clean=log.report.clean)
        after = _files(journal)
    except OSError as error:
        raise StoreError(f"cannot compact {path}: {error}") from error
    return SpaceUsed(*before, messages), SpaceUsed(*after, alive)


def _retain(log: CommitLog, declarations: Declarations) -> None:
    """Acknowledged messages that a queue still keeps are not dead."""
    policies: dict[str, list[Policy]] = {}
    for row in declarations.policies:
        policies.setdefault(row.vhost, []).append(Policy(**asdict(row)))
    for queue in declarations.queues:
        kind = str(queue.arguments.get("x-queue-type", "classic"))
        found = effective(policies.get(queue.vhost, ()), "queue", queue.name, kind)
        settings = queue_settings(queue.arguments, found.definition if found else {})
        log.space.set_retention(queue.id, settings.retention)
    log.index.release_settled()


def _run(log: CommitLog, progress: Callable[[int, int], None]) -> None:
    chosen = [
        one.base
        for one in log.segments
        if one.live < one.total or one.live_bytes < _WORTH_IT * one.used
    ]
    log.compactor.rule = _ChosenSegments(bases=frozenset(chosen))
    driver = LogDriver(log)
    while log.compactor.step():
        driver.wait_for(lambda: not log.is_writing)
        left = sum(1 for one in log.segments if one.base in chosen and one.live)
        progress(len(chosen) - left, len(chosen))
    for _ in range(2):  # a segment goes when neither of the kept checkpoints needs it
        log.checkpoint()
        driver.wait_for(lambda: not log.is_writing)


def _files(journal: Path) -> tuple[int, int]:
    """How many segments, and how many bytes on the disk."""
    segments = list(journal.glob("*.log"))
    # What is set aside for a full disk is neither used nor to be had.
    files = [file for file in journal.iterdir() if file.is_file() and file.name != RESERVE]
    return len(segments), sum(file.stat().st_blocks * 512 for file in files)
