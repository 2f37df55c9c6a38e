"""Queues read by offset when messages are gone, brokers away, or answers strange."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from headrace.rocketmq import (
    BrokerError,
    ConfigurationError,
    ForkError,
    Message,
    MessageQueue,
    MessagesGoneError,
    NameServerError,
    Producer,
    QueueReader,
    StateError,
    TopicNotFoundError,
)
from headrace.spark.backends.rocketmq import RocketMqBackend
from headrace.spark.errors import BadOption, DataLost, SparkError
from headrace.spark.options import ReadOptions, read_options
from headrace.spark.task_plan import TaskRange
from headrace.testing import wait_for
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from support.rocketmq.fake_server import Fake, Peer


@pytest.fixture
def filled(fake: Fake, produce: Callable[..., Producer]) -> MessageQueue:
    """A queue of ten messages, of which the broker has dropped four."""
    producer = produce()
    queue = sorted(producer.queues("T"))[0]
    for number in range(10):
        producer.send(Message("T", f"m{number}".encode()), queue=queue)
    fake.min_offset = 4
    return queue


def options(fake: Fake, **given: str) -> ReadOptions:
    return read_options({"url": f"rocketmq://{fake.address}", "topic": "T", **given})


def test_removed_messages_raise_an_error_with_their_offsets(
    fake: Fake, filled: MessageQueue
) -> None:
    with QueueReader(fake.address) as reader:
        reader.queues("T")
        with pytest.raises(MessagesGoneError, match="offsets 2 to 3 are gone") as told:
            list(reader.read(filled, 2, 8))
        rest = [one.body for batch in reader.read(filled, told.value.first, 8) for one in batch]

    assert rest == [b"m4", b"m5", b"m6", b"m7"]


def test_a_table_fails_when_messages_are_gone_or_goes_on_without(
    fake: Fake, filled: MessageQueue
) -> None:
    part = TaskRange(f"T@{filled.broker_name}", filled.queue_id, 2, 8)
    with pytest.raises(DataLost, match="2 to 3"):
        list(RocketMqBackend(options(fake)).batches(part, ""))
    kept = RocketMqBackend(options(fake, failOnDataLoss="false")).batches(part, "")

    assert [row["offset"] for batch in kept for row in batch.to_pylist()] == [4, 5, 6, 7]


def test_a_reader_without_a_name_server_raises_an_error() -> None:
    with (
        QueueReader("127.0.0.1:1") as reader,
        pytest.raises(NameServerError, match=r"127\.0\.0\.1"),
    ):
        reader.queues("T")
    reader.close()
    lonely = read_options({"url": "rocketmq://127.0.0.1:1", "topic": "T"})
    with pytest.raises(SparkError, match="no name server answers"):
        RocketMqBackend(lonely).sources()


def test_a_closed_or_forked_reader_raises_an_error(fake: Fake) -> None:
    with QueueReader(fake.address) as reader:
        reader.queues("T")
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                reader.queues("T")
            except ForkError as error:
                os.write(writing, str(error).encode())
            finally:
                os._exit(0)
        os.close(writing)
        os.waitpid(child, 0)
        with os.fdopen(reading) as pipe:
            assert "forked" in pipe.read()
        assert len(reader.queues("T")) == 2
    reader.close()
    with pytest.raises(StateError, match="QueueReader"):
        reader.queues("T")


def test_a_stream_waits_for_a_broker_that_comes_back(fake: Fake, filled: MessageQueue) -> None:
    fake.min_offset = 0
    source = RocketMqBackend(replace(options(fake), is_stream=True))
    batches = source.batches(TaskRange(f"T@{filled.broker_name}", filled.queue_id, 0, 10), "")
    fake.call(fake.deaf())
    with ThreadPoolExecutor(1) as pool:
        looked, read = pool.submit(source.sources), pool.submit(list, batches)
        wait_for(looked.running)
        fake.call(fake.listen())
        ranges = looked.result(30)[f"T@{filled.broker_name}"].ranges
        rows = [row["offset"] for batch in read.result(30) for row in batch.to_pylist()]

    assert [(part.first, part.end) for part in ranges.values()] == [(0, 10), (0, 0)]
    assert rows == list(range(10))


def test_reading_a_queue_without_its_route_raises_an_error(
    fake: Fake, filled: MessageQueue
) -> None:
    with QueueReader(fake.address) as reader, pytest.raises(TopicNotFoundError, match="queues"):
        list(reader.read(filled, 4, 8))


def test_a_queue_that_does_not_exist(fake: Fake) -> None:
    with pytest.raises(SparkError, match="does not exist"):
        list(RocketMqBackend(options(fake)).batches(TaskRange("T@elsewhere", 0, 0, 5), ""))


@pytest.mark.parametrize(
    "settings",
    [
        {"namesrv_addr": ""},
        {"namesrv_addr": "a"},
        {"namesrv_addr": "a:1", "group": "a b"},
        {"namesrv_addr": "a:1", "access_key": "only"},
    ],
)
def test_bad_settings_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError):
        QueueReader(**settings)  # type: ignore[arg-type]


def test_a_group_that_the_broker_does_not_know_is_made_by_a_pull(
    fake: Fake, filled: MessageQueue
) -> None:
    def unknown(peer: Peer, command: Command) -> object:
        if fake.count(RequestCode.PULL_MESSAGE):
            return fake.normal(peer, command)
        return command.answer(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark="not exist!")

    fake.on(RequestCode.UPDATE_CONSUMER_OFFSET, unknown)  # type: ignore[arg-type]
    with QueueReader(fake.address, group="readers") as reader:
        reader.queues("T")
        reader.commit({filled: 7})

    assert fake.offsets["readers", "T", filled.queue_id] == 7


def test_a_bad_group_is_a_bad_option(fake: Fake) -> None:
    with pytest.raises(BadOption, match="group"):
        RocketMqBackend(options(fake, group="a b")).sources()


def test_a_refusal_of_the_broker_is_reported(fake: Fake, filled: MessageQueue) -> None:
    fake.overrides[RequestCode.PULL_MESSAGE] = lambda peer, one: one.answer(
        ResponseCode.NO_PERMISSION, remark="not you"
    )
    with QueueReader(fake.address) as reader:
        reader.queues("T")
        with pytest.raises(BrokerError, match="not you"):
            list(reader.read(filled, 4, 8))
