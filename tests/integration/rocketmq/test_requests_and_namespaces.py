"""Request and reply, namespaces and message trace, against our own broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from queue import Queue
from uuid import uuid4

import pytest

from headrace.rocketmq import (
    AsyncProducer,
    BrokerError,
    ConcurrentConsumer,
    ConfigurationError,
    ConsumerConfig,
    ConsumeResult,
    InvalidMessageError,
    LocalTransactionState,
    Message,
    MessageExt,
    OrderlyConsumer,
    Producer,
    ProducerConfig,
    QueueReader,
    RequestTimeoutError,
    TransactionListener,
    TransactionProducer,
)
from headrace.testing import run_broker, wait_for
from headrace.wire.remoting.codes import SysFlag
from headrace.wire.remoting.names import in_namespace, without_namespace
from support.remoting_broker import Ours

SUCCESS, LATER = ConsumeResult.SUCCESS, ConsumeResult.RECONSUME_LATER
Make = Callable[..., Producer]
Consume = Callable[..., ConcurrentConsumer]


@pytest.fixture(scope="module")
def ours() -> Iterator[Ours]:
    with run_broker(sync=False) as broker:
        yield Ours(broker)


@pytest.fixture
def topic() -> str:
    return f"T{uuid4().hex}"


@pytest.fixture
def produce(ours: Ours, stack: ExitStack) -> Make:
    def make(group: str = "pg", **settings: object) -> Producer:
        config = ProducerConfig(group, ours.name_address, **settings)  # type: ignore[arg-type]
        return stack.enter_context(Producer(config))

    return make


@pytest.fixture
def consume(ours: Ours, stack: ExitStack) -> Consume:
    def make(
        topic: str,
        listener: Callable[..., ConsumeResult],
        kind: type[ConcurrentConsumer | OrderlyConsumer] = ConcurrentConsumer,
        **settings: object,
    ) -> ConcurrentConsumer | OrderlyConsumer:
        values = {"consumer_group": f"g{topic[:8]}", "namesrv_addr": ours.name_address, **settings}
        values.setdefault("consume_from_where", "CONSUME_FROM_FIRST_OFFSET")
        made = kind(ConsumerConfig(**values))  # type: ignore[arg-type]
        made.subscribe(topic)
        made.register_message_listener(listener)
        return stack.enter_context(made)

    return make


# -- request and reply ---------------------------------------------------------------------------


def answering(producer: Producer, body: Callable[[bytes], bytes]) -> Callable[..., ConsumeResult]:
    def listen(messages: list[MessageExt]) -> ConsumeResult:
        for message in messages:
            producer.reply(message, body(message.body), properties={"colour": "red"})
        return SUCCESS

    return listen


def test_a_request_gets_the_reply_of_a_consumer(
    topic: str, produce: Make, consume: Consume
) -> None:
    consume(topic, answering(produce("replier"), bytes.upper))
    producer = produce()
    found = producer.request(Message(topic, b"hello"), timeout=20)
    assert (found.body, found.user_properties()) == (b"HELLO", {"colour": "red"})
    assert producer.request(Message(topic, b"again"), timeout=20).body == b"AGAIN"


def test_the_asynchronous_producer_requests_and_replies(
    ours: Ours, topic: str, produce: Make, consume: Consume
) -> None:
    big = b"x" * 100_000
    consume(topic, answering(produce("replier"), lambda body: big))

    async def main() -> list[bytes]:
        async with AsyncProducer(ProducerConfig("pg", ours.name_address)) as producer:
            sent = [producer.request(Message(topic, b"%d" % n), timeout=20) for n in range(5)]
            return [one.body for one in await asyncio.gather(*sent)]

    assert asyncio.run(main()) == [big] * 5


def test_a_request_without_a_reply_ends_in_time(topic: str, produce: Make) -> None:
    producer = produce()
    with pytest.raises(RequestTimeoutError, match=r"no reply .* within 0.3 s"):
        producer.request(Message(topic, b"hello"), timeout=0.3)
    assert producer._running()._replies._waiting == {}


def test_only_a_request_can_be_replied_to(topic: str, produce: Make, consume: Consume) -> None:
    got: Queue[MessageExt] = Queue()

    def listen(messages: list[MessageExt]) -> ConsumeResult:
        got.put(messages[0])
        return SUCCESS

    consume(topic, listen)
    producer = produce()
    producer.send(Message(topic, b"x"))
    with pytest.raises(InvalidMessageError, match="not sent with request"):
        producer.reply(got.get(timeout=20), b"y")


# -- namespaces ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("T", "ns%T"),
        ("ns%T", "ns%T"),
        ("%RETRY%g", "%RETRY%ns%g"),
        ("%DLQ%ns%g", "%DLQ%ns%g"),
        ("TBW102", "TBW102"),
        ("CLIENT_INNER_PRODUCER", "CLIENT_INNER_PRODUCER"),
    ],
)
def test_names_in_a_namespace(name: str, full: str) -> None:
    assert in_namespace("ns", name) == full
    assert in_namespace("", name) == name
    assert without_namespace("", full) == full
    assert without_namespace("ns", full) == name.replace("ns%", "")


@pytest.mark.parametrize("kind", [ConcurrentConsumer, OrderlyConsumer])
def test_a_namespace_keeps_messages_apart_and_is_not_seen(
    ours: Ours,
    topic: str,
    produce: Make,
    consume: Consume,
    kind: type[ConcurrentConsumer | OrderlyConsumer],
) -> None:
    got: list[tuple[str, bytes, int]] = []

    def listen(messages: list[MessageExt]) -> ConsumeResult:
        for one in messages:
            got.append((one.topic, one.body, one.reconsume_times))
        return LATER if len(got) == 1 else SUCCESS

    produce().send(Message(topic, b"outside"))
    producer = produce(namespace="ns")
    result = producer.send(Message(topic, b"inside"))
    assert result.queue.topic == topic
    assert result.queue in producer.queues(topic)
    settings = {"orderly_suspend_current_queue_time_millis": 10}
    consume(topic, listen, kind, namespace="ns", **settings)
    wait_for(lambda: len(got) == 2, 30)  # the retry comes from %RETRY%ns%g after ten seconds
    assert got == [(topic, b"inside", 0), (topic, b"inside", 1)]
    with QueueReader(ours.name_address) as reader:
        assert reader.queues(f"ns%{topic}")


@pytest.mark.parametrize("name", ["a%b", "a b", 5])
def test_a_namespace_is_a_plain_name(name: object) -> None:
    with pytest.raises(ConfigurationError, match="namespace"):
        ProducerConfig("pg", "127.0.0.1:9876", namespace=name)  # type: ignore[arg-type]


# -- trace ---------------------------------------------------------------------------------------


def records(ours: Ours, msg_id: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    with QueueReader(ours.name_address) as reader:
        for queue in reader.queues("RMQ_SYS_TRACE_TOPIC"):
            for batch in reader.read(queue, reader.min_offset(queue), reader.max_offset(queue)):
                for message in batch:
                    for record in message.body.decode().split("\x02"):
                        fields = record.split("\x01")
                        if msg_id in fields:
                            assert msg_id in message.keys
                            found[fields[0]] = fields[1:]
    return found


class Commit(TransactionListener):
    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return LocalTransactionState.COMMIT_MESSAGE

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        return LocalTransactionState.COMMIT_MESSAGE


@pytest.mark.parametrize("kind", [ConcurrentConsumer, OrderlyConsumer])
def test_a_traced_message_leaves_its_records(
    ours: Ours,
    topic: str,
    produce: Make,
    consume: Consume,
    kind: type[ConcurrentConsumer | OrderlyConsumer],
) -> None:
    done: list[MessageExt] = []

    def listen(messages: list[MessageExt]) -> ConsumeResult:
        done.extend(messages)
        return SUCCESS

    producer = produce(enable_msg_trace=True)
    result = producer.send(Message(topic, b"hello", tags="new", keys="no-1"))
    later = producer.send_async(Message(topic, b"async")).result(20)
    consumer = consume(topic, listen, kind, enable_msg_trace=True)
    wait_for(lambda: len(done) == 2)
    consumer.shutdown()
    producer.shutdown()
    found = records(ours, result.msg_id)
    assert found["Pub"][1:6] == ["DefaultRegion", "pg", topic, result.msg_id, "new"]
    assert found["Pub"][6:9] == ["no-1", ours.broker_address, "5"]
    assert found["Pub"][10:13] == ["0", result.offset_msg_id, "true"]
    assert found["SubBefore"][2:7] == [
        consumer.config.consumer_group,
        f"{result.offset_msg_id}-0",
        result.msg_id,
        "0",
        "no-1",
    ]
    assert found["SubAfter"][:2] == [f"{result.offset_msg_id}-0", result.msg_id]
    assert found["SubAfter"][3:6] == ["true", "no-1", "0"]
    assert "Pub" in records(ours, later.msg_id)


def test_the_end_of_a_transaction_is_traced(ours: Ours, topic: str) -> None:
    config = ProducerConfig("bank", ours.name_address, enable_msg_trace=True)
    with TransactionProducer(config, Commit()) as producer:
        result = producer.send_in_transaction(Message(topic, b"100"))
    found = records(ours, result.send_result.msg_id)
    assert found["Pub"][10] == "1"
    assert found["EndTransaction"][9:12] == [
        result.send_result.transaction_id,
        "COMMIT_MESSAGE",
        "false",
    ]


def test_a_failed_send_is_traced(ours: Ours, topic: str, produce: Make) -> None:
    """A body that cannot be decompressed is refused by the broker."""
    producer = produce(enable_msg_trace=True, max_message_size=1 << 25, compress_over=0)
    core = producer._running()
    sent = core.encode(Message(topic, b"x"))
    sent.ext["f"] = str(int(SysFlag.COMPRESSED | SysFlag.ZLIB))
    with pytest.raises(BrokerError, match="compressed body"):
        producer._send(sent, None, None)
    producer.shutdown()
    assert records(ours, sent.msg_id)["Pub"][12] == "false"


# -- timers --------------------------------------------------------------------------------------


def test_a_timed_message_is_delivered_and_a_recalled_one_is_not(
    topic: str, produce: Make, consume: Consume
) -> None:
    got: Queue[tuple[bytes, float]] = Queue()

    def listen(messages: list[MessageExt]) -> ConsumeResult:
        for message in messages:
            got.put((message.body, time.time()))
        return SUCCESS

    producer, began = produce(), time.time()
    recalled = producer.send(Message(topic, b"never", delay=timedelta(seconds=0.6)))
    assert producer.recall(topic, recalled.recall_handle) == recalled.msg_id
    with pytest.raises(BrokerError, match="ILLEGAL_OPERATION"):
        producer.recall(topic, recalled.recall_handle)
    producer.send(Message(topic, b"later", delay=timedelta(seconds=0.5)))
    at = datetime.fromtimestamp(began + 1.0)
    producer.send(Message(topic, b"last", deliver_at=at))
    consume(topic, listen)
    found = [got.get(timeout=20) for _ in range(2)]
    assert [body for body, _ in found] == [b"later", b"last"]
    assert found[0][1] - began >= 0.5 and found[1][1] - began >= 0.99
