"""A node's part in a shard: standing by, taking over, owning, handing over."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from headrace import __version__
from headrace.errors import ConfigError, StoreError
from headrace.model.shard_ownership import ShardRow, StandbyDecision, StandbyWatch, taken_over
from headrace.store.disk import Disk
from headrace.store.shared.cache import ShardCache, boot_id
from headrace.store.shared.database import ShardDatabase
from headrace.store.shared.disk import SharedDisk, SharedFiles
from headrace.store.shared.metadata import SharedMetadata
from headrace.store.shared.status import ShardReport
from headrace.store.shared.writer import ShardLost, ShardWriter, boottime
from headrace.store.sql.faults import Fault, FaultKind
from headrace.store.sql.url import parse_url

logger = logging.getLogger(__name__)

POLL_S: Final = 0.5
SEGMENT_SIZE: Final = 8 << 20  # so that removing one is a small transaction
_FOREVER: Final = (FaultKind.DENIED,)  # faults that waiting does not end


@dataclass(frozen=True, slots=True)
class ShareSettings:
    url: str
    shard: str
    node: str
    address: str  # of the AMQP port, as other nodes reach it
    directory: Path
    lease: float = 5.0


class Standby:
    """Watches the owner of a shard and keeps a copy of its files."""

    def __init__(self, settings: ShareSettings) -> None:
        self._settings = settings
        self._process = process_name()
        self._database = self._connect()
        self._watch = StandbyWatch(settings.lease, max_step=4 * POLL_S)
        self._cache = ShardCache(settings.directory, settings.shard)
        self.owner = ""  # the node that has the shard
        self._tried: ShardRow | None = None  # what the last attempt to take it over would leave
        self._tried_at = 0.0

    def _connect(self) -> ShardDatabase:
        settings = self._settings
        return ShardDatabase(parse_url(settings.url), settings.shard, lease=settings.lease)

    def wait(self, stop: threading.Event) -> Owner | None:
        """Until the shard is this node's; None when it is to stop before that."""
        self._repeat(self._enter, stop)
        while not stop.is_set():
            if (taken := self._look()) is not None:
                return self._own(taken, stop)
            stop.wait(POLL_S)
        self._leave()
        return None

    def _repeat(self, work: Callable[[], None], stop: threading.Event) -> None:
        """Until the database answers."""
        while not stop.is_set():
            try:
                work()
                return
            except Fault as fault:
                if fault.kind in _FOREVER:
                    raise ConfigError(f"share: {fault}") from fault
                logger.warning("the database of the shard does not answer: %s", fault)
                stop.wait(POLL_S)

    def _enter(self) -> None:
        """Two processes with one name would take each other for themselves."""
        self._database.create()
        node = self._settings.node
        before = self._database.process_of(node)
        if before is not None and before[0] != self._process:
            if not _is_dead_here(before[0]):
                threading.Event().wait(4 * POLL_S)
                if self._database.process_of(node) != before:
                    raise ConfigError(f"share: another process is node '{node}' of this shard")
            self._database.remove_node(node, before[0])

    def _look(self) -> ShardRow | None:
        """The row that this node's take-over has left, if it did take over."""
        try:
            self._beat()
            status = self._database.status()
            if status.row == self._tried:  # it was done after all
                return self._tried
            start = self._database.start_of(self._watch.seen.epoch + 1)
            if status.node != self.owner:
                self.owner = status.node
                logger.info("standing by: node '%s' has the shard", self.owner)
            decision = self._watch.look(
                status.row, start, boottime(), is_refused=_is_refused(status.address)
            )
            if decision is StandbyDecision.WENT_BACK:
                raise StoreError(
                    f"the database lost commits: it is at {status.row}, this node has seen "
                    f"{self._watch.seen}; nothing was changed"
                )
            if decision is StandbyDecision.TAKE:
                return self._take(status.row)
            self._cache.update(self._database)
            self._cache.save_marker()
        except Fault as fault:
            self._watch.missed()
            logger.log(
                logging.INFO if fault.kind is FaultKind.AGAIN else logging.WARNING,
                "the database of the shard does not answer: %s", fault,
            )  # fmt: skip
        except OSError as error:  # perhaps there is room when it is needed
            logger.error("the copy of the shard's files falls behind: %s", error)
        return None

    def _beat(self, database: ShardDatabase | None = None) -> None:
        settings = self._settings
        if not (database or self._database).beat(
            settings.node, self._process, address=settings.address, version=__version__,
            cached=self._cache.row.seq,
        ):  # fmt: skip
            raise ConfigError(f"share: another process is node '{settings.node}' of this shard")

    def _beat_and_look(self, database: ShardDatabase, report: ShardReport, row: ShardRow) -> None:
        self._beat(database)
        report.look(row, database.nodes(), database.take_overs(1), boottime())

    def _take(self, seen: ShardRow) -> ShardRow | None:
        """None when another was faster, or it is not known: the next look shows it."""
        settings = self._settings
        self._tried = taken_over(seen, secrets.token_hex(16))
        self._tried_at = boottime()
        reason = "released" if seen.owner is None else f"node '{self.owner}' does not commit"
        assert self._tried.owner is not None
        is_taken = self._database.take_over(
            seen, self._tried.owner, node=settings.node, address=settings.address, reason=reason
        )
        return self._tried if is_taken else None

    def _own(self, taken: ShardRow, stop: threading.Event) -> Owner | None:
        """Bring the copy up to date with exactly what the take-over found."""
        logger.warning("taking over the shard, epoch %d", taken.epoch)
        while True:
            try:
                if self._cache.update(self._database, taken):
                    break
                if (now := self._database.status().row) != taken:
                    raise ShardLost(f"the shard was taken over at once: {now}")
            except Fault as fault:
                logger.warning("reading all files of the shard again: %s", fault)
                self._database.close()
            if stop.wait(POLL_S):
                return None
        self._cache.remove_marker()
        writer = ShardWriter(self._database, taken, self._settings.lease, self._tried_at)
        return Owner(
            self._settings,
            writer,
            self._cache,
            beat=partial(self._beat_and_look, self._connect()),  # commits may take long
            leave=self._leave,
        )

    def _leave(self) -> None:
        try:
            self._database.remove_node(self._settings.node, self._process)
        except Fault as fault:
            logger.debug("the node stays listed: %s", fault)
        self._database.close()


class Owner:
    """The node that has the shard: its storage, and the thread that keeps the lease."""

    segment_size = SEGMENT_SIZE

    def __init__(
        self,
        settings: ShareSettings,
        writer: ShardWriter,
        cache: ShardCache,
        *,
        beat: Callable[[ShardReport, ShardRow], None],
        leave: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._writer = writer
        self._cache = cache
        self.locks = cache.locks
        self._beat = beat
        self._leave = leave
        writer.on_went_back = cache.remove_label
        self._files = SharedFiles(settings.directory, writer, cache.files)
        self._call_soon: Callable[[Callable[[], None]], object] | None = None
        self._on_lease: Callable[[bool], None] = lambda is_kept: None
        self._on_lost: Callable[[Exception], None] = lambda error: None
        self._stopping = threading.Event()
        self._loop_turned = threading.Event()
        self._loop_turned.set()
        self._is_over = False
        self._report = ShardReport(settings.shard, settings.node)
        self._threads = [
            threading.Thread(target=one, name="headrace-lease", daemon=True)
            for one in (self._keep, self._watch)  # the first may wait for the database
        ]
        for one in self._threads:
            one.start()

    def disk(self, directory: Path) -> Disk:
        return SharedDisk(directory, self._files)

    def metadata(self, directory: Path) -> SharedMetadata:
        return SharedMetadata(directory, self._files)

    def keep_file(self, name: str) -> None:
        """Another file of the data directory that the next owner needs."""
        self._files.replace(name)

    def attach(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        *,
        on_lease: Callable[[bool], None],
        on_lost: Callable[[Exception], None],
        on_full: Callable[[bool], None],
    ) -> None:
        """The loop has started. ``on_lease(False)``: deliver nothing until it is True."""

        def full(is_full: bool) -> None:
            call_soon(lambda: on_full(is_full))

        self._on_lease = on_lease
        self._on_lost = on_lost
        self._writer.on_full = full
        self._call_soon = call_soon

    def _keep(self) -> None:
        """A commit is the renewal. It is sent only while the event loop turns: an owner that hangs
        must lose the shard."""
        while not self._stopping.wait(min(self._settings.lease / 10, POLL_S)):
            try:
                if self._loop_turned.is_set():
                    self._loop_turned.clear()
                    self._notify(self._loop_turned.set)
                    self._writer.renew()
                with suppress(Fault):  # commits report a database that does not answer
                    self._beat(self._report, self._writer.done)
            except (ConfigError, StoreError) as error:
                self._notify(partial(self._on_lost, error))
                return

    def _watch(self) -> None:
        while not self._stopping.wait(self._settings.lease / 20):
            now = boottime()
            self._note_lease(self._writer.lease.is_over(now))
            age = now - self._writer.committed_at
            self._report.alarms(age, now, is_full=self._writer.is_full)

    def status(self) -> dict[str, object]:
        """For operators; may be called from any thread."""
        age = boottime() - self._writer.committed_at
        return self._report.shown(self._writer.done, age, has_lease=not self._is_over)

    def _note_lease(self, is_over: bool) -> None:
        if is_over != self._is_over:
            self._is_over = is_over
            logger.warning(
                "no commit for the lease of %g s: deliveries wait" if is_over
                else "commits succeed again after more than %g s", self._settings.lease,
            )  # fmt: skip
            self._notify(partial(self._on_lease, not is_over))

    def _notify(self, callback: Callable[[], None]) -> None:
        if self._call_soon is None:
            callback()  # nothing is served yet
            return
        with suppress(RuntimeError):  # the loop is closed
            self._call_soon(callback)

    def give_up_after(self, seconds: float) -> None:
        """It is to end: what the database does not take by then is not stored, and a standby gets
        the shard even if something else does not end."""

        def give_up() -> None:
            self._stopping.set()
            self._writer.give_up()

        waiting = threading.Timer(seconds, give_up)
        waiting.daemon = True
        waiting.start()

    def close(self) -> None:
        """After log and metadata: the last commit, then hand the shard over."""
        self._stopping.set()
        self._writer.stop()
        for one in self._threads:
            one.join(self._settings.lease)
        try:
            self._writer.flush()
            self._writer.release()
        except StoreError as error:
            logger.warning("the shard is not handed over: %s", error)
        self._leave()


def _is_refused(address: str) -> bool | None:
    """Whether nothing listens there; None when that cannot be known."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except ConnectionRefusedError:
        return True
    except (OSError, ValueError):
        return None
    return False


def process_name() -> str:
    """Of this process among all of all machines: of a boot, and of numbers inside a container."""
    numbers = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    return f"{boot_id()}:{numbers}:{os.getpid()}:{secrets.token_hex(4)}"


def _is_dead_here(process: str) -> bool:
    """Whether it was a process of this machine that has ended."""
    here, pid = process_name().split(":")[:2], process.split(":")[2:3]
    return process.split(":")[:2] == here and not Path(f"/proc/{pid[0]}").exists()
