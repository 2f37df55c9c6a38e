"""The storage engines of a broker: opened, recovered, started, closed. Names the engines."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core.broker import Broker
from headrace.core.clock import Clock
from headrace.core.loop_turn import LoopTurn
from headrace.core.restore import restore
from headrace.core.storage import Storage
from headrace.errors import StoreError
from headrace.store.consistency import (
    find_older_copy,
    numbers_to_retain,
    readers_ahead,
    remove_dangling_rows,
)
from headrace.store.data_directory import (
    FORMAT_FILE,
    JOURNAL,
    DataDirectory,
    require_metadata,
)
from headrace.store.disk import RealDisk
from headrace.store.log.commit_log import SEGMENT_SIZE, CommitLog
from headrace.store.log.compaction import CompactionRule
from headrace.store.paging_files import Scratch
from headrace.store.sqlite.metadata import FILE_NAME, SqliteMetadata

if TYPE_CHECKING:  # its driver is an extra
    from headrace.store.shared.share import Owner

logger = logging.getLogger(__name__)

NOTE_TIME_SECONDS = 60
RESERVE_FOR_NOTES = 1 << 20  # checkpoints and indexes; acknowledgements need a segment


class BrokerStorage:
    """Everything a broker keeps in its data directory."""

    def __init__(
        self,
        path: Path,
        turn: LoopTurn,
        clock: Clock,
        *,
        segment_size: int = SEGMENT_SIZE,
        shard: Owner | None = None,
    ) -> None:
        """``clock`` stamps what is written: its time to live goes on over a restart. ``shard``:
        the directory is a cache of it."""
        started = time.monotonic()
        self._clock = clock
        self._shard = shard
        self.on_lease: Callable[[bool], None] = lambda is_kept: None
        self._next_note: asyncio.TimerHandle | None = None
        self._directory = DataDirectory(path, None if shard is None else shard.locks)
        try:
            require_metadata(path)
            self._metadata = SqliteMetadata(path) if shard is None else shard.metadata(path)
            self._declarations = self._metadata.load()
            # Version 1 has a directory before it has a checkpoint.
            is_old = self._directory.format_2_from is None and (path / JOURNAL).is_dir()
            self._log = CommitLog(
                RealDisk(path / JOURNAL) if shard is None else shard.disk(path / JOURNAL),
                now_ms=lambda: int(clock.wall_seconds() * 1000),
                expiry_ms=clock.expiry_ms,
                segment_size=segment_size,
                compaction=CompactionRule(size=segment_size // 4),
                reserve=segment_size + RESERVE_FOR_NOTES,
                format_2_from=self._directory.format_2_from,
            )
            self._directory.save_format(self._log.segments.format_2_from)
            if shard is not None:
                shard.keep_file(FORMAT_FILE)
            clock.go_on_from(self._directory.saved_time(), self._log.last_time)
            self._sort_out(path)
        except OSError as error:
            self._directory.close()
            raise _unusable(path, error) from error
        except BaseException:
            self._directory.close()
            raise
        declared = self._declarations.destinations()
        if self._log.report.is_empty and declared and not is_old:
            self._log.report.damaged(
                f"the log is gone, with all messages of {_counted(len(declared), 'queue')}"
            )
        ahead = readers_ahead(self._declarations, self._log.reads.next_offset)
        for one in ahead:
            logger.error("%s; new ones get offsets from %d on", one, one.offset)
            self._log.index.raise_next_offset(one.number, one.offset)
        report = self._log.report
        if ahead or report.begin_epoch or report.damage or report.cut:
            self._log.index.begin_epoch(int(clock.wall_seconds() * 1000), declared)
        if not self._log.report.clean:
            self._log.index.mark_redelivered()
        self.storage = Storage(
            turn,
            log=self._log,
            metadata=self._metadata,
            scratch=Scratch(path),
            clean=self._log.report.clean,
        )
        self.summary = (
            f"{_counted(len(self._declarations.queues), 'queue')}, "
            f"{_counted(report.messages, 'message')}, recovered in "
            f"{time.monotonic() - started:.2f} s"
        )
        if report.damage:
            logger.warning("recovery: %d places damaged", len(report.damage))
        if report.cut:  # no harm: what a crash left unfinished was never confirmed
            logger.info("recovery: %d unfinished writes cut off", len(report.cut))

    def _sort_out(self, path: Path) -> None:
        """Compare what is declared with the log. What is damaged or has lost its parent is not
        served, and nothing of it is dropped."""
        declarations, log = self._declarations, self._log
        if older := find_older_copy(declarations, log.checkpointer.metadata_generation):
            raise StoreError(
                f"{path / FILE_NAME} cannot be used: {older}. Put the newer one back, or accept "
                f"this one with `headrace fsck {path} --repair`; nothing was changed"
            )
        self._metadata.set_aside(
            remove_dangling_rows(declarations), log.checkpointer.metadata_generation
        )
        for one in declarations.damaged:
            logger.error("%s: %s; it is not served, and kept for `headrace fsck`", FILE_NAME, one)
        if not declarations.damaged:  # else all that is not declared is an orphan
            orphans = declarations.orphans(log.index.queues) - declarations.orphaned
            self._metadata.save_orphans(one for one in orphans if log.reads.live(one)[0])
        log.index.retain_only(numbers_to_retain(declarations, log))

    def _metadata_committed(self, metadata_version: int) -> None:
        self._log.checkpointer.metadata_generation = self._metadata.generation
        self.storage.metadata_committed(metadata_version)

    def restore(self, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        """Declare what was declared; from then on changes are recorded."""
        restore(broker, self._declarations)
        self._log.index.release_settled()
        storage = self.storage

        def call_soon(callback: Callable[[], None]) -> None:
            loop.call_soon_threadsafe(broker.turn.run_callback, callback)

        full: dict[str, bool] = {}

        def on_full(where: str, is_full: bool) -> None:
            full[where] = is_full
            broker.alarms.set_disk_full(any(full.values()))

        self._log.checkpointer.metadata_generation = self._metadata.generation
        self._metadata.start(
            call_soon, self._metadata_committed, storage.failed, partial(on_full, FILE_NAME)
        )
        if self._shard is not None:
            broker.shared_status = self._shard.status
            self._shard.attach(
                call_soon,
                on_lease=self.on_lease,
                on_lost=storage.failed,
                on_full=partial(on_full, "shard"),
            )
        self._log.start(
            call_soon,
            on_durable=storage.log_committed,
            on_failure=storage.failed,
            on_full=partial(on_full, JOURNAL),
        )
        # The log may know a queue whose declaration a crash kept from the disk. Its number is
        # not given again: the next queue would inherit its messages.
        next_queue = max(self._declarations.next_queue_id, self._log.highest_queue + 1)
        storage.record_from_now_on(next_queue)
        if not self._declarations.vhosts:
            for name in broker.vhosts:
                storage.save_vhost(name)
        self._note_time()

    def _note_time(self) -> None:
        """So that the next start knows how long the broker was down."""
        self._directory.save_time(int(self._clock.wall_seconds() * 1000))
        # On the loop's own timer: years pass in one step on a virtual clock.
        loop = asyncio.get_running_loop()
        self._next_note = loop.call_later(NOTE_TIME_SECONDS, self._note_time)

    def close(self) -> None:
        if self._next_note is not None:
            self._next_note.cancel()
        self._directory.save_time(int(self._clock.wall_seconds() * 1000))
        if self._shard is not None:
            self._shard.close()
        self._directory.close()


def _unusable(path: Path, error: OSError) -> StoreError:
    advice = ""
    if isinstance(error, PermissionError):
        advice = "; everything in it must belong to the user that runs the broker"
    return StoreError(
        f"cannot use data directory {path}: {error.filename}: {error.strerror}{advice}"
    )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
