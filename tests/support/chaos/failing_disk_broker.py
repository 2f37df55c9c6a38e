"""A broker whose disk does as it is told: a file says what is wrong with it at the moment.

Run as a program it is that broker; imported, it is the means to start and hurt it.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.core.loop_turn import Flushable
from headrace.core.storage import Storage
from headrace.server.amqp.confirms import Confirms
from headrace.testing.broker_process import BrokerProcess

ORDERS = "SABOTAGE"
FINE, SYNC_FAILS, FULL, SLOW = "", "sync fails", "full", "slow"
NO_NOTES = "full for checkpoints"  # while segments have got their space
LIES = "confirms at once"  # to be ordered before the start
SLOW_SECONDS = 0.5


class Saboteur(BrokerProcess):
    """Start it like any other node; then `order()` a fault, or FINE again."""

    def __init__(self, directory: Path, *flags: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._orders = directory / "orders"
        self.order(FINE)
        super().__init__(
            directory,
            "--segment-size",
            "64KiB",
            *flags,
            env={ORDERS: str(self._orders)},
            command=(sys.executable, __file__, "serve"),
        )

    def order(self, fault: str) -> None:
        new = self._orders.with_suffix(".new")
        new.write_text(fault)
        new.replace(self._orders)


def _sabotage(orders: Path) -> None:
    """Replace the calls by which the log reaches the disk."""

    def spoiled(call: Callable[..., Any], faults: dict[str, Callable[[], None]]) -> Any:  # noqa: ANN401
        def instead(*args: object) -> object:
            faults.get(orders.read_text(), lambda: None)()
            return call(*args)

        return instead

    def fail(code: int) -> Callable[[], None]:
        def raise_it() -> None:
            raise OSError(code, os.strerror(code))

        return raise_it

    full = {FULL: fail(errno.ENOSPC)}
    no_room = {**full, NO_NOTES: fail(errno.ENOSPC)}
    sync = {SYNC_FAILS: fail(errno.EIO), SLOW: lambda: time.sleep(SLOW_SECONDS)}
    sync[LIES] = lambda: time.sleep(SLOW_SECONDS / 10)  # so that there is something to lie about
    os.fdatasync = spoiled(os.fdatasync, sync)
    os.posix_fallocate = spoiled(os.posix_fallocate, full)
    os.pwrite = _by_kind(spoiled(os.pwrite, full), spoiled(os.pwrite, no_room))
    if orders.read_text() == LIES:
        add = Confirms.add
        Confirms.add = lambda self, count, _, refused=None: add(self, count, 0, refused)  # type: ignore[method-assign]
        Storage.wait_for_commit = _mark_at_once  # type: ignore[method-assign]


def _mark_at_once(self: Storage, session: Flushable) -> None:
    if not session.marked:
        self._turn.mark_session(session)


def _by_kind(segments: Callable[..., int], others: Callable[..., int]) -> Callable[..., int]:
    """Segments are written by one call, and files without space of their own by the other."""

    def write(fd: int, *rest: Any) -> int:  # noqa: ANN401
        name = os.readlink(f"/proc/self/fd/{fd}")
        return (segments if name.endswith(".log") else others)(fd, *rest)

    return write


if __name__ == "__main__":
    from headrace.cli.main import main

    _sabotage(Path(os.environ[ORDERS]))
    sys.exit(main())
