"""Removal of dead messages from a queue, a few per step, over as many loop turns as it takes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from headrace.core.loop_turn import LoopTurn, Steps, log_failure
from headrace.model.message import Run


@dataclass(slots=True, eq=False, repr=False)
class DeadMessageRemoval:
    """Messages that have left the backlog and are not dead-lettered yet, with their reasons."""

    turn: LoopTurn
    pieces: Callable[[Run], Iterable[Run]]  # a run in the parts that are removed in one step each
    remove: Callable[[Run, str], None]
    is_running: bool = False
    closed: bool = False
    _waiting: deque[tuple[list[Run], str]] = field(default_factory=deque)

    def add(self, runs: list[Run], reason: str) -> None:
        self._waiting.append((runs, reason))
        if not self.is_running:
            self.is_running = True
            self.turn.run(self._steps(), self._finished)

    def _steps(self) -> Steps:
        while self._waiting:
            runs, reason = self._waiting.popleft()
            for run in runs:
                for piece in self.pieces(run):
                    if self.closed:
                        return
                    self.remove(piece, reason)
                    yield

    def _finished(self, error: Exception | None) -> None:
        self.is_running = False
        log_failure(error)
        if self.closed:
            self._waiting.clear()
        elif self._waiting:
            self.add([], "")

    def close(self) -> None:
        self.closed = True
        self.pieces, self.remove = lambda run: (), lambda run, reason: None  # see AckTimeouts
