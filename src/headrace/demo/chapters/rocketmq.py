"""A group of RocketMQ consumers, in Python."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from headrace.demo.broker import DemoBroker
from headrace.demo.output import DemoOutput
from headrace.rocketmq import (
    ConcurrentConsumer,
    ConsumeContext,
    ConsumerConfig,
    ConsumeResult,
    Message,
    MessageExt,
    Producer,
    ProducerConfig,
    QueueReader,
    TopicNotFoundError,
)

COUNT = 200
TOPIC, GROUP = "parcels", "packers"
_SECONDS = 20.0


class DemoConsumer:
    """One member of the group, and what it has done."""

    def __init__(self, namesrv_addr: str) -> None:
        self.done: Counter[str] = Counter()
        self._lock = Lock()
        config = ConsumerConfig(
            consumer_group=GROUP,
            namesrv_addr=namesrv_addr,
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        )
        self.consumer = ConcurrentConsumer(config)
        self.consumer.subscribe(TOPIC, "box || letter")
        self.consumer.register_message_listener(self._pack)

    def _pack(self, messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        if messages[0].body == b"a bomb":
            context.delay_level_when_next_consume = -1  # no second try
            return ConsumeResult.RECONSUME_LATER
        with self._lock:
            self.done.update(one.body.decode() for one in messages)
        return ConsumeResult.SUCCESS

    @property
    def queues(self) -> int:
        return sum(queue.topic == TOPIC for queue in self.consumer.assigned_queues())


def rocketmq_group(output: DemoOutput, broker: DemoBroker) -> None:
    """RocketMQ: a consumer group, a rebalance, dead letters"""
    output.remark(
        f"RocketMQ clients in Java, Go, C++ and Node use the same broker; its name server is "
        f"{broker.namesrv_addr}. The client here is headrace.rocketmq."
    )
    config = ProducerConfig(producer_group="shop", namesrv_addr=broker.namesrv_addr)
    with Producer(config) as producer, _quiet():
        producer.send(
            Message(TOPIC, b"not for the group", tags="lorry")
        )  # makes the topic: four queues
        first, second = DemoConsumer(broker.namesrv_addr), DemoConsumer(broker.namesrv_addr)
        with first.consumer:
            with second.consumer:
                shared = _soon(lambda: (first.queues, second.queues) == (2, 2))
                output.check("two members of a group share the four queues of a topic", shared)
                for number in range(COUNT):
                    producer.send_async(Message(TOPIC, f"parcel {number}".encode(), tags="box"))
                _soon(lambda: (first.done + second.done).total() >= COUNT)
                done = first.done + second.done
                wanted = Counter(f"parcel {number}" for number in range(COUNT))
                claim = f"{COUNT} parcels consumed, each once; other tags are skipped"
                output.check(claim, done == wanted, (first.done.total(), second.done.total()))
            alone = _soon(lambda: first.queues == 4)
            output.check("one member leaves, and the other takes over its queues", alone)
            producer.send(Message(TOPIC, b"a bomb", tags="box"))
            dead = _dead_letters(broker.namesrv_addr)
    output.expect("the failing message is in the dead-letter topic %DLQ%packers", dead, [b"a bomb"])


@contextmanager
def _quiet() -> Iterator[None]:
    """The dead letter is logged; the demo prints it itself."""
    log = logging.getLogger("headrace.rocketmq")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def _dead_letters(namesrv_addr: str) -> list[bytes]:
    with QueueReader(namesrv_addr) as reader:
        found: list[bytes] = []

        def look() -> bool:
            for queue in reader.queues(f"%DLQ%{GROUP}"):
                for batch in reader.read(queue, 0, reader.max_offset(queue)):
                    found.extend(message.body for message in batch)
            return bool(found)

        _soon(look)
    return found


def _soon(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + _SECONDS
    while not (held := _holds(condition)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return held


def _holds(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except TopicNotFoundError:  # no dead letter yet
        return False
