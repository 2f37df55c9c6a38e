"""One turn of the event loop: everybody reads first, then queues deliver, then sockets are written.

While the chunks of a turn are parsed, queues and sessions only mark themselves. When all sockets
that had data have been read, each marked queue deals once and each marked session writes once, so
the cost per message falls as the load rises.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

logger = logging.getLogger(__name__)


class Pumped(Protocol):
    marked: bool

    def pump(self) -> None:
        """Give ready messages to consumers."""


class Flushed(Protocol):
    marked: bool

    def flush(self) -> None:
        """Send what has been collected."""


class Turn:
    """What is left to do at the end of this turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queues: list[Pumped] = []
        self._sessions: list[Flushed] = []
        self._afterwards: list[Callable[[], None]] = []
        self._scheduled = False
        self.before_writing: Callable[[], None] = lambda: None  # the journal begins its commit

    def at_end(self, callback: Callable[[], None]) -> None:
        """Call back when everything of this turn is written."""
        self._afterwards.append(callback)
        if not self._scheduled:
            self._schedule()

    def mark_queue(self, queue: Pumped) -> None:
        """The queue has messages or credit it had not before. Callers test ``marked`` first."""
        queue.marked = True
        self._queues.append(queue)
        if not self._scheduled:
            self._schedule()

    def mark_session(self, session: Flushed) -> None:
        """The session has bytes to write. Callers test ``marked`` first."""
        session.marked = True
        self._sessions.append(session)
        if not self._scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._scheduled = True
        self._loop.call_soon(self.finish)

    def finish(self) -> None:
        """Deal and write. A queue may mark others (dead letters): they are dealt in this turn."""
        self._scheduled = False
        while self._queues:
            queues, self._queues = self._queues, []
            for queue in queues:
                queue.marked = False
                try:
                    queue.pump()
                except Exception:
                    logger.exception("a queue failed to deliver")
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
