"""Starting once, stopping once, and never on after a fork."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable
from threading import RLock

from headrace.rocketmq.errors import ForkError, StateError
from headrace.rocketmq.health import State

logger = logging.getLogger(__name__)

_live: weakref.WeakSet[Lifecycle] = weakref.WeakSet()


class Lifecycle:
    """The state of one producer or consumer."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.state = State.CREATED
        self.lock = RLock()
        self.on_fork: Callable[[], None] | None = None
        self._pid = os.getpid()

    def begin(self) -> bool:
        """False when it runs already; an exception when it cannot run any more."""
        self.refuse_fork()
        if self.state in (State.STARTING, State.RUNNING):
            return False
        if self.state is not State.CREATED:
            raise StateError(f"{self.what} was shut down; make a new one")
        self.state = State.STARTING
        self._pid = os.getpid()
        _live.add(self)
        return True

    def failed(self) -> None:
        """start() did not succeed and may be tried again."""
        self.state = State.CREATED
        _live.discard(self)

    def end(self) -> bool:
        """False when there is nothing to stop."""
        if self.state is not State.RUNNING:
            if self.state is State.CREATED:
                self.state = State.STOPPED
            return False
        self.state = State.STOPPING
        return True

    def ended(self) -> None:
        self.state = State.STOPPED
        _live.discard(self)

    def check_running(self) -> None:
        self.refuse_fork()
        if self.state is not State.RUNNING:
            raise StateError(f"{self.what} is {self.state.value}; call start() first")

    def refuse_fork(self) -> None:
        if self.state is State.FORKED or (
            self.state is not State.CREATED and self._pid != os.getpid()
        ):
            raise ForkError(
                f"{self.what} was started in process {self._pid} and does not work in process "
                f"{os.getpid()}, which was forked from it: threads and connections are not "
                "copied. Make and start it in the child, or start processes with 'spawn'"
            )


def _after_fork() -> None:
    """In the child: nothing that was started works here, and that must not go unseen."""
    for one in list(_live):
        if one.state in (State.STARTING, State.RUNNING, State.STOPPING):
            one.state = State.FORKED
            if one.on_fork is not None:
                one.on_fork()
    _live.clear()


os.register_at_fork(after_in_child=_after_fork)
