"""One turn of the event loop: read all, dispatch all, write all.

While the input of a turn is parsed, queues and sessions only mark themselves. When all sockets that
had data are read, each marked queue dispatches once and each marked session writes once, so the
cost per message falls as the load rises.

Invariants

- ``marked`` is True exactly while the queue or session is on the list of this turn, so it is there
  at most once. It is cleared before dispatch() or flush(), which may mark again.
- Order of finish(): long work, dispatch, the log begins its commit, sessions write, callbacks of
  at_end(). Queues that dispatch() marks (dead letters) are dispatched in the same turn; what is
  marked while sessions write belongs to the next turn.
- Confirms are written only by flush(), after the log was given everything that they depend on.
- finish() is scheduled at most once at a time, and whenever a list is not empty.
- Long work runs as steps. Between two steps everything is in a state that others may see. Each
  piece of work and each client's input gets at most SHARE of processor time per turn, all of them
  together about TURN; what is left waits in rotation. A client waits for the end of the work that
  it has requested; others do not.
- An exception of one queue, session or worker is logged and does not keep others from their turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from time import thread_time
from typing import Protocol

logger = logging.getLogger(__name__)

SHARE = 0.002  # seconds of the processor for one client's input, or one piece of long work
TURN = 0.008  # for all of them in one turn

Steps = Iterator[None]  # long work; between two steps everything is as others may see it


class Asker(Protocol):
    """A client whose request is being carried out."""

    def hold(self) -> None:
        """The request takes longer: go on with the next one when it is done."""

    def release_hold(self) -> None: ...


class Worker(Protocol):
    def work(self) -> None:
        """Go on for one share of time; ask for another if there is more to do."""


class Dispatchable(Protocol):
    marked: bool

    def dispatch(self) -> None:
        """Deliver ready messages to consumers."""


class Flushable(Protocol):
    marked: bool

    def flush(self) -> None:
        """Send what has been collected."""


def log_failure(error: Exception | None) -> None:
    if error is not None:
        logger.error("long work failed", exc_info=error)


class LoopTurn:
    """What is left to do at the end of this turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queues: list[Dispatchable] = []
        self._sessions: list[Flushable] = []
        self._afterwards: list[Callable[[], None]] = []
        self._light: deque[Worker] = deque()  # of clients with little to do
        self._heavy: deque[Worker] = deque()
        self._used = 0.0  # seconds of this turn that went into input
        self.is_late = False  # this turn has taken long enough: what comes now waits for its share
        self._scheduled = False
        self.is_paused = False  # nothing is delivered
        self.asker: Asker | None = None  # who asked for what is being done now
        self.before_writing: Callable[[], None] = lambda: None  # the log begins its commit

    def at_end(self, callback: Callable[[], None]) -> None:
        """Call back when everything of this turn is written."""
        self._afterwards.append(callback)
        if not self._scheduled:
            self._schedule()

    def request_end(self) -> None:
        """Finish this turn even if nothing is marked: there is something to commit."""
        if not self._scheduled:
            self._schedule()

    def mark_queue(self, queue: Dispatchable) -> None:
        """The queue has messages or credit it had not before. Callers test ``marked`` first."""
        queue.marked = True
        self._queues.append(queue)
        if not self._scheduled:
            self._schedule()

    def mark_session(self, session: Flushable) -> None:
        """The session has bytes to write. Callers test ``marked`` first."""
        session.marked = True
        self._sessions.append(session)
        if not self._scheduled:
            self._schedule()

    # -- shares of time -------------------------------------------------------------------------

    def note_used(self, seconds: float) -> None:
        """So much time of this turn went into input."""
        self._used += seconds
        self.is_late = self._used > TURN
        if not self._scheduled:
            self._schedule()

    def later(self, worker: Worker, *, light: bool = False) -> None:
        """Give the worker a share when it is next in rotation; light ones come first."""
        (self._light if light else self._heavy).append(worker)
        if not self._scheduled:
            self._schedule()

    def run(self, steps: Steps, then: Callable[[Exception | None], None] = log_failure) -> None:
        """Do long work: one share now, others in later turns; ``then`` gets what it failed with.

        The client that asked for it, if any, waits for the end; others do not.
        """
        work = _Work(self, steps, then)
        work.work()
        if not work.is_done and self.asker is not None:
            work.asker = self.asker
            self.asker.hold()

    def _work(self) -> None:
        light, heavy = self._light, self._heavy
        count = len(light) + len(heavy)
        deadline = thread_time() + TURN if count > 1 else 0.0
        # Those who ask again wait for the next turn; light ones do not keep all others waiting.
        for index in range(count):
            worker = (light if light and (index % 2 == 0 or not heavy) else heavy).popleft()
            try:
                worker.work()
            except Exception:
                logger.exception("input or long work failed")
            if index + 1 < count and thread_time() > deadline:
                break

    def pause_dispatch(self, is_paused: bool) -> None:
        """Deliver nothing, or what has waited since."""
        self.is_paused = is_paused
        if not is_paused and not self._scheduled:
            self._schedule()

    def run_callback(self, callback: Callable[[], None]) -> None:
        """Do what another thread asks for, as after a commit, and end the turn: now if it has no
        end yet, without another round of the loop."""
        has_end, self._scheduled = self._scheduled, True
        try:
            callback()
        finally:
            if not has_end:
                self.finish()

    # -- the end of a turn ----------------------------------------------------------------------

    def _schedule(self) -> None:
        self._scheduled = True
        self._loop.call_soon(self.finish)

    def finish(self) -> None:
        """Work, dispatch and write."""
        self._scheduled = True
        if self._light or self._heavy:
            self._work()
        self._used, self.is_late = 0.0, False
        while self._queues and not self.is_paused:
            queues, self._queues = self._queues, []
            for queue in queues:
                queue.marked = False
                try:
                    queue.dispatch()
                except Exception:
                    logger.exception("a queue failed to deliver")
        self._scheduled = False  # what comes up from here on is for the next turn
        if self._light or self._heavy:
            self._schedule()
        self.before_writing()
        sessions, self._sessions = self._sessions, []
        for session in sessions:
            session.marked = False
            try:
                session.flush()
            except Exception:
                logger.exception("a session failed to write")
        afterwards, self._afterwards = self._afterwards, []
        for callback in afterwards:
            callback()


class _Work:
    """Long work, as steps, and what comes after it."""

    __slots__ = ("_steps", "_then", "_turn", "asker", "is_done")

    def __init__(
        self, turn: LoopTurn, steps: Steps, then: Callable[[Exception | None], None]
    ) -> None:
        self.asker: Asker | None = None
        self.is_done = False
        self._turn = turn
        self._steps = steps
        self._then = then

    def work(self) -> None:
        deadline = thread_time() + SHARE
        failure: Exception | None = None
        before, self._turn.asker = self._turn.asker, self.asker or self._turn.asker
        try:
            for _ in self._steps:
                if thread_time() > deadline:
                    self._turn.later(self)
                    return
        except Exception as error:
            failure = error
        finally:
            self._turn.asker = before
        self.is_done = True
        try:
            self._then(failure)
        finally:
            if self.asker is not None:
                self.asker.release_hold()
