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
from headrace.model.shard_ownership import ShardRow, StandbyDecision, StandbyWatch
from headrace.store.disk import Disk
from headrace.store.shared.cache import ShardCache
from headrace.store.shared.database import ShardDatabase
from headrace.store.shared.disk import SharedDisk, SharedFiles
from headrace.store.shared.metadata import SharedMetadata
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
        self._process = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"[-64:]
        self._database = self._connect()
        self._watch = StandbyWatch(settings.lease, max_step=4 * POLL_S)
        self._cache = ShardCache(settings.directory, settings.shard)
        self.owner = ""  # the node that has the shard

    def _connect(self) -> ShardDatabase:
        settings = self._settings
        return ShardDatabase(parse_url(settings.url), settings.shard, lease=settings.lease)

    def wait(self, stop: threading.Event) -> Owner | None:
        """Until the shard is this node's; None when it is to stop before that."""
        self._repeat(self._enter, stop)
        while not stop.is_set():
            if (taken := self._look(stop)) is not None:
                return self._own(taken)
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

    def _look(self, stop: threading.Event) -> ShardRow | None:
        """The row that this node's take-over has left, if it did take over."""
        try:
            self._beat()
            status = self._database.status()
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
            if fault.kind is not FaultKind.AGAIN:
                logger.warning("the database of the shard does not answer: %s", fault)
        return None

    def _beat(self, database: ShardDatabase | None = None) -> None:
        settings = self._settings
        if not (database or self._database).beat(
            settings.node, self._process, address=settings.address, version=__version__,
            cached=self._cache.row.seq,
        ):  # fmt: skip
            raise ConfigError(f"share: another process is node '{settings.node}' of this shard")

    def _take(self, seen: ShardRow) -> ShardRow | None:
        settings = self._settings
        incarnation = secrets.token_hex(16)
        reason = "released" if seen.owner is None else f"node '{self.owner}' does not commit"
        try:
            is_taken = self._database.take_over(
                seen, incarnation, node=settings.node, address=settings.address, reason=reason
            )
        except Fault:
            # Perhaps it was done. Another attempt is another incarnation.
            is_taken = self._database.status().row.owner == incarnation
        if not is_taken:
            return None
        row = ShardRow(seen.epoch + 1, seen.seq + 1, incarnation)
        logger.warning("this node takes the shard over (%s), epoch %d", reason, row.epoch)
        return row

    def _own(self, taken: ShardRow) -> Owner:
        """Bring the copy up to date with exactly what the take-over found."""
        while True:
            try:
                if self._cache.update(self._database, taken):
                    break
                if (now := self._database.status().row) != taken:
                    raise ShardLost(f"the shard was taken over at once: {now}")
            except Fault as fault:
                logger.warning("reading the shard's files again: %s", fault)
                self._database.close()
            threading.Event().wait(POLL_S)
        self._cache.remove_marker()
        writer = ShardWriter(self._database, taken, self._settings.lease)
        return Owner(
            self._settings,
            writer,
            self._cache,
            beat=partial(self._beat, self._connect()),  # beside commits, which may take long
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
        beat: Callable[[], None],
        leave: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._writer = writer
        self._cache = cache
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
        self._thread = threading.Thread(target=self._keep, name="headrace-lease", daemon=True)
        self._thread.start()

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
        while not self._stopping.wait(self._settings.lease / 10):
            try:
                if self._loop_turned.is_set():
                    if self._call_soon is not None:
                        self._loop_turned.clear()
                        self._call_soon(self._loop_turned.set)
                    self._writer.renew()
                self._note_lease(self._writer.lease.is_over(boottime()))
                with suppress(Fault):  # commits report a database that does not answer
                    self._beat()
            except RuntimeError:
                return  # the loop is closed
            except (ConfigError, StoreError) as error:
                self._notify(partial(self._on_lost, error))
                return

    def _note_lease(self, is_over: bool) -> None:
        if is_over != self._is_over:
            self._is_over = is_over
            logger.warning(
                "no commit for the lease of %g s: deliveries wait" if is_over
                else "commits succeed again after more than %g s", self._settings.lease,
            )  # fmt: skip
            self._notify(partial(self._on_lease, not is_over))

    def _notify(self, callback: Callable[[], None]) -> None:
        if self._call_soon is not None:
            self._call_soon(callback)

    def close(self) -> None:
        """After log and metadata: the last commit, then hand the shard over."""
        self._stopping.set()
        self._writer.stop()
        if self._thread.is_alive():
            self._thread.join(self._settings.lease)
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


def _is_dead_here(process: str) -> bool:
    """Whether it was a process of this machine that has ended."""
    host, _, rest = process.partition(":")
    pid = rest.partition(":")[0]
    return host == socket.gethostname() and pid.isdigit() and not Path(f"/proc/{pid}").exists()
