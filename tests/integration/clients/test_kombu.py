"""kombu over py-amqp: entities, producers and consumers, simple queues, and the pidbox mailbox."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from kombu import Connection, Consumer, Exchange, Message, Producer, Queue, eventloop
from kombu.common import collect_replies, uuid
from kombu.exceptions import OperationalError
from kombu.mixins import ConsumerProducerMixin
from kombu.pidbox import Mailbox
from pika.adapters.blocking_connection import BlockingChannel

from headrace.testing import wait_for
from support.endpoint import Address, Names
from support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def kombu_connection(amqp_address: Address) -> Iterator[Connection]:
    with Connection(amqp_address.url) as connection:
        yield connection


def drain(connection: Connection, wanted: list[object], count: int) -> None:
    """Handle events until ``wanted`` has ``count`` entries."""
    while len(wanted) < count:
        connection.drain_events(timeout=5)


def test_bound_entities_declare_themselves_and_carry_json(
    kombu_connection: Connection, names: Names
) -> None:
    exchange = Exchange(names.exchange(), type="topic", durable=True)
    queue = Queue(names.queue(), exchange, routing_key="a.#", durable=True)
    got: list[object] = []

    def on_task(body: object, message: Message) -> None:
        got.append(body)
        message.ack()

    with kombu_connection.channel() as channel:
        producer = Producer(channel, exchange, serializer="json")
        producer.publish({"n": 1}, routing_key="a.b.c", declare=[queue])
        with Consumer(channel, [queue], callbacks=[on_task], accept=["json"]):
            drain(kombu_connection, got, 1)
        assert (got, queue(channel).queue_declare(passive=True).message_count) == ([{"n": 1}], 0)


def test_exchanges_bind_to_exchanges_and_unbind(kombu_connection: Connection, names: Names) -> None:
    with kombu_connection.channel() as channel:
        outer = Exchange(names.exchange("outer"), type="direct")(channel)
        inner = Exchange(names.exchange("inner"), type="fanout")(channel)
        queue = Queue(names.queue(), inner)(channel)
        outer.declare()
        queue.declare()
        inner.bind_to(outer, routing_key="k")
        outer.publish(outer.Message("one"), routing_key="k")
        inner.unbind_from(outer, routing_key="k")
        outer.publish(outer.Message("two"), routing_key="k")

        assert queue.get(no_ack=True).payload == "one"
        assert queue.get(no_ack=True) is None


@pytest.mark.parametrize("compression", [None, "zlib", "bzip2"])
@pytest.mark.parametrize("serializer", ["json", "pickle"])
def test_simple_queues_carry_compressed_and_serialized_values(
    kombu_connection: Connection, names: Names, compression: str | None, serializer: str
) -> None:
    value = {"words": ["x"] * 1000, "number": 1.5}
    with kombu_connection.SimpleQueue(names.queue(), accept=["json", "pickle"]) as simple:
        simple.put(value, compression=compression, serializer=serializer)
        message = simple.get(timeout=5)
        message.ack()

        assert message.payload == value
        assert len(simple) == 0
        with pytest.raises(simple.Empty):
            simple.get(block=False)


def test_a_simple_buffer_needs_no_acknowledgement(kombu_connection: Connection) -> None:
    with kombu_connection.SimpleBuffer(f"buffer-{uuid()}") as buffer:
        for number in range(3):
            buffer.put(number)
        assert [buffer.get(timeout=5).payload for _ in range(3)] == [0, 1, 2]


def test_requeue_and_reject_settle_messages(kombu_connection: Connection, names: Names) -> None:
    with kombu_connection.SimpleQueue(names.queue()) as simple:
        simple.put("again")
        simple.get(timeout=5).requeue()
        second = simple.get(timeout=5)
        second.reject()

        assert second.delivery_info["redelivered"]
        assert len(simple) == 0


def test_priorities_order_what_waits(kombu_connection: Connection, names: Names) -> None:
    queue = Queue(names.queue(), max_priority=10)
    with kombu_connection.channel() as channel:
        producer = Producer(channel)
        for priority in (1, 9, 5):
            producer.publish(priority, routing_key=queue.name, priority=priority, declare=[queue])

        bound = queue(channel)
        assert [bound.get(no_ack=True).payload for _ in range(3)] == [9, 5, 1]


def test_the_event_loop_ends_by_timeout_when_nothing_comes(
    kombu_connection: Connection, names: Names
) -> None:
    got: list[object] = []
    queue = Queue(names.queue())
    with kombu_connection.Consumer(
        queue, callbacks=[lambda body, _m: got.append(body)]
    ) as consumer:
        Producer(consumer.channel).publish("x", routing_key=queue.name)
        for _ in eventloop(kombu_connection, limit=1, timeout=5):
            pass
        with pytest.raises(socket.timeout):
            for _ in eventloop(kombu_connection, timeout=0.1):
                pass

    assert got == ["x"]


def test_confirmed_publishing_returns_after_the_broker_has_it(
    amqp_address: Address, names: Names, channel: BlockingChannel
) -> None:
    queue = Queue(names.queue(), durable=True)
    options = {"confirm_publish": True}
    with Connection(amqp_address.url, transport_options=options) as connection:
        producer = connection.Producer()
        for _ in range(5):
            producer.publish("kept", routing_key=queue.name, declare=[queue], delivery_mode=2)

        assert channel.queue_declare(queue.name, passive=True).method.message_count == 5


def test_a_returned_message_reaches_on_return(kombu_connection: Connection, names: Names) -> None:
    returned: list[object] = []
    producer = kombu_connection.Producer(
        on_return=lambda _error, _exchange, key, _message: returned.append(key)
    )
    absent = names.queue("absent")

    producer.publish("lost", routing_key=absent, mandatory=True)
    drain(kombu_connection, returned, 1)

    assert returned == [absent]


def test_ttl_expiry_and_length_arguments_are_accepted(
    kombu_connection: Connection, names: Names
) -> None:
    queue = Queue(
        names.queue(), expires=30, message_ttl=20, max_length=2, durable=False, auto_delete=True
    )
    with kombu_connection.channel() as channel:
        bound = queue(channel)
        bound.declare()
        for number in range(4):
            Producer(channel).publish(number, routing_key=queue.name, expiration=10)

        assert [bound.get(no_ack=True).payload for _ in range(2)] == [2, 3]


def test_ensure_retries_a_publish_over_a_cut_connection(
    proxy: TcpProxy, proxy_address: Address, names: Names, channel: BlockingChannel
) -> None:
    queue = names.queue()
    channel.queue_declare(queue)
    errors: list[BaseException] = []
    policy = {
        "interval_start": 0.05,
        "interval_step": 0.05,
        "max_retries": 20,
        "errback": lambda error, _interval: errors.append(error),
    }
    with Connection(proxy_address.url, transport_options={"confirm_publish": True}) as connection:
        producer = connection.Producer()
        producer.publish("one", routing_key=queue)
        proxy.cut()
        producer.publish("two", routing_key=queue, retry=True, retry_policy=policy)

    assert channel.queue_declare(queue, passive=True).method.message_count == 2
    assert proxy.accepted == 2


def test_ensure_connection_gives_up_after_its_retries(
    proxy: TcpProxy, proxy_address: Address
) -> None:
    proxy.refuse()
    connection = Connection(proxy_address.url)
    with pytest.raises(OperationalError):
        connection.ensure_connection(max_retries=2, interval_start=0.01, interval_step=0)
    connection.release()

    assert proxy.accepted >= 2


def test_a_consumer_mixin_recovers_from_a_cut_and_answers_again(
    proxy: TcpProxy, proxy_address: Address, names: Names
) -> None:
    queue = Queue(names.queue(), durable=True)
    seen: list[object] = []

    class Worker(ConsumerProducerMixin):
        connect_max_retries = 20

        def __init__(self, connection: Connection) -> None:
            self.connection = connection

        def get_consumers(self, consumer: type[Consumer], _channel: object) -> list[Consumer]:
            return [consumer([queue], callbacks=[self.on_task])]

        def on_task(self, body: object, message: Message) -> None:
            seen.append(body)
            message.ack()

    worker = Worker(Connection(proxy_address.url))
    thread = threading.Thread(target=worker.run, kwargs={"_tokens": 1})
    thread.start()
    try:
        _publish(proxy_address, queue, "before")
        wait_for(lambda: "before" in seen)
        proxy.cut()
        # "before" may come twice: its acknowledgement can be lost with the connection
        _publish(proxy_address, queue, "after")
        wait_for(lambda: "after" in seen, timeout=10)
    finally:
        worker.should_stop = True
        thread.join(15)
        worker.connection.release()

    assert not thread.is_alive()


def _publish(address: Address, queue: Queue, body: str) -> None:
    with Connection(address.url) as connection:
        connection.Producer().publish(body, routing_key=queue.name, declare=[queue])


def test_heartbeat_checks_keep_a_quiet_connection_alive(amqp_address: Address) -> None:
    with Connection(amqp_address.url, heartbeat=1) as connection:
        connection.connect()
        for _ in range(8):
            connection.heartbeat_check(rate=2)
            with pytest.raises(socket.timeout):
                connection.drain_events(timeout=0.4)

        assert connection.connected
        assert connection.default_channel.queue_declare(exclusive=True).queue


def test_a_mailbox_broadcasts_and_collects_replies(
    amqp_address: Address, kombu_connection: Connection, names: Names
) -> None:
    mailbox = Mailbox(f"box{uuid()}", type="fanout")
    names.exchanges += [mailbox.exchange.name, mailbox.reply_exchange.name]
    with Connection(amqp_address.url) as served:
        nodes = [mailbox(served).Node(f"node{n}", state=n, channel=served) for n in (1, 2)]
        for node in nodes:
            node.channel = served.channel()
            node.handlers["double"] = lambda state, number: state * number
            node.listen(channel=node.channel)

        replies: list[dict] = []

        def ask() -> None:
            asking = mailbox(kombu_connection)
            replies.extend(asking.multi_call("double", {"number": 21}, timeout=5, limit=2))

        caller = threading.Thread(target=ask)
        caller.start()
        while caller.is_alive():
            for _ in eventloop(served, limit=1, timeout=0.1, ignore_timeouts=True):
                break

    assert sorted(replies, key=str) == [{"node1": 21}, {"node2": 42}]


def test_replies_are_collected_from_a_reply_queue(
    kombu_connection: Connection, names: Names
) -> None:
    exchange = Exchange(names.exchange("replies"), type="direct", durable=False)
    queue = Queue(names.queue("replies"), exchange, routing_key="me", exclusive=True)
    with kombu_connection.channel() as channel:
        queue(channel).declare()
        for number in range(3):
            Producer(channel, exchange).publish({"n": number}, routing_key="me")

        replies = collect_replies(kombu_connection, channel, queue, limit=3, timeout=5)
        assert list(replies) == [{"n": 0}, {"n": 1}, {"n": 2}]
