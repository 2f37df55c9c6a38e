"""Taps of topics in other engines: their messages are read with a cursor of this node's own.

Other nodes append there too, so what a publisher here does is not enough: the topic is tailed.
A batch is committed when the queues have it on disk; after a crash in between it comes again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.core.topics.async_engine import CancelRead, EngineReply, Then
from headrace.core.topics.exchange_bridge import ExchangeBridge
from headrace.errors import BrokerError, NoSuchTopic
from headrace.model.topics.message_priority import Priority
from headrace.store.topics.entry import EntryFields
from headrace.store.topics.types import LATEST, ConsumerSpec, ReadResult, StoredMessage

if TYPE_CHECKING:
    from headrace.core.clock import Timer, Timers
    from headrace.core.storage import Storage
    from headrace.core.topics.blocking_adapter import BlockingAdapter

logger = logging.getLogger(__name__)

BATCH = 500
WAIT_MS = 10_000
PAUSE_MS = 1000  # after a failure


class DatabaseTap:
    """Follows one topic from the moment its cursor is placed: a binding is answered then."""

    def __init__(
        self,
        engine: BlockingAdapter,
        topic: str,
        bridge: ExchangeBridge,
        storage: Storage,
        timers: Timers,
        token: str,
        *,
        is_new: bool,
    ) -> None:
        """``is_new``: with what comes from now on, not where a tap of this node stopped."""
        self._engine = engine
        self._topic = topic
        self._bridge = bridge
        self._storage = storage
        self._timers = timers
        self._reader = ConsumerSpec(token, start=LATEST)
        self._cancel: CancelRead | None = None
        self._timer: Timer | None = None
        self._claim: tuple[object, ...] = ()
        self._position = 0  # of the log: then the claim can be committed
        self._is_new = is_new
        self._is_placed = False  # the cursor is where it has to be
        self._bindings: list[Callable[[], None]] = []  # wait for the cursor, or for a failure
        self._is_reading = False
        self._appends: list[Then[None]] = []  # wait for the cursor
        self._stopped = False
        self._is_behind = False
        self.marked = False

    def start(self) -> None:
        self._engine.guard(self._topic, self._place)
        self._read()

    def _place(self, then: Then[None]) -> None:
        """What this node appends is never before the cursor's first place, or it were skipped."""
        self._appends.append(then)
        if not self._is_reading:
            self._read()

    def when_placed(self, then: Callable[[], None]) -> None:
        """Also when that fails: it is placed later then, and the failure is logged."""
        if self._is_placed or self._is_behind or self._stopped:
            then()
        else:
            self._bindings.append(then)

    def _let_go(self, error: BrokerError | None = None) -> None:
        bindings, self._bindings = self._bindings, []
        for bound in bindings:
            bound()
        appends, self._appends = self._appends, []
        for then in appends:
            then(EngineReply(error=error))

    def stop(self) -> None:
        self._stopped = True
        self._engine.guard(self._topic, None)
        self._let_go()
        if self._cancel is not None:
            self._cancel()
        if self._timer is not None:
            self._timer.cancel()

    def _read(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._is_reading = True
        if self._is_new:
            self._engine.submit(
                lambda engine: engine.forget_group(self._topic, self._reader), self._forgotten
            )
            return
        wait_ms = WAIT_MS if self._is_placed else 0
        self._cancel = self._engine.read(self._topic, self._reader, BATCH, wait_ms, self._got)

    def _forgotten(self, answer: EngineReply[None]) -> None:
        self._is_reading = False
        if self._stopped:
            return
        if answer.error is not None:
            self._failed(answer.error)
            return
        self._is_new = False
        self._read()

    def _got(self, answer: EngineReply[ReadResult]) -> None:
        self._is_reading = False
        if self._stopped:
            return
        if answer.error is not None or answer.value is None:
            self._failed(answer.error)
            return
        self._is_behind = False
        if not self._is_placed:
            self._is_placed = True
            self._engine.guard(self._topic, None)
            self._let_go()
        messages, self._claim = answer.value
        self._position = self._bridge.give(self._topic, [_parts_of(one) for one in messages])
        self.flush()

    def flush(self) -> None:
        """The log got further: maybe far enough."""
        if self._stopped:
            return
        if self._position > self._storage.synced:  # the queues may have a weaker level
            self._storage.wait(self)
            self._storage.sync()
        elif self._claim:
            claim, self._claim = self._claim, ()
            self._engine.submit(
                lambda engine: engine.commit(self._topic, self._reader, claim), self._committed
            )
        else:
            self._read()

    def _committed(self, answer: EngineReply[None]) -> None:
        if answer.error is not None:
            self._failed(answer.error)
        elif not self._stopped:
            self._read()

    def _failed(self, error: BrokerError | None) -> None:
        was_behind, self._is_behind = self._is_behind, True
        self._let_go(error)
        if isinstance(error, NoSuchTopic) or self._stopped:
            return
        if not was_behind:  # once is enough: it may take hours
            logger.warning("topic '%s' cannot be read at present: %s", self._topic, error)
        self._timer = self._timers.after(PAUSE_MS, self._read)


def _parts_of(message: StoredMessage) -> tuple[Priority, EntryFields]:
    fields: tuple[Any, ...] = message[4:12]
    return message.priority, EntryFields(*fields)
