"""Messages for a later time, and their recall."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from headrace.rocketmq import (
    AsyncProducer,
    BrokerError,
    InvalidMessageError,
    Message,
    Producer,
    ProducerConfig,
)
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from support.rocketmq.fake_server import Fake, Peer

Produce = Callable[..., Producer]
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
HANDLE = base64.urlsafe_b64encode(b"v1 T broker-a 1767355200000 7F00").decode()
RECALL = RequestCode.RECALL_MESSAGE


@pytest.mark.parametrize(
    ("timer", "properties"),
    [
        ({"deliver_at": NOON}, {"TIMER_DELIVER_MS": "1767355200000"}),
        ({"delay": timedelta(minutes=1.5)}, {"TIMER_DELAY_MS": "90000"}),
        ({"delay_level": 3}, {"DELAY": "3"}),
    ],
)
def test_the_time_of_a_message_is_a_property(
    timer: dict[str, object], properties: dict[str, str]
) -> None:
    found = Message("T", b"x", **timer).wire_properties()  # type: ignore[arg-type]
    assert found == {**properties, "WAIT": "true"}


@pytest.mark.parametrize(
    "timer",
    [
        {"deliver_at": 1767355200000},
        {"delay": 5},
        {"delay": timedelta(0)},
        {"delay": timedelta(seconds=-1)},
        {"delay": timedelta(seconds=1), "deliver_at": NOON},
        {"delay": timedelta(seconds=1), "delay_level": 1},
    ],
)
def test_a_time_that_cannot_be_used_is_refused(timer: dict[str, object]) -> None:
    with pytest.raises(InvalidMessageError, match=r"delay|deliver_at"):
        Message("T", b"x", **timer)  # type: ignore[arg-type]


def test_batches_take_no_timed_messages(produce: Produce) -> None:
    with pytest.raises(InvalidMessageError, match="delayed"):
        produce().send_batch([Message("T", b"x", delay=timedelta(seconds=1))])


def with_handle(fake: Fake) -> Callable[[Peer, Command], Command]:
    def sent(peer: Peer, command: Command) -> Command:
        answer = fake._sent(command)
        return command.answer(0, {**answer.ext, "recallHandle": HANDLE})

    return sent


def test_a_timed_message_is_recalled_by_the_handle_of_its_result(
    fake: Fake, produce: Produce
) -> None:
    fake.on(RequestCode.SEND_MESSAGE_V2, with_handle(fake))
    fake.on(RECALL, lambda peer, command: command.answer(0, {"msgId": "7F00"}))
    producer = produce()
    result = producer.send(Message("T", b"x", delay=timedelta(seconds=60)))
    assert result.recall_handle == HANDLE
    assert producer.recall("T", result.recall_handle) == "7F00"
    asked = next(one for one in fake.seen if one.code == RECALL)
    assert (asked.ext["topic"], asked.ext["recallHandle"]) == ("T", HANDLE)
    assert asked.ext["producerGroup"] == "pg"


def test_a_recall_that_is_too_late_is_an_error(fake: Fake, produce: Produce) -> None:
    late = "the message is delivered"
    fake.on(RECALL, lambda p, command: command.answer(ResponseCode.ILLEGAL_OPERATION, remark=late))
    with pytest.raises(BrokerError, match=late):
        produce().recall("T", HANDLE)


@pytest.mark.parametrize("handle", ["", "nonsense", base64.b64encode(b"v9 a b c d").decode()])
def test_a_recall_without_a_handle_is_refused(fake: Fake, produce: Produce, handle: str) -> None:
    with pytest.raises(InvalidMessageError, match="recall_handle"):
        produce().recall("T", handle)
    assert fake.count(RECALL) == 0


def test_the_asynchronous_producer_recalls_too(fake: Fake) -> None:
    fake.on(RECALL, lambda peer, command: command.answer(0, {"msgId": "7F00"}))

    async def main() -> str:
        async with AsyncProducer(ProducerConfig("pg", fake.address)) as producer:
            return await producer.recall("T", HANDLE)

    assert asyncio.run(main()) == "7F00"
