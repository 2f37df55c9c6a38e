"""Listeners: classes, functions and coroutines behind one face.

A wrong answer of a listener is never taken for success and never lost: it is logged with what
was returned and what is allowed, counted, and the messages are tried again like failed ones,
up to the limit and into the dead-letter topic.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.rocketmq.enums import ConsumeResult
from headrace.rocketmq.errors import BodyError, ListenerError
from headrace.rocketmq.message import MessageExt
from headrace.wire.remoting.message_queue import MessageQueue

logger = logging.getLogger(__name__)

ALL_FINE = 1 << 31


@dataclass(slots=True)
class ConsumeContext:
    """What a listener may know and decide besides its result."""

    queue: MessageQueue
    delay_level_when_next_consume: int = 0
    """Concurrent: 0 = the broker decides, -1 = straight to the dead letters, else 1..18."""
    ack_index: int = ALL_FINE
    """Concurrent, with SUCCESS: messages after this index have failed all the same."""
    suspend_current_queue_time_millis: int = -1
    """Orderly: pause before the same messages come again; -1 = as configured."""
    auto_commit: bool = True


Result = ConsumeResult | Awaitable[ConsumeResult]


class MessageListener(ABC):
    """Base of listeners; anything that can be called works as well."""

    @abstractmethod
    def consume_message(
        self,
        messages: list[MessageExt],
        *args: Any,  # noqa: ANN401 - so that type checkers take both forms
        **kwargs: Any,  # noqa: ANN401
    ) -> Result:
        """Takes (messages) or (messages, context), and may be `async def`."""


Listener = (
    MessageListener
    | Callable[[list[MessageExt]], Result]
    | Callable[[list[MessageExt], ConsumeContext], Result]
)


@dataclass(frozen=True, slots=True)
class ListenerResult:
    """What came out of a listener."""

    result: ConsumeResult
    error: BaseException | None = None
    is_wrong: bool = False
    """It returned something that is no ConsumeResult."""


class ListenerAdapter:
    """Calls a listener of any form and judges what it returns."""

    def __init__(self, listener: Listener, allowed: Sequence[ConsumeResult]) -> None:
        self.call, self.name = _callable_of(listener)
        self.allowed = tuple(allowed)
        self._outcomes = {one: ListenerResult(one) for one in self.allowed}
        self.is_async = _is_coroutine(self.call)
        self._arity = _arity(self.call, self.name)

    def run(self, messages: list[MessageExt], context: ConsumeContext) -> ListenerResult:
        """In a thread. A coroutine gets an event loop of its own."""
        try:
            found = self._invoke(messages, context)
            if not isinstance(found, ConsumeResult) and inspect.isawaitable(found):
                found = asyncio.run(_awaited(found))
        except BaseException as error:  # sys.exit() ends no program from here, only the message
            return self._failed(error, messages)
        return self.check_result(found, messages)

    async def run_async(
        self, messages: list[MessageExt], context: ConsumeContext
    ) -> ListenerResult:
        """On the event loop. A plain function goes to a thread, so that it may block."""
        try:
            if self.is_async:
                found = self._invoke(messages, context)
            else:
                found = await asyncio.to_thread(self._invoke, messages, context)
            if inspect.isawaitable(found):
                found = await found
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the consumer stops
            return self._failed(error, messages)  # something the listener waited for was cancelled
        except Exception as error:
            return self._failed(error, messages)
        return self.check_result(found, messages)

    def _invoke(self, messages: list[MessageExt], context: ConsumeContext) -> object:
        for message in messages:
            if message.body_error:
                raise BodyError(message.body_error)
        if self._arity == 1:
            return self.call(messages)
        return self.call(messages, context)

    def _failed(self, error: BaseException, messages: list[MessageExt]) -> ListenerResult:
        logger.error(
            "listener %s failed on message %s of %s (try %s)",
            self.name,
            messages[0].msg_id if messages else "?",
            messages[0].topic if messages else "?",
            messages[0].reconsume_times + 1 if messages else "?",
            exc_info=error,
        )
        return ListenerResult(ConsumeResult.RECONSUME_LATER, error)

    def check_result(self, found: object, messages: list[MessageExt]) -> ListenerResult:
        """A ConsumeResult, or its value as a text; everything else is an error."""
        if type(found) is ConsumeResult and found in self._outcomes:
            return self._outcomes[found]  # nearly always
        try:
            result = ConsumeResult(found)  # type: ignore[arg-type]  # that is what is found out
        except ValueError:
            result = None
        if result is not None and result in self.allowed:
            return ListenerResult(result)
        names = ", ".join(f"ConsumeResult.{one.name}" for one in self.allowed)
        error = ListenerError(
            f"listener {self.name} returned {found!r}, which says nothing about message "
            f"{messages[0].msg_id if messages else '?'}; return one of {names}. "
            "The message counts as failed"
        )
        logger.error("%s", error)
        return ListenerResult(ConsumeResult.RECONSUME_LATER, error, is_wrong=True)


async def _awaited(found: Awaitable[object]) -> object:
    return await found


def _callable_of(listener: object) -> tuple[Callable[..., Any], str]:
    if inspect.isclass(listener):
        raise ListenerError(
            f"{listener.__name__} is a class; register an instance: {listener.__name__}()"
        )
    method = getattr(listener, "consume_message", None)
    if callable(method):
        return method, type(listener).__name__
    if callable(listener):
        return listener, getattr(listener, "__qualname__", type(listener).__name__)
    raise ListenerError(
        f"{listener!r} is no listener; give a function of the messages or an object with "
        "consume_message(messages)"
    )


def _is_coroutine(call: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
        getattr(call, "__call__", None)  # noqa: B004 - an object with an async __call__
    )


def _arity(call: Callable[..., Any], name: str) -> int:
    """1 for (messages), 2 for (messages, context)."""
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):
        return 1  # written in C; known after the first message
    for arity in (2, 1):
        try:
            signature.bind(*range(arity))
        except TypeError:
            continue
        if arity == 2 and _second_is_optional(signature):
            continue
        return arity
    raise ListenerError(
        f"listener {name}{signature} can be called neither with (messages) "
        "nor with (messages, context)"
    )


def _second_is_optional(signature: inspect.Signature) -> bool:
    """A second parameter with a default is the listener's own affair, unless named context."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [one for one in signature.parameters.values() if one.kind in kinds]
    if len(positional) < 2:  # *args: everything is welcome
        return False
    second = positional[1]
    return second.default is not second.empty and second.name != "context"
