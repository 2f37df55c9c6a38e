"""Exchanges of type x-delayed-message."""

from __future__ import annotations

import pytest

from headrace.core.queues.queue import Queue
from headrace.errors import PreconditionFailed
from headrace.wire.amqp.content import properties_of
from support.fake_loop import Stage, ready


@pytest.fixture
def queue(stage: Stage) -> Queue:
    arguments = {"x-delayed-type": "direct"}
    stage.vhost.declare_exchange("later", "x-delayed-message", arguments=arguments)
    queue = stage.queue()
    stage.vhost.bind("later", queue, "key")
    return queue


def publish(stage: Stage, body: str, delay: object, key: str = "key") -> None:
    headers = {} if delay is None else {"x-delay": delay}
    stage.publish(body, exchange="later", to=key, headers=headers)


def test_messages_arrive_in_the_order_of_their_times(stage: Stage, queue: Queue) -> None:
    for body, delay in (("c", 300), ("a", 100), ("b", 200), ("now", None)):
        publish(stage, body, delay)
    assert ready(queue) == ["now"]

    stage.advance(99)
    assert ready(queue) == ["now"]
    stage.advance(1)
    assert ready(queue) == ["now", "a"]
    stage.advance(200)
    assert ready(queue) == ["now", "a", "b", "c"]


def test_equal_times_keep_the_order_of_publishing(stage: Stage, queue: Queue) -> None:
    for body in "abc":
        publish(stage, body, 50)

    stage.advance(50)

    assert ready(queue) == ["a", "b", "c"]


def test_the_receiver_sees_that_the_wait_is_over(stage: Stage, queue: Queue) -> None:
    publish(stage, "a", 100)
    stage.advance(100)

    (run,) = queue.backlog.runs()
    headers = properties_of(run.contents[0]).headers
    assert headers is not None
    assert headers.get("x-delay") == -100
    assert (run.route.exchange, run.route.key) == ("later", "key")


@pytest.mark.parametrize("delay", [0, -5, "soon", "²", "", True, 2**32, 1e300, [100], "9" * 5000])
def test_what_is_no_delay_does_not_wait(stage: Stage, queue: Queue, delay: object) -> None:
    publish(stage, "a", delay)

    assert ready(queue) == ["a"]


@pytest.mark.parametrize("delay", [100, "100", 100.0])
def test_a_delay_may_be_a_number_of_any_kind(stage: Stage, queue: Queue, delay: object) -> None:
    publish(stage, "a", delay)
    assert ready(queue) == []

    stage.advance(100)

    assert ready(queue) == ["a"]


def test_bindings_are_looked_at_when_the_time_has_come(stage: Stage, queue: Queue) -> None:
    publish(stage, "a", 100, key="other")
    stage.vhost.bind("later", queue, "other")
    publish(stage, "b", 100)
    stage.vhost.unbind("later", queue, "key")

    stage.advance(100)

    assert ready(queue) == ["a"]


def test_messages_of_a_deleted_exchange_are_gone(stage: Stage, queue: Queue) -> None:
    publish(stage, "a", 100)
    stage.vhost.delete_exchange("later")
    arguments = {"x-delayed-type": "direct"}
    stage.vhost.declare_exchange("later", "x-delayed-message", arguments=arguments)
    stage.vhost.bind("later", queue, "key")

    stage.advance(100)

    assert ready(queue) == []


def test_a_delayed_exchange_can_stand_behind_another(stage: Stage, queue: Queue) -> None:
    stage.vhost.bind("amq.fanout", stage.vhost.get_exchange("later"), "")
    stage.publish("a", exchange="amq.fanout", to="key", headers={"x-delay": 10})
    assert ready(queue) == []

    stage.advance(10)

    assert ready(queue) == ["a"]


def test_the_time_to_live_begins_after_the_wait(stage: Stage, queue: Queue) -> None:
    stage.publish("a", exchange="later", to="key", headers={"x-delay": 100}, ttl_ms=50)

    stage.advance(100)
    assert ready(queue) == ["a"]
    stage.advance(50)
    assert ready(queue) == []


def test_carbon_copies_wait_too(stage: Stage, queue: Queue) -> None:
    copy = stage.queue("copy")
    stage.vhost.bind("later", copy, "copy")
    headers = {"x-delay": 10, "CC": ["copy"]}
    stage.publish("a", exchange="later", to="key", headers=headers)

    stage.advance(10)

    assert (ready(queue), ready(copy)) == (["a"], ["a"])


def test_the_inner_type_must_be_known(stage: Stage) -> None:
    for arguments in ({}, {"x-delayed-type": "x-delayed-message"}):
        with pytest.raises(PreconditionFailed, match="x-delayed-type"):
            stage.vhost.declare_exchange("bad", "x-delayed-message", arguments=arguments)
