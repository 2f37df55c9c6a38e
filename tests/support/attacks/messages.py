"""Attacks that make one request move very many messages."""

from __future__ import annotations

import time
from collections.abc import Generator

from headrace.testing import wait_for
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.content import make_content
from headrace.wire.amqp.method_codec import method_frame
from headrace.wire.amqp.properties import HeaderTable, Properties
from support.attacks import attack
from support.attacks.target import Target, UserLink, declare

Steps = Generator[None, None, None]


def _take(link: UserLink, queue: str, count: int) -> None:
    """Consume so many messages and keep them unacknowledged."""
    link.call(1, m.BasicConsume(queue=queue), m.BasicConsumeOk)
    taken = 0
    while taken < count:
        taken += len(link.poll(5))


@attack("nack of 40,000 messages into dead letters")
def dead_letters(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "dead")
    declare(link, "q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    link.flood("q", 40_000)
    _take(link, "q", 40_000)
    yield
    link.send(1, m.BasicNack(delivery_tag=0, multiple=True, requeue=False))
    link.barrier()


@attack("nack of 40,000 durable messages into dead letters")
def durable_dead_letters(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "dead", durable=True)
    declare(link, "q", durable=True, x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    link.flood("q", 40_000, mode=2)
    _take(link, "q", 40_000)
    yield
    link.send(1, m.BasicNack(delivery_tag=0, multiple=True, requeue=False))
    link.barrier()


@attack("commit of a transaction with 100,000 publishes to 100 queues")
def large_commit(target: Target) -> Steps:
    link = target.amqp()
    for i in range(100):
        declare(link, f"q{i}", durable=True)
    link.call(1, m.TxSelect(), m.TxSelectOk)
    body = make_content(Properties(delivery_mode=2), b"x" * 100, 1)
    link.flood_methods(
        [method_frame(1, m.BasicPublish(routing_key=f"q{i % 100}")) + body for i in range(100_000)]
    )
    yield
    _commit(link)


def _two_keys(link: UserLink, mode: int = 2, count: int = 100_000) -> None:
    """Publishes whose keys alternate, so that no two of them can be joined."""
    for key in "ab":
        bind = m.QueueBind(queue="q", exchange="amq.direct", routing_key=key)
        link.call(1, bind, m.QueueBindOk)
    _publish_by(link, "amq.direct", mode, count)


def _publish_by(link: UserLink, exchange: str, mode: int = 2, count: int = 100_000) -> None:
    body = make_content(Properties(delivery_mode=mode), b"x" * 100, 1)
    publishes = [m.BasicPublish(exchange=exchange, routing_key=key) for key in "ab"]
    link.flood_methods([method_frame(1, publishes[i % 2]) + body for i in range(count)])


def _commit(link: UserLink) -> None:
    link.send(1, m.TxCommit())
    link.wait_for(m.TxCommitOk, 1, 60)


@attack("commit of a transaction with 100,000 publishes to one queue by two keys")
def mixed_commit(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "q", durable=True)
    link.call(1, m.TxSelect(), m.TxSelectOk)
    _two_keys(link)
    yield
    _commit(link)


@attack("the same, not persistent")
def transient_commit(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "q", durable=True)
    link.call(1, m.TxSelect(), m.TxSelectOk)
    _two_keys(link, mode=1)
    yield
    _commit(link)


@attack("the same to a queue with priorities")
def priority_commit(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "q", durable=True, x_max_priority=5)
    link.call(1, m.TxSelect(), m.TxSelectOk)
    _two_keys(link)
    yield
    _commit(link)


@attack("the same to a queue with a length limit")
def limited_commit(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "q", durable=True, x_max_length=10)
    link.call(1, m.TxSelect(), m.TxSelectOk)
    _two_keys(link)
    yield
    _commit(link)


@attack("the same to a topic")
def topic_commit(target: Target) -> Steps:
    link = target.amqp()
    declared = m.ExchangeDeclare(exchange="topic.t", type="x-topic", durable=True)
    link.call(1, declared, m.ExchangeDeclareOk)
    link.call(1, m.TxSelect(), m.TxSelectOk)
    _publish_by(link, "topic.t")
    yield
    _commit(link)


@attack("commit of a transaction with 100,000 acks of every other message")
def large_ack(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "q", durable=True)
    link.flood("q", 200_000, mode=2)
    link.call(1, m.TxSelect(), m.TxSelectOk)
    _take(link, "q", 200_000)
    link.flood_methods([method_frame(1, m.BasicAck(i)) for i in range(1, 200_001, 2)])
    yield
    _commit(link)


@attack("commit of a transaction with 50,000 rejections of every other message")
def large_reject(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "dead", durable=True)
    declare(link, "q", durable=True, x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    link.flood("q", 100_000, mode=2)
    link.call(1, m.TxSelect(), m.TxSelectOk)
    _take(link, "q", 100_000)
    link.flood_methods(
        [method_frame(1, m.BasicReject(i, requeue=False)) for i in range(1, 100_001, 2)]
    )
    yield
    _commit(link)


def _single_deliveries(target: Target, **arguments: object) -> UserLink:
    """100,000 messages, delivered one by one because their keys alternate."""
    link = target.amqp()
    declare(link, "q", durable=True, **arguments)
    _two_keys(link)
    _take(link, "q", 100_000)
    return link


@attack("one ack of 100,000 messages that were delivered one by one")
def ack_single_deliveries(target: Target) -> Steps:
    link = _single_deliveries(target)
    yield
    link.send(1, m.BasicAck(delivery_tag=0, multiple=True))
    link.barrier()


@attack("one nack of 100,000 messages that were delivered one by one, to requeue them")
def requeue_single_deliveries(target: Target) -> Steps:
    link = _single_deliveries(target)
    link.call(1, m.BasicQos(prefetch_count=1, global_=True), m.BasicQosOk)
    yield
    link.send(1, m.BasicNack(delivery_tag=0, multiple=True, requeue=True))
    link.barrier()


@attack("a channel with 100,000 messages that were delivered one by one is closed")
def close_single_deliveries(target: Target) -> Steps:
    link = _single_deliveries(target)
    yield
    link.send(1, m.ChannelClose(reply_code=200, reply_text=""))
    link.wait_for(m.ChannelCloseOk, 1, 60)
    wait_for(lambda: target.depth("q") == 100_000, timeout=60)


@attack("nack of 100,000 messages between acknowledged ones, into dead letters")
def nack_with_gaps(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "dead", x_max_length=10)
    declare(link, "q", durable=True, x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    link.flood("q", 200_000, mode=2)
    _take(link, "q", 200_000)
    link.flood_methods([method_frame(1, m.BasicAck(i)) for i in range(1, 200_001, 2)])
    yield
    link.send(1, m.BasicNack(delivery_tag=0, multiple=True, requeue=False))
    link.barrier(120)


@attack("a transaction of 2,000,000 publishes that is never committed, watermark 200 MiB",
        env={"HEADRACE_MEMORY_HIGH_WATERMARK": "200MiB"})  # fmt: skip
def endless_transaction(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "q")
    link.call(1, m.TxSelect(), m.TxSelectOk)
    one = method_frame(1, m.BasicPublish(routing_key="q")) + make_content(
        Properties(), b"x" * 100, 1
    )
    link.sock.settimeout(2)
    yield
    for _ in range(400):
        link.send_bytes(one * 5000)


@attack("purge of 1,000,000 messages")
def large_purge(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "q", durable=True)
    link.flood("q", 1_000_000, mode=2)
    yield
    link.send(1, m.QueuePurge(queue="q"))
    link.wait_for(m.QueuePurgeOk, 1, 60)


@attack("deletion of a queue with 1,000,000 messages")
def large_delete(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "q")
    link.flood("q", 1_000_000)
    yield
    link.send(1, m.QueueDelete(queue="q"))
    link.wait_for(m.QueueDeleteOk, 1, 60)


@attack("a channel with 100,000 unacknowledged messages is closed")
def large_requeue(target: Target) -> Steps:
    link, other = target.amqp(), target.amqp()
    declare(link, "q")
    link.flood("q", 100_000)
    _take(link, "q", 100_000)
    other.call(1, m.BasicQos(prefetch_count=1), m.BasicQosOk)
    other.call(1, m.BasicConsume(queue="q"), m.BasicConsumeOk)
    yield
    link.send(1, m.ChannelClose(reply_code=200, reply_text=""))
    link.wait_for(m.ChannelCloseOk, 1, 60)
    wait_for(lambda: target.depth("q") == 99_999, timeout=60)


@attack("1,000,000 messages expire at once into dead letters", memory_mib=400)
def large_expiry(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "dead", x_max_length=1000)
    dead_letters = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "dead"}
    declare(link, "q", x_message_ttl=8000, **dead_letters)
    link.flood("q", 1_000_000)
    wait_for(lambda: target.depth("q") > 900_000)
    yield
    wait_for(lambda: target.depth("q") == 0, timeout=60)


@attack("1,000,000 messages with a TTL of 5 s expire at once")
def ttl(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "q", x_message_ttl=8000)
    link.flood("q", 1_000_000)
    wait_for(lambda: target.depth("q") > 900_000)
    yield
    wait_for(lambda: target.depth("q") == 0, timeout=60)


@attack("100,000 delayed messages due at once")
def delayed(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "q")
    arguments = {"x-delayed-type": "fanout"}
    kind = "x-delayed-message"
    declared = m.ExchangeDeclare(exchange="late", type=kind, arguments=arguments)
    link.call(1, declared, m.ExchangeDeclareOk)
    link.call(1, m.QueueBind(queue="q", exchange="late"), m.QueueBindOk)
    due = time.time() + 12
    publish = method_frame(1, m.BasicPublish(exchange="late"))
    for _ in range(100):
        left = max(1, int((due - time.time()) * 1000))
        late = make_content(Properties(headers=HeaderTable.of({"x-delay": left})), b"x", 1)
        link.flood_methods([publish + late] * 1000)
    yield
    wait_for(lambda: target.depth("q") == 100_000, timeout=60)
