"""Listeners of every form; a wrong answer is seen, and counts as a failure."""

from __future__ import annotations

import asyncio
import inspect
import sys

import pytest

from headrace.rocketmq import (
    ConsumeContext,
    ConsumeResult,
    ListenerError,
    MessageExt,
    MessageListener,
    MessageQueue,
)
from headrace.rocketmq.consuming.listeners import Listener, ListenerAdapter, ListenerResult

ALLOWED = (ConsumeResult.SUCCESS, ConsumeResult.RECONSUME_LATER)
MESSAGES = [MessageExt("T", b"x", {"UNIQ_KEY": "id-1"}, "b", 0, 1, 1)]
CONTEXT = ConsumeContext(MessageQueue("T", "b", 0))
SUCCESS = ConsumeResult.SUCCESS


class Plain(MessageListener):
    def consume_message(self, messages: list[MessageExt]) -> ConsumeResult:
        assert messages is MESSAGES
        return SUCCESS


class WithContext(MessageListener):
    def consume_message(  # type: ignore[override]
        self, messages: list[MessageExt], context: ConsumeContext
    ) -> ConsumeResult:
        assert context is CONTEXT
        return SUCCESS


class Coroutine(MessageListener):
    async def consume_message(self, messages: list[MessageExt]) -> ConsumeResult:
        await asyncio.sleep(0)
        return SUCCESS


class Callable_:
    def __call__(self, messages: list[MessageExt]) -> str:
        return "CONSUME_SUCCESS"


class AsyncCallable:
    async def __call__(self, messages: list[MessageExt], context: ConsumeContext) -> str:
        assert context is CONTEXT
        return "CONSUME_SUCCESS"


def function(messages: list[MessageExt]) -> ConsumeResult:
    return SUCCESS


def with_context(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
    assert context is CONTEXT
    return SUCCESS


def own_default(messages: list[MessageExt], retries: int = 3) -> ConsumeResult:
    assert retries == 3
    return SUCCESS


def optional_context(
    messages: list[MessageExt], context: ConsumeContext | None = None
) -> ConsumeResult:
    assert context is CONTEXT
    return SUCCESS


def anything(*arguments: object) -> ConsumeResult:
    assert arguments == (MESSAGES, CONTEXT)
    return SUCCESS


async def coroutine(messages: list[MessageExt]) -> ConsumeResult:
    await asyncio.sleep(0)
    return SUCCESS


FORMS = [
    Plain(),
    WithContext(),
    Coroutine(),
    Callable_(),
    AsyncCallable(),
    function,
    with_context,
    own_default,
    optional_context,
    anything,
    coroutine,
    lambda messages: coroutine(messages),
]


@pytest.mark.parametrize("listener", FORMS)
def test_every_form_works_in_threads_and_on_a_loop(listener: Listener) -> None:
    adapter = ListenerAdapter(listener, ALLOWED)
    assert adapter.run(MESSAGES, CONTEXT) == ListenerResult(SUCCESS)
    assert asyncio.run(adapter.run_async(MESSAGES, CONTEXT)) == ListenerResult(SUCCESS)


@pytest.mark.parametrize("wrong", [None, True, 0, "OK", "SUCCESS", ConsumeResult.COMMIT, object()])
def test_a_wrong_answer_is_an_error_that_is_seen(
    wrong: object, caplog: pytest.LogCaptureFixture
) -> None:
    outcome = ListenerAdapter(lambda messages: wrong, ALLOWED).run(MESSAGES, CONTEXT)
    assert outcome.result is ConsumeResult.RECONSUME_LATER
    assert outcome.is_wrong
    assert isinstance(outcome.error, ListenerError)
    for word in (repr(wrong), "id-1", "ConsumeResult.SUCCESS"):
        assert word in caplog.text


def test_an_exception_counts_as_later(caplog: pytest.LogCaptureFixture) -> None:
    def fails(messages: list[MessageExt]) -> ConsumeResult:
        raise KeyError("boom")

    outcome = ListenerAdapter(fails, ALLOWED).run(MESSAGES, CONTEXT)
    assert outcome.result is ConsumeResult.RECONSUME_LATER
    assert isinstance(outcome.error, KeyError)
    assert "boom" in caplog.text


def test_a_listener_that_exits_or_is_cancelled_has_failed(caplog: pytest.LogCaptureFixture) -> None:
    async def cancelled(messages: list[MessageExt]) -> ConsumeResult:
        other = asyncio.ensure_future(asyncio.sleep(10))
        other.cancel()
        await other
        return SUCCESS

    for listener in (lambda messages: sys.exit("enough"), cancelled):
        outcome = ListenerAdapter(listener, ALLOWED).run(MESSAGES, CONTEXT)
        assert outcome.result is ConsumeResult.RECONSUME_LATER
    outcome = asyncio.run(ListenerAdapter(cancelled, ALLOWED).run_async(MESSAGES, CONTEXT))
    assert isinstance(outcome.error, asyncio.CancelledError)
    assert caplog.text.count("id-1") == 3


def test_a_listener_is_cancelled_with_its_consumer() -> None:
    async def endless(messages: list[MessageExt]) -> ConsumeResult:
        await asyncio.sleep(1000)
        return SUCCESS

    async def story() -> None:
        task = asyncio.ensure_future(ListenerAdapter(endless, ALLOWED).run_async(MESSAGES, CONTEXT))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())


@pytest.mark.parametrize("listener", [5, None, Plain, lambda: None, lambda a, b, c: None])
def test_what_is_no_listener_is_refused_at_once(listener: Listener) -> None:
    with pytest.raises(ListenerError):
        ListenerAdapter(listener, ALLOWED)


def test_a_class_instead_of_an_instance_is_named() -> None:
    with pytest.raises(ListenerError, match=r"register an instance: Callable_\(\)"):
        ListenerAdapter(Callable_, ALLOWED)
    assert inspect.isclass(Callable_)
