"""Transactions: nothing before commit, all in one step, nothing after rollback."""

from __future__ import annotations

from itertools import count
from typing import cast

import pytest

from headrace.core import loop_turn, publication
from headrace.core.queues.consumer import Consumer
from headrace.core.queues.queue import Queue
from headrace.errors import NotFound
from headrace.model.backlog import Backlog
from headrace.server.amqp.channel import Channel
from headrace.server.amqp.publisher import PREPARE_AT_ONCE, Publisher
from headrace.server.amqp.transaction import Transaction
from headrace.wire.amqp.method_codec import method_frame
from headrace.wire.amqp.methods import BasicPublish
from support import fake_loop
from support.fake_loop import Stage, message
from support.fake_session import Desk

MANY = 20 * PREPARE_AT_ONCE


@pytest.fixture
def tx(channel: Channel) -> Transaction:
    channel.transaction = Transaction()
    return channel.transaction


@pytest.fixture(autouse=True, params=[publication.FEW_RUNS, 0], ids=["few", "many"])
def few_runs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 0 every message is prepared, as those of large transactions are."""
    monkeypatch.setattr(publication, "FEW_RUNS", request.param)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock shows a millisecond more, so a share is over after a few steps."""
    ticks = count()
    monkeypatch.setattr(loop_turn, "thread_time", lambda: next(ticks) / 1000)


def ready(queue: Queue) -> list[str]:
    """All that is ready, also what was paged out."""
    backlog = queue.backlog
    assert isinstance(backlog, Backlog) and backlog._paging is not None
    while backlog._paging.count:
        backlog.ready.extend(backlog._paging.pull())
    return fake_loop.ready(queue)


def publisher_of(channel: Channel) -> Publisher:
    return cast(Desk, channel.owner).publisher


def publish(channel: Channel, key: str, *bodies: str, exchange: str = "") -> None:
    contents = [message(one) for one in bodies]
    raw = method_frame(1, BasicPublish(exchange=exchange, routing_key=key))[11:-1]
    size = sum(map(len, contents))
    publisher_of(channel).publish(channel, raw, 0, 1, contents, size)


def commit(stage: Stage, channel: Channel) -> list[Exception | None]:
    """Begin a commit; what is returned gets its end."""
    ends: list[Exception | None] = []
    assert channel.transaction is not None
    stage.turn.run(channel.transaction.commit(channel, publisher_of(channel)), ends.append)
    return ends


def deliver(stage: Stage, channel: Channel, number: int) -> None:
    """Let the channel hold so many messages of a queue, with the tags 1 to ``number``."""
    queue = stage.queue("source")
    channel.consumers["c"] = Consumer(queue, channel, "c")
    queue.subscribe(channel.consumers["c"])
    stage.publish(*map(str, range(number)), to="source")
    assert channel.unacked.count == number


def test_publishes_and_settlements_wait_for_the_commit(
    stage: Stage, channel: Channel, tx: Transaction
) -> None:
    deliver(stage, channel, 3)
    queue = stage.queue()
    publish(channel, "q", "a")
    tx.settle(tx.claim(1, 2), None)
    publish(channel, "q", "b")
    assert (ready(queue), channel.unacked.count, tx.publishes, tx.acks) == ([], 3, 2, 1)

    assert commit(stage, channel) == [None]

    assert (ready(queue), channel.unacked.count, tx.publishes, tx.acks) == (["a", "b"], 1, 0, 0)
    assert commit(stage, channel) == [None]
    assert ready(queue) == ["a", "b"]


def test_rollback_forgets(stage: Stage, channel: Channel, tx: Transaction) -> None:
    queue = stage.queue()
    publish(channel, "q", "never")
    tx.rollback()
    assert commit(stage, channel) == [None]
    assert (ready(queue), tx.publishes, tx.acks) == ([], 0, 0)


def test_a_long_commit_takes_several_turns_and_is_seen_at_once(
    stage: Stage, channel: Channel, tx: Transaction, slow: None
) -> None:
    queues = [stage.queue(f"q{i}") for i in range(2)]
    deliver(stage, channel, 4)
    for number in range(MANY):
        publish(channel, f"q{number % 2}", str(number))
        if number < 4:
            tx.settle(tx.claim(number + 1, number + 1), None)

    ends = commit(stage, channel)
    turns = 0
    while not ends:
        assert [queue.backlog.count for queue in queues] == [0, 0]
        assert channel.unacked.count == 4
        stage.turn.finish()
        turns += 1
    assert turns > 5
    assert ends == [None]
    assert channel.unacked.count == 0
    for number, queue in enumerate(queues):
        assert ready(queue) == [str(i) for i in range(number, MANY, 2)]
        assert len(list(queue.backlog.runs())) == 1  # joined: the last step is short


def test_messages_of_different_keys_keep_their_order_in_a_queue(
    stage: Stage, channel: Channel, tx: Transaction
) -> None:
    both, first = stage.queue("both"), stage.queue("first")
    for key, queue in (("1", both), ("2", both), ("1", first)):
        stage.vhost.bind("amq.direct", queue, key)
    for key, body in (("1", "a"), ("2", "b"), ("2", "c"), ("1", "d"), ("1", "e")):
        publish(channel, key, body, exchange="amq.direct")
    commit(stage, channel)
    assert ready(both) == ["a", "b", "c", "d", "e"]
    assert ready(first) == ["a", "d", "e"]


def test_a_channel_closed_during_a_commit_rolls_it_back(
    stage: Stage, channel: Channel, tx: Transaction, slow: None
) -> None:
    deliver(stage, channel, 2)
    queue = stage.queue()
    for number in range(MANY):
        publish(channel, "q", str(number))
    tx.settle(tx.claim(1, 2), None)

    ends = commit(stage, channel)
    channel.release()
    stage.run()

    assert ends == [None]
    assert ready(queue) == []
    assert ready(stage.vhost.queues["source"]) == ["0", "1"]


def test_a_route_that_changes_during_a_commit_is_looked_up_again(
    stage: Stage, channel: Channel, tx: Transaction, slow: None
) -> None:
    gone = stage.queue()
    for number in range(MANY):
        publish(channel, "q", str(number))

    ends = commit(stage, channel)
    stage.vhost.remove_queue(gone)
    stage.turn.finish()
    queue = stage.queue()
    stage.run()

    assert ends == [None]
    assert (gone.backlog.count, queue.backlog.count) == (0, MANY)


def test_routes_that_always_change_do_not_keep_a_commit_from_its_end(
    stage: Stage, channel: Channel, tx: Transaction, slow: None
) -> None:
    queue = stage.queue()
    for number in range(MANY):
        publish(channel, "q", str(number))
    ends = commit(stage, channel)
    turns = 0
    while not ends:
        stage.vhost.routes.changed()
        stage.turn.finish()
        turns += 1
        assert turns < 100
    assert queue.backlog.count == MANY


def test_a_commit_that_fails_has_done_nothing(
    stage: Stage, channel: Channel, tx: Transaction
) -> None:
    queue = stage.queue()
    stage.vhost.declare_exchange("e", "direct")
    publish(channel, "q", "a")
    publish(channel, "k", "b", exchange="e")
    stage.vhost.delete_exchange("e")

    (error,) = commit(stage, channel)

    assert isinstance(error, NotFound)
    assert queue.backlog.count == 0
