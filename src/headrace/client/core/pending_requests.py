"""The requests of a connection: sent and unanswered, or waiting for a connection. No I/O."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from headrace.client.core.channel_state import ChannelState, Completion
from headrace.client.core.requests import ClientRequest
from headrace.client.errors import HeadraceError, ProtocolViolation, RequestTimeout

MAX_LOSSES = 8


@dataclass(slots=True)
class PendingRequest:
    call: ClientRequest[Any]
    channel: ChannelState | None
    completion: Completion
    deadline: float
    losses: int = 0  # of the connection, while it waited for its answer


class PendingRequests:
    """Every request gets its result exactly once: a reply, an error, or a time-out."""

    def __init__(self) -> None:
        self._sent: dict[int, PendingRequest] = {}
        self._waiting: deque[PendingRequest] = deque()
        self._results: list[tuple[Completion, Any, BaseException | None]] = []

    # -- the way of a request --------------------------------------------------------------------

    def keep(self, pending: PendingRequest) -> None:
        """There is no connection: it waits."""
        self._waiting.append(pending)

    def take_waiting(self) -> Iterator[PendingRequest]:
        waiting, self._waiting = self._waiting, deque()
        return iter(waiting)

    def sent(self, rid: int, pending: PendingRequest) -> None:
        self._sent[rid] = pending

    def find(self, rid: int) -> PendingRequest | None:
        """Whose reply this is; it is not in the table any more."""
        return self._sent.pop(rid, None)

    def succeed(self, pending: PendingRequest, reply: Mapping[str, Any]) -> None:
        try:
            result = pending.call.finish(reply)
        except (KeyError, TypeError, ValueError) as error:
            self.fail(pending, ProtocolViolation(f"cannot use the broker's reply: {error!r}"))
        else:
            self._results.append((pending.completion, result, None))

    def fail(self, pending: PendingRequest, error: Exception) -> None:
        if pending.call.failed is not None:
            pending.call.failed(error)
        if isinstance(error, HeadraceError):
            error = error.again()  # the same error may fail many
        self._results.append((pending.completion, None, error))

    # -- when there is no reply ------------------------------------------------------------------

    def expire(self, now: float) -> None:
        """Fail what has waited too long; late replies are ignored."""
        self._give_up(lambda pending: pending.deadline < now)

    def abandon(self, completion: Completion) -> None:
        """Drop a request that no caller waits for."""
        self._give_up(lambda pending: pending.completion is completion)

    def _give_up(self, is_due: Callable[[PendingRequest], bool]) -> None:
        for rid, pending in [item for item in self._sent.items() if is_due(item[1])]:
            del self._sent[rid]
            self.fail(pending, RequestTimeout("no answer in time"))
        for pending in [one for one in self._waiting if is_due(one)]:
            self._waiting.remove(pending)
            self.fail(pending, RequestTimeout("no connection in time; the request was not sent"))

    def lost(self, error: HeadraceError) -> None:
        """The connection is gone: what may be repeated waits for the next one, the rest fails.

        So does what has lost too many: the broker may hang up because of it.
        """
        sent, self._sent = self._sent, {}
        again = []
        for pending in sent.values():
            pending.losses += 1
            if pending.call.repeatable and pending.losses < MAX_LOSSES:
                again.append(pending)
            else:
                self.fail(pending, error)
        self._waiting.extendleft(reversed(again))

    def fail_all(self, error: HeadraceError) -> None:
        self.lost(error)
        for pending in self.take_waiting():
            self.fail(pending, error)

    # -- results ---------------------------------------------------------------------------------

    def take_results(self) -> Callable[[], None]:
        """What hands over the results that are due.

        Call it where a program's own code may run: futures call their callbacks.
        """
        if not self._results:
            return _nothing_due
        results, self._results = self._results, []
        return partial(_hand_over, results)


def _nothing_due() -> None:
    pass


def _hand_over(results: list[tuple[Completion, Any, BaseException | None]]) -> None:
    for completion, result, error in results:
        if completion.done():
            continue
        with contextlib.suppress(Exception):  # cancelled by its owner in this very moment
            if error is not None:
                completion.set_exception(error)
            else:
                completion.set_result(result)
