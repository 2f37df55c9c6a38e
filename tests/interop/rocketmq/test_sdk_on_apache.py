"""What outside tests of the SDK found, on a real Apache RocketMQ."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread

import pytest

from headrace.rocketmq import (
    BrokerError,
    ConcurrentConsumer,
    ConsumeResult,
    Message,
    MessageExt,
    QueueReader,
    RocketMQError,
)
from headrace.testing import wait_for
from support.rocketmq.apache import VERSION, Apache
from support.rocketmq.sdk_scenarios import Collector, Scene, numbered

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(params=["apache", "old_apache"])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(request.getfixturevalue(request.param).name_address, stack)


def test_no_send_fails_while_the_name_server_restarts(own_apache: Apache) -> None:
    """It knows no route until the broker registers again, up to 30 seconds later."""
    failed: list[str] = []
    sent, stop = [0], Event()
    with ExitStack() as stack:
        scene = Scene(own_apache.name_address, stack)
        topic = scene.topic()
        producer = scene.producer(poll_route_interval=500)

        def send() -> None:
            while not stop.wait(0.005):
                sent[0] += 1
                try:
                    producer.send(Message(topic, b"x"), timeout=3)
                except RocketMQError as error:
                    failed.append(str(error))

        thread = Thread(target=send)
        thread.start()
        wait_for(lambda: sent[0] > 50, 30)
        own_apache.kill("namesrv")
        own_apache.start_name_server()
        before = sent[0]
        wait_for(lambda: sent[0] > before + 1000, 60)
        stop.set()
        thread.join(30)
    assert failed == []


def test_members_that_start_together_repeat_little(scene: Scene) -> None:
    topic, count = scene.topic(), 4000
    producer = scene.producer()
    for start in range(0, count, 100):
        producer.send_batch(numbered(topic, count)[start : start + 100])
    both = Collector()
    slow = {"consume_thread_max": 4, "persist_interval": 5000}

    def listen(messages: list[MessageExt]) -> ConsumeResult:
        time.sleep(0.001)
        return both(messages, None)  # type: ignore[arg-type]

    starts = [
        Thread(target=lambda: scene.consumer(ConcurrentConsumer, topic, listen, **slow))
        for _ in range(2)
    ]
    for one in starts:
        one.start()
    for one in starts:
        one.join()
    both.wait(count, 120)
    repeated = sum(times - 1 for times in Counter(both.bodies()).values())
    assert repeated < count / 10


def test_a_new_group_begins_at_the_end_of_a_young_topic(scene: Scene) -> None:
    topic, got = scene.topic(1), Collector()
    producer = scene.producer()
    producer.send(Message(topic, b"old"))
    scene.consumer(ConcurrentConsumer, topic, got, consume_from_where="CONSUME_FROM_LAST_OFFSET")
    producer.send(Message(topic, b"new"))
    got.wait(1)
    assert got.bodies() == ["new"]


def test_a_request_gets_its_reply(scene: Scene) -> None:
    topic, replier = scene.topic(1), scene.producer()

    def answer(messages: list[MessageExt]) -> ConsumeResult:
        for message in messages:
            replier.reply(message, message.body.upper())
        return ConsumeResult.SUCCESS

    scene.consumer(ConcurrentConsumer, topic, answer)
    found = scene.producer().request(Message(topic, b"hello"), timeout=30)
    assert found.body == b"HELLO"


def test_namespaces_and_traces(scene: Scene) -> None:
    topic, got = f"N{scene.group}", Collector()
    with scene.producer(namespace="ns", enable_msg_trace=True) as producer:
        result = producer.send(Message(topic, b"x"))
    scene.consumer(ConcurrentConsumer, topic, got, namespace="ns")
    assert got.wait(1) == ["x"] and got.messages[0].topic == topic
    with QueueReader(scene.namesrv) as reader:
        traces = [
            message
            for queue in reader.queues("RMQ_SYS_TRACE_TOPIC")
            for batch in reader.read(queue, reader.min_offset(queue), reader.max_offset(queue))
            for message in batch
        ]
    assert any(result.msg_id in one.keys and one.body.startswith(b"Pub") for one in traces)


@pytest.mark.skipif(VERSION.startswith("4"), reason="4.9 has no timers")
def test_timed_messages_are_delivered_and_recalled(tmp_path: Path) -> None:
    timers = "timerWheelEnable=true\ntimerPrecisionMs=100\nrecallMessageEnable=true\n"
    server = Apache(tmp_path, settings=timers).start()
    try:
        with ExitStack() as stack:
            scene = Scene(server.name_address, stack)
            wait_for(lambda: scene.producer() is not None, 30)
            topic, got = scene.topic(1), Collector()
            scene.consumer(ConcurrentConsumer, topic, got)
            producer = scene.producer()
            began = time.time()
            producer.send(Message(topic, b"later", delay=timedelta(seconds=3)))
            recalled = producer.send(Message(topic, b"never", delay=timedelta(seconds=5)))
            assert producer.recall(topic, recalled.recall_handle)
            got.wait(1, 60)
            assert time.time() - began >= 2.5
            producer.send(Message(topic, b"last", delay=timedelta(seconds=6)))
            got.wait(2, 60)
            assert got.bodies() == ["later", "last"]
            with pytest.raises(BrokerError):
                producer.recall(topic, recalled.recall_handle[:-8])
    finally:
        server.stop()
