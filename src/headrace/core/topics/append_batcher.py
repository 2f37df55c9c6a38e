"""Appends of many publishers to one topic of a blocking engine, put together into few calls.

While one call runs the next one gathers, as in the log's group commit. Nothing waits for
company: the first append goes at the end of the turn in which it came.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from headrace.core.topics.async_engine import EngineReply, Then
from headrace.errors import BadTopicValue, BodyTooLarge, EngineUnavailable
from headrace.store.topics.types import Entry

MAX_ROWS = 1000  # of one call
MAX_BYTES = 1 << 20
MAX_BEHIND = 64 << 20  # bytes that wait; more are refused

Call = Callable[[Sequence[Entry], Then[list[int]]], None]
Gate = Callable[[Then[None]], None]


class _PendingAppend(NamedTuple):
    entries: Sequence[Entry]
    size: int
    then: Then[list[int]]


class AppendBatcher:
    """One topic's appends, in the order in which they came."""

    def __init__(self, call: Call, soon: Callable[[Callable[[], None]], None]) -> None:
        """``call`` appends in a thread; ``soon`` calls back at the end of this turn."""
        self._call = call
        self._soon = soon
        self._wishes: deque[_PendingAppend] = deque()
        self._behind = 0
        self._busy = False
        self.gate: Gate | None = None  # asked before each call; an error there is the answer

    def append(self, entries: Sequence[Entry], then: Then[list[int]]) -> None:
        size = sum(len(entry.body) for entry in entries)
        if self._behind and self._behind + size > MAX_BEHIND:
            text = f"{self._behind} bytes wait for the topic's engine; nothing was appended, retry"
            then(EngineReply(error=EngineUnavailable(text)))
            return
        self._behind += size
        self._wishes.append(_PendingAppend(entries, size, then))
        if not self._busy:
            self._busy = True
            self._soon(self._next)

    def _next(self) -> None:
        if not self._wishes:
            self._busy = False
        elif self.gate is not None:
            self.gate(self._passed)
        else:
            self._start(self._take())

    def _passed(self, answer: EngineReply[None]) -> None:
        if answer.error is None:
            self._start(self._take())
        else:
            self._tell(self._take(), EngineReply(error=answer.error))
            self._soon(self._next)

    def _take(self) -> list[_PendingAppend]:
        taken = [self._wishes.popleft()]
        rows, size = len(taken[0].entries), taken[0].size
        while self._wishes:
            wish = self._wishes[0]
            rows, size = rows + len(wish.entries), size + wish.size
            if rows > MAX_ROWS or size > MAX_BYTES:
                break
            taken.append(self._wishes.popleft())
        return taken

    def _start(self, taken: list[_PendingAppend]) -> None:
        def done(answer: EngineReply[list[int]]) -> None:
            if len(taken) > 1 and isinstance(answer.error, (BadTopicValue, BodyTooLarge)):
                # One of them is bad, and nothing was stored: each on its own.
                self._wishes.extendleft(reversed(taken[1:]))
                self._start(taken[:1])
                return
            self._tell(taken, answer)
            if isinstance(answer.error, EngineUnavailable):  # maybe refused at once: no recursion
                self._soon(self._next)
            else:
                self._next()

        self._call([entry for wish in taken for entry in wish.entries], done)

    def _tell(self, taken: list[_PendingAppend], answer: EngineReply[list[int]]) -> None:
        ids = answer.value or []
        at = 0
        for wish in taken:
            self._behind -= wish.size
            if answer.error is not None:
                wish.then(EngineReply(error=answer.error))
            else:
                wish.then(EngineReply(ids[at : at + len(wish.entries)]))
            at += len(wish.entries)
