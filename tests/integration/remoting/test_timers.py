"""Messages for a later time: delay levels, timers and their recall."""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import Partition
from headrace.server.app import Server
from headrace.server.embedded import core
from headrace.server.remoting.message_mapping import TopicRecord, encode_record
from headrace.store.topics.types import TopicSpec
from headrace.testing import RunningBroker, run_broker
from headrace.wire.remoting.codes import PullFlag, RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.admin import CreateTopic, DeleteTopic
from headrace.wire.remoting.headers.offsets import GetMaxOffset, OffsetResult
from headrace.wire.remoting.headers.pull import PullMessage, ViewMessage
from headrace.wire.remoting.headers.send import RecallMessage, SendMessage, SendResponse
from headrace.wire.remoting.message import BatchElement, batch_bytes
from headrace.wire.remoting.message_ids import take_offset_id
from headrace.wire.remoting.names import SCHEDULE_TOPIC, TIMER_TOPIC
from headrace.wire.remoting.properties import properties_text
from support.raw_remoting import Link
from support.remoting_bodies import RemotingMessage, take_messages
from support.remoting_broker import Ours
from support.rocketmq.protocol_checks import BORN, accepted, new_topic, read

pytestmark = pytest.mark.timeout(60)

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with run_broker(clock="virtual", sync=False) as broker:
        yield broker


@pytest.fixture
def ours(broker: RunningBroker) -> Ours:
    return Ours(broker)


@pytest.fixture
def link(ours: Ours) -> Iterator[Link]:
    with Link(ours.broker_address, credentials=ours.secret()) as link:
        yield link


@pytest.fixture
def topic(ours: Ours) -> str:
    return new_topic(ours)


def send(link: Link, topic: str, sys_flag: int = 0, **properties: str) -> Command:
    text = properties_text({"UNIQ_KEY": "U-1", **properties})
    header = SendMessage("PG", topic, 0, sys_flag, BORN, properties=text)
    return link.call(RequestCode.SEND_MESSAGE_V2, header.ext_v2(), b"late")


def sent(link: Link, topic: str, **properties: str) -> SendResponse:
    return SendResponse.take(accepted(send(link, topic, **properties)).ext)


def count(link: Link, topic: str) -> int:
    return OffsetResult.take(link.ask(GetMaxOffset(topic, 0)).ext).offset


def only(link: Link, topic: str) -> RemotingMessage:
    (message,) = read(link, topic, 1)
    return message


def recall(link: Link, topic: str, handle: str | None) -> Command:
    return link.ask(RecallMessage("PG", topic, handle or ""))


# -- when --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"), [("TIMER_DELAY_MS", "90000"), ("TIMER_DELAY_SEC", "90")]
)
def test_a_timer_is_delivered_when_it_is_due(
    broker: RunningBroker, link: Link, topic: str, name: str, value: str
) -> None:
    sent(link, topic, **{name: value})
    broker.advance(89)
    assert count(link, topic) == 0

    broker.advance(2)
    message = only(link, topic)
    assert message.properties[name] == value
    assert (message.properties["REAL_TOPIC"], message.properties["REAL_QID"]) == (topic, "0")


def test_a_timer_can_be_a_time_of_day(broker: RunningBroker, link: Link, topic: str) -> None:
    due = int(time.time() * 1000) + 30_000
    sent(link, topic, TIMER_DELIVER_MS=str(due))
    broker.advance(25)
    assert count(link, topic) == 0

    broker.advance(10)
    assert only(link, topic).store_timestamp >= due


def let_pass(broker: RunningBroker, ms: int) -> None:
    """Call what is due, and nothing else: advance() would commit. Tidying, which also commits, is
    due at 2 s."""

    async def advance(_: Server) -> None:
        assert broker.clock is not None
        broker.clock.advance(ms)

    broker._running().call(advance)


@pytest.mark.parametrize("delay", [{"DELAY": "1"}, {"TIMER_DELAY_MS": "1000"}])
def test_an_idle_broker_commits_what_it_releases_at_once(
    broker: RunningBroker, link: Link, ours: Ours, topic: str, delay: dict[str, str]
) -> None:
    sent(link, topic)  # the first message of a queue also changes metadata, which commits
    sent(link, topic, **delay)
    flags = int(PullFlag.SUSPEND | PullFlag.SUBSCRIPTION)
    with Link(ours.broker_address, credentials=ours.secret()) as other:
        pull = other.begin(PullMessage("CG", topic, 0, 1, 1, flags, suspend_timeout_millis=60_000))
        count(other, topic)  # the pull waits
        let_pass(broker, 1_100)

        assert [one.body for one in take_messages(other.finish(pull).body)] == [b"late"]


@pytest.mark.parametrize("value", ["-5", "0"])
def test_a_time_in_the_past_is_now(link: Link, topic: str, value: str) -> None:
    response = sent(link, topic, TIMER_DELAY_MS=value)

    assert only(link, topic).body == b"late"
    assert response.recall_handle is None


@pytest.mark.parametrize(
    "properties",
    [
        {"DELAY": "abc"},
        {"TIMER_DELAY_MS": "soon"},
        {"TIMER_DELAY_SEC": "1.5"},
        {"TIMER_DELIVER_MS": "9" * 30},
        {"TIMER_DELAY_MS": str(40 * DAY_MS + 60_000)},
    ],
)
def test_delays_that_cannot_be_kept_are_refused(
    link: Link, topic: str, properties: dict[str, str]
) -> None:
    assert send(link, topic, **properties).code == ResponseCode.MESSAGE_ILLEGAL
    accepted(send(link, topic, TIMER_DELAY_MS=str(40 * DAY_MS - 60_000)))


@pytest.mark.parametrize("name", ["DELAY", "TIMER_DELAY_MS"])
def test_half_messages_and_batches_cannot_be_delayed(link: Link, topic: str, name: str) -> None:
    half = send(link, topic, 4, TRAN_MSG="true", PGROUP="PG", **{name: "5"})
    header = SendMessage("PG", topic, 0, 0, BORN, batch=True)
    body = batch_bytes([BatchElement(0, b"x", properties_text({name: "5"}).encode())])
    batch = link.call(RequestCode.SEND_BATCH_MESSAGE, header.ext_v2(), body)

    assert half.code == ResponseCode.MESSAGE_ILLEGAL
    assert batch.code != 0


def test_a_level_is_shown_and_takes_precedence(
    broker: RunningBroker, link: Link, topic: str
) -> None:
    sent(link, topic, DELAY="2", TIMER_DELAY_MS="60000")
    broker.advance(6)

    message = only(link, topic)
    assert message.delay_level == 2
    assert message.properties["REAL_TOPIC"] == topic


@pytest.mark.parametrize("delay", [{"DELAY": "1"}, {"TIMER_DELAY_MS": "1000"}])
def test_the_offset_id_finds_a_delayed_message_before_and_after_its_delivery(
    broker: RunningBroker, link: Link, topic: str, delay: dict[str, str]
) -> None:
    _, physical = take_offset_id(sent(link, topic, **delay).msg_id)
    before = accepted(link.ask(ViewMessage(physical)))
    broker.advance(2)
    read(link, topic, 1)
    after = accepted(link.ask(ViewMessage(physical)))

    assert [one.body for one in take_messages(before.body)] == [b"late"]
    assert [(one.topic, one.body) for one in take_messages(after.body)] == [(topic, b"late")]


def test_timers_survive_restarts(tmp_path: Path) -> None:
    with run_broker(clock="virtual", data_dir=tmp_path / "data") as broker:
        ours = Ours(broker)
        topic = new_topic(ours)
        with Link(ours.broker_address) as link:
            for seconds in (5, 50):
                sent(link, topic, TIMER_DELAY_SEC=str(seconds))
        broker.crash()
        broker.start()
        with Link(ours.broker_address) as link:
            assert count(link, topic) == 0
            broker.advance(10)
            assert len(read(link, topic, 1)) == 1
        broker.restart()
        with Link(ours.broker_address) as link:
            assert count(link, topic) == 1
            broker.advance(60)
            assert len(read(link, topic, 2)) == 2


# -- where -------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [{"DELAY": "1"}, {"TIMER_DELAY_MS": "1000"}])
def test_a_delayed_message_does_not_create_its_deleted_topic_again(
    broker: RunningBroker, link: Link, ours: Ours, topic: str, delay: dict[str, str]
) -> None:
    other = new_topic(ours)
    for name in (topic, other):
        sent(link, name, **delay)
    accepted(link.ask(DeleteTopic(topic)))
    broker.advance(5)

    assert only(link, other).body == b"late"
    assert link.call(RequestCode.GET_TOPIC_CONFIG, {"topic": topic}).code != 0


def append_raw(broker: RunningBroker, topic: str, record: TopicRecord, queues: int) -> None:
    """As a foreign program may have done before topics were protected."""

    async def append(server: Server) -> None:
        made, _ = core(server).vhosts["/"].topics.log.make(TopicSpec(topic, queues))
        made.append_to(Partition(Priority.MIDDLE, 0), [encode_record(record)])

    broker._running().call(append)


@pytest.mark.parametrize(("hidden", "queues"), [(SCHEDULE_TOPIC, 18), (TIMER_TOPIC, 1)])
def test_a_foreign_message_in_a_hidden_topic_is_dropped(
    tmp_path: Path, hidden: str, queues: int, caplog: pytest.LogCaptureFixture
) -> None:
    with run_broker(clock="virtual", data_dir=tmp_path / "data") as broker:
        ours = Ours(broker)
        topic = new_topic(ours)
        append_raw(broker, hidden, TopicRecord(b"foreign", {}), queues)
        append_raw(broker, hidden, TopicRecord(b"foreign", {"REAL_TOPIC": "T nowhere"}), queues)
        with Link(ours.broker_address) as link:
            sent(link, topic, DELAY="1")
            sent(link, topic, TIMER_DELAY_MS="1000")
            with caplog.at_level(logging.WARNING):
                broker.restart()
        with Link(ours.broker_address) as link, caplog.at_level(logging.WARNING):
            assert count(link, topic) == 0
            broker.advance(5)
            assert len(read(link, topic, 2)) == 2

    assert "dropped: no topic" in caplog.text
    assert "callback failed" not in caplog.text


@pytest.mark.parametrize("delay", [{"DELAY": "1"}, {"TIMER_DELAY_MS": "1000"}])
def test_other_protocols_cannot_write_to_hidden_topics(
    broker: RunningBroker, link: Link, topic: str, delay: dict[str, str]
) -> None:
    sent(link, topic, **delay)
    hidden = SCHEDULE_TOPIC if "DELAY" in delay else TIMER_TOPIC
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
    channel = connection.channel()
    channel.confirm_delivery()
    headers = {"REAL_TOPIC": topic, "TIMER_OUT_MS": "1"}
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        properties = pika.BasicProperties(headers=headers)
        channel.basic_publish(f"topic.{hidden}", "", b"forged", properties)
    assert refused.value.reply_code == 403
    connection.close()
    broker.advance(5)

    assert only(link, topic).body == b"late"


def test_a_hidden_topic_behind_an_exchange_does_not_keep_messages_from_others(
    broker: RunningBroker, link: Link, topic: str
) -> None:
    sent(link, topic, DELAY="1")
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.exchange_declare("all", "fanout")
    channel.exchange_bind(f"topic.{SCHEDULE_TOPIC}", "all")
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, "all")
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("all", "", b"for the queue")

    assert channel.basic_get(queue, auto_ack=True)[2] == b"for the queue"
    connection.close()


# -- recall ------------------------------------------------------------------------------------


def test_a_recalled_message_is_not_delivered(broker: RunningBroker, link: Link, topic: str) -> None:
    kept, recalled = (sent(link, topic, TIMER_DELAY_MS="5000") for _ in range(2))
    answer = accepted(recall(link, topic, recalled.recall_handle))
    broker.advance(10)

    assert answer.ext["msgId"] == "U-1"
    assert only(link, topic).body == b"late"
    assert count(link, topic) == 1
    assert base64.urlsafe_b64decode(kept.recall_handle or "").decode().split(" ")[:3] == [
        "v1", topic, "headrace",
    ]  # fmt: skip


def test_a_recall_survives_a_crash(tmp_path: Path) -> None:
    with run_broker(clock="virtual", data_dir=tmp_path / "data") as broker:
        ours = Ours(broker)
        topic = new_topic(ours)
        with Link(ours.broker_address) as link:
            response = sent(link, topic, TIMER_DELAY_MS="5000")
            accepted(recall(link, topic, response.recall_handle))
        broker.crash()
        broker.start()
        with Link(ours.broker_address) as link:
            assert count(link, topic) == 0
            broker.advance(10)
            sent(link, topic)
            read(link, topic, 1)

            assert count(link, topic) == 1


def test_recalls_that_cannot_be_done_are_refused(
    broker: RunningBroker, link: Link, ours: Ours, topic: str
) -> None:
    other = new_topic(ours)
    handle = sent(link, topic, TIMER_DELAY_MS="5000").recall_handle or ""
    words = base64.urlsafe_b64decode(handle).decode().split(" ")
    stolen = " ".join([words[0], other, *words[2:]]).encode()
    for name, bad in [
        (other, handle),
        (other, base64.urlsafe_b64encode(stolen).decode()),
        (topic, "nonsense"),
        (topic, base64.urlsafe_b64encode(b"v1 T broker-a 1 U").decode()),
    ]:
        assert recall(link, name, bad).code == ResponseCode.ILLEGAL_OPERATION
    assert recall(link, "T-missing", handle).code == ResponseCode.TOPIC_NOT_EXIST
    broker.advance(10)
    read(link, topic, 1)

    assert recall(link, topic, handle).code == ResponseCode.ILLEGAL_OPERATION


def test_a_topic_that_was_created_again_keeps_later_timers(
    broker: RunningBroker, link: Link, topic: str
) -> None:
    sent(link, topic, TIMER_DELAY_MS="1000")
    accepted(link.ask(DeleteTopic(topic)))
    accepted(link.ask(CreateTopic(topic, 1, 1)))
    broker.advance(5)

    assert only(link, topic).body == b"late"
