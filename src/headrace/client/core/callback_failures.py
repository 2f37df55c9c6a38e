"""Callbacks and the messages that they fail to take: pauses, attempts, and an end. No I/O."""

from __future__ import annotations

import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from headrace.client.core.unsettled import Batch, Row, UnsettledDeliveries, name_of
from headrace.client.errors import AlreadySettled, HeadraceError
from headrace.client.properties import BasicProperties
from headrace.client.settings import OnFailure

logger = logging.getLogger(__name__)

Step = TypeVar("Step")  # what a call of a program's function gives
Taken = TypeVar("Taken", contravariant=True)
Callback = Callable[[str, BasicProperties, bytes], Any]
OnCancel = Callable[[str, HeadraceError], Any]
ATTEMPTS = 16
FIRST_PAUSE = 0.1  # seconds; each further one is twice as long
LAST_PAUSE = 30.0
_REMEMBERED = 10_000  # messages; the oldest are dropped, as others may have consumed them


class DeliveryHandler(Protocol):
    """An object that may be given in place of a callback."""

    def handle_delivery(
        self, consumer_tag: str, properties: BasicProperties, body: bytes, /
    ) -> object: ...


def callback_of(consumer: Callback | DeliveryHandler) -> Callback:
    """The function to call: ``consumer`` itself, or its method `handle_delivery`."""
    found = getattr(consumer, "handle_delivery", consumer)
    if not callable(found):
        raise TypeError(f"callback must be callable or have handle_delivery, not {consumer!r:.80}")
    return found


class Failures:
    """Settles the messages of one consumer whose callback failed."""

    def __init__(self, unsettled: UnsettledDeliveries, on_failure: OnFailure) -> None:
        self._unsettled = unsettled
        self._on_failure = on_failure
        self._attempts: dict[tuple[str, str], int] = {}

    def succeeded(self, row: Row) -> None:
        """Forget earlier attempts."""
        if self._attempts:
            self._attempts.pop(name_of(row), None)

    def failed(self, tag: int, row: Row, consumer_tag: str) -> None:
        """Call it in the handler of the exception, which is logged."""
        name = name_of(row)
        attempt = self._attempts.pop(name, 0) + 1
        is_last = self._on_failure is OnFailure.REQUEUE and attempt >= ATTEMPTS
        if is_last:
            logger.error(
                "callback of consumer %s failed for message %s after %d attempts: dead-lettered by "
                "queue %s, or left unacknowledged without a dead-letter exchange",
                consumer_tag, name[1], attempt, name[0],
            )  # fmt: skip
        else:
            logger.exception(
                "callback of consumer %s failed; message %s: %s (attempt %d)",
                consumer_tag, name[1], self._on_failure.value, attempt,
            )  # fmt: skip
        with contextlib.suppress(AlreadySettled):  # the callback had settled it before it failed
            if is_last:
                self._unsettled.nack(tag, requeue=False, keep=True)
            elif self._on_failure is OnFailure.DROP:
                self._unsettled.nack(tag, requeue=False)
            elif self._on_failure is OnFailure.REQUEUE:
                self._again(tag, name, attempt)

    def _again(self, tag: int, name: tuple[str, str], attempt: int) -> None:
        if len(self._attempts) >= _REMEMBERED:
            del self._attempts[next(iter(self._attempts))]
        self._attempts[name] = attempt
        self._unsettled.nack_later(tag, min(FIRST_PAUSE * 2 ** (attempt - 1), LAST_PAUSE))


class Callbacks(Protocol[Taken]):
    """Runs the callbacks of a channel, one after the other."""

    def add(self, job: Iterator[Taken], /) -> None: ...

    def is_here(self) -> bool:
        """True in a callback of this channel."""


class BaseConsumerCallback(ABC, Generic[Step]):
    """Hands the deliveries of one consumer to its callback."""

    def __init__(
        self,
        callbacks: Callbacks[Step],
        unsettled: UnsettledDeliveries,
        callback: Callback | DeliveryHandler,
        *,
        consumer_tag: str,
        auto_ack: bool,
        on_failure: OnFailure,
        on_cancel: OnCancel | None,
    ) -> None:
        self.consumer_tag = consumer_tag
        self._callbacks = callbacks
        self._unsettled = unsettled
        self._callback = callback_of(callback)
        self._auto_ack = auto_ack
        self._failures = Failures(unsettled, on_failure)
        self._on_cancel = on_cancel

    def deliver(self, batch: Batch) -> None:
        self._callbacks.add(map(self._run, batch, batch.values()))

    def end(self, error: HeadraceError | None) -> None:
        if error is None:
            return  # as the program wanted
        logger.warning("consumer %s has ended: %s", self.consumer_tag, error)
        if self._on_cancel is not None:
            self._callbacks.add(map(self._notify_cancelled, (error,)))

    @abstractmethod
    def _notify_cancelled(self, error: HeadraceError) -> Step:
        """Call ``on_cancel``."""

    @abstractmethod
    def _run(self, tag: int, row: Row) -> Step:
        """Call the callback, and settle the message."""
