"""Restarted name servers, refusals, start positions and members that start together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from headrace.rocketmq import (
    BrokerError,
    ConcurrentConsumer,
    ConsumerConfig,
    ConsumeResult,
    Message,
    MessageExt,
    MessageQueue,
    MessageSelector,
    OffsetStore,
    OrderlyConsumer,
    Producer,
    ReadOffsetType,
    SendError,
)
from headrace.testing import wait_for
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from support.rocketmq.fake_server import Fake, Peer

SEND = RequestCode.SEND_MESSAGE_V2
ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
NOTIFY = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
SUCCESS = ConsumeResult.SUCCESS
HELLO = Message("T", b"hello")
Produce = Callable[..., Producer]
Consume = Callable[..., ConcurrentConsumer]


def refuse(code: int, text: str) -> Callable[[Peer, Command], Command]:
    return lambda peer, command: command.answer(code, remark=text)


# -- a name server that has forgotten everything -------------------------------------------------


def test_a_restarted_name_server_does_not_make_sends_fail(fake: Fake, produce: Produce) -> None:
    producer = produce(poll_route_interval=100)
    producer.send(HELLO)
    fake.on(ROUTE, refuse(ResponseCode.TOPIC_NOT_EXIST, "no topic route info"))
    asked = fake.count(ROUTE)
    wait_for(lambda: fake.count(ROUTE) > asked + 4)
    producer.send(HELLO)

    fake.well(ROUTE)
    asked = fake.count(ROUTE)
    wait_for(lambda: fake.count(ROUTE) > asked + 4)
    producer.send(HELLO)
    assert producer.health().ok


def test_a_name_server_that_knows_only_the_template_does_not_change_a_route(
    fake: Fake, produce: Produce
) -> None:
    producer = produce(poll_route_interval=100)
    producer.send(HELLO)
    fake.topics.pop("T")
    asked = fake.count(ROUTE)
    wait_for(lambda: fake.count(ROUTE) > asked + 4)
    assert len(producer.queues("T")) == 2  # the template would give four


def test_a_route_is_forgotten_when_its_brokers_are_gone_too(fake: Fake, produce: Produce) -> None:
    with Fake({}) as moved:
        producer = produce(
            poll_route_interval=100, heartbeat_interval=100, namesrv_addr=fake.address
        )
        fake.on(
            ROUTE,
            lambda peer, command: (
                moved._get_routeinfo_by_topic(peer, command)
                if moved.topics
                else command.answer(ResponseCode.TOPIC_NOT_EXIST)
            ),
        )
        moved.topics["T"] = 1
        assert len(producer.queues("T")) == 1
        producer.send(HELLO)
        moved.topics.clear()
    wait_for(lambda: producer._running().topic_now("T") is None)


# -- refusals ------------------------------------------------------------------------------------


def test_a_missing_permission_is_not_tried_again(fake: Fake, produce: Produce) -> None:
    fake.on(SEND, refuse(ResponseCode.NO_PERMISSION, "AclException: No default permission for T"))
    with pytest.raises(BrokerError, match=r"NO_PERMISSION.*AclException"):
        produce().send(HELLO)
    assert fake.count(SEND) == 1


def test_a_broker_that_may_not_be_written_is_replaced_by_another(
    fake: Fake, produce: Produce
) -> None:
    with Fake({"T": 2}) as other:
        fake.others = {"broker-b": other.address}
        text = "the broker[127.0.0.1] sending message is forbidden"
        fake.on(SEND, refuse(ResponseCode.NO_PERMISSION, text))
        producer = produce()
        for _ in range(4):
            assert producer.send(HELLO).queue.broker_name == "broker-b"


def test_a_message_that_every_broker_refused_was_not_stored(fake: Fake, produce: Produce) -> None:
    fake.on(SEND, refuse(ResponseCode.SYSTEM_BUSY, "[TIMEOUT_CLEAN_QUEUE]broker busy"))
    with pytest.raises(SendError, match="it was not stored"):
        produce().send(HELLO)

    fake.on(SEND, lambda peer, command: peer.close())
    with pytest.raises(SendError, match="may have been stored"):
        produce().send(HELLO)


# -- where a new group begins --------------------------------------------------------------------


def test_the_first_offset_needs_no_permission_to_ask_for_it(fake: Fake, consume: Consume) -> None:
    fake.on(RequestCode.GET_MIN_OFFSET, refuse(ResponseCode.NO_PERMISSION, "no GET"))
    fake.on(RequestCode.GET_MAX_OFFSET, refuse(ResponseCode.NO_PERMISSION, "no GET"))
    fake.put("T", b"0", b"1", b"2")
    fake.put("T", b"0", queue=1)
    fake.put("%RETRY%g", b"0")
    fake.min_offset = 1
    got: list[bytes] = []

    def listen(messages: list[MessageExt]) -> ConsumeResult:
        got.extend(one.body for one in messages)
        return SUCCESS

    consumer = consume(ConcurrentConsumer, listen)
    wait_for(lambda: sorted(got) == [b"1", b"2"])
    wait_for(lambda: len(consumer.assigned_queues()) == 3)  # the retry queue too
    assert fake.count(RequestCode.GET_MIN_OFFSET) == 0


@pytest.mark.parametrize("version", ["4.9", "5"])
@pytest.mark.parametrize("stored", [False, True])
def test_the_last_offset_is_where_a_group_without_offsets_begins(
    fake: Fake, consume: Consume, stored: bool, version: str
) -> None:
    """Some brokers say 0 for a young topic; they know better which groups have offsets."""
    fake.put("T", b"old")

    def no_offset(peer: Peer, command: Command) -> Command:
        assert command.ext["setZeroIfNotFound"] == "false"
        return command.answer(0, {"offset": "0"})

    def topics(peer: Peer, command: Command) -> Command:
        names = "T" if stored else "other"
        return command.answer(0, body=f'{{"topicList":["{names}"]}}'.encode())

    fake.on(RequestCode.QUERY_CONSUMER_OFFSET, no_offset)

    def all_offsets(peer: Peer, command: Command) -> Command:
        names = "T@g" if stored else "T@other"
        return command.answer(0, body=f'{{"offsetTable":{{"{names}":{{0:0}}}}}}'.encode())

    if version == "5":
        fake.on(RequestCode.QUERY_TOPICS_BY_CONSUMER, topics)
    fake.on(RequestCode.GET_ALL_CONSUMER_OFFSET, all_offsets)
    got: list[bytes] = []

    def listen(messages: list[MessageExt]) -> ConsumeResult:
        got.extend(one.body for one in messages)
        return SUCCESS

    consume(ConcurrentConsumer, listen, consume_from_where="CONSUME_FROM_LAST_OFFSET")
    fake.put("T", b"new")
    wait_for(lambda: b"new" in got)
    assert got == ([b"old", b"new"] if stored else [b"new"])


# -- members that start together -----------------------------------------------------------------


@pytest.mark.parametrize("kind", [ConcurrentConsumer, OrderlyConsumer])
def test_offsets_are_stored_before_queues_are_shared_again(
    fake: Fake, consume: Consume, kind: type[ConcurrentConsumer]
) -> None:
    fake.put("T", *(b"%d" % number for number in range(20)))
    consumer = consume(
        kind, lambda messages: SUCCESS, persist_interval=60_000, rebalance_interval=60_000
    )
    wait_for(lambda: consumer.metrics.to_dict()["consumed"] == 20)
    fake.seen.clear()
    fake.everybody(lambda peer: peer.ask(NOTIFY, {"consumerGroup": "g"}, oneway=True))
    wait_for(lambda: fake.count(RequestCode.GET_CONSUMER_LIST_BY_GROUP))
    assert fake.offsets["g", "T", 0] == 20


def test_a_new_member_reads_offsets_after_the_others_have_stored_theirs(
    fake: Fake, consume: Consume
) -> None:
    fake.put("T", *(b"%d" % number for number in range(20)))
    fake.members["g"] = ["0"]  # it has all queues, and consumed ten messages

    async def members(peer: Peer, command: Command) -> Command:
        async def store() -> None:
            await asyncio.sleep(0.05)
            for queue in range(2):
                fake.offsets.setdefault(("g", "T", queue), 10)

        fake.keep(asyncio.create_task(store()))
        return fake._get_consumer_list_by_group(peer, command)

    fake.on(RequestCode.GET_CONSUMER_LIST_BY_GROUP, members)
    got: list[MessageExt] = []
    fake.put("T", *(b"%d" % number for number in range(20)), queue=1)

    def listen(messages: list[MessageExt]) -> ConsumeResult:
        got.extend(messages)
        return SUCCESS

    consume(ConcurrentConsumer, listen, rebalance_interval=60_000)
    wait_for(lambda: len(got) >= 10)
    assert min(one.queue_offset for one in got) == 10


# -- what the log says ---------------------------------------------------------------------------


def test_the_log_does_not_promise_another_try_after_the_last(
    fake: Fake, stack: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    fake.put("T", b"bad")

    def listen(messages: list[MessageExt]) -> ConsumeResult:
        raise RuntimeError("broken")

    consumer = ConcurrentConsumer(
        ConsumerConfig(
            "g",
            fake.address,
            max_reconsume_times=0,
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        )
    )
    consumer.subscribe("T")
    consumer.register_message_listener(listen)
    with caplog.at_level(logging.WARNING), consumer:
        wait_for(lambda: fake.messages["%DLQ%g", 0])
    assert "tried again" not in caplog.text
    assert "goes to the dead letters of g" in caplog.text


# -- changes at work -----------------------------------------------------------------------------


def test_a_new_selector_holds_for_pulls_that_already_wait(fake: Fake, consume: Consume) -> None:
    got: list[bytes] = []

    def listen(messages: list[MessageExt]) -> ConsumeResult:
        got.extend(one.body for one in messages)
        return SUCCESS

    consumer = consume(ConcurrentConsumer, listen, "red")
    wait_for(lambda: fake.count(RequestCode.PULL_MESSAGE) >= 3)  # one for each queue
    consumer.subscription_manager.update_selector("T", MessageSelector.by_tag("blue"))
    fake.put("T", b"1", TAGS="blue")
    fake.put("T", b"2", TAGS="red")
    fake.put("T", b"3", TAGS="blue")
    wait_for(lambda: len(got) >= 2)

    assert got == [b"1", b"3"]


class Broken(OffsetStore):
    """A user's store whose database is gone."""

    def load(self) -> None:
        """Nothing."""

    def update_offset(self, queue: MessageQueue, offset: int) -> None:
        """Nothing."""

    def persist(self, queue: MessageQueue) -> None:
        raise RuntimeError("no database")

    def persist_all(self) -> None:
        raise RuntimeError("no database")

    def read_offset(self, queue: MessageQueue, read_type: ReadOffsetType) -> int:
        return -1


@pytest.mark.parametrize("kind", [ConcurrentConsumer, OrderlyConsumer])
def test_any_exception_of_an_offset_store_is_reported_and_does_not_stop_the_consumer(
    fake: Fake, kind: type[ConcurrentConsumer | OrderlyConsumer], caplog: pytest.LogCaptureFixture
) -> None:
    fake.put("T", b"1", b"2", b"3")
    got: list[bytes] = []

    def listen(messages: list[MessageExt]) -> ConsumeResult:
        got.extend(one.body for one in messages)
        return SUCCESS

    config = ConsumerConfig("g", fake.address, consume_from_where="CONSUME_FROM_FIRST_OFFSET")
    consumer = kind(config, offset_store=Broken())
    consumer.subscribe("T")
    consumer.register_message_listener(listen)
    consumer.start()
    wait_for(lambda: len(got) == 3)
    consumer.shutdown()

    assert "no database" in caplog.text
