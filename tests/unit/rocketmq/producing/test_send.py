"""Sends, routes, faults, calls: the protocol's state without a socket and without a clock."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.rocketmq import (
    BrokerError,
    ConnectError,
    InvalidMessageError,
    Message,
    MessageQueue,
    ProducerConfig,
    RequestTimeoutError,
    SendError,
    SendStatus,
)
from headrace.rocketmq.consuming.orderly import by_broker
from headrace.rocketmq.consuming.rebalance import change, share_of
from headrace.rocketmq.errors import ConnectionLostError, RocketMQError
from headrace.rocketmq.net.connection import PendingRequest, PendingRequests
from headrace.rocketmq.net.routes import TopicRoutes, route_by_template
from headrace.rocketmq.producing.send import (
    RETRIED,
    BrokerFaults,
    SendAttempts,
    queue_by_key,
    rest_after,
)
from headrace.rocketmq.producing.send_requests import EncodedSend, encode_batch, encode_message
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.compression import inflate
from headrace.wire.remoting.headers.route import BrokerData, QueueData, TopicRoute
from headrace.wire.remoting.headers.send import take_send
from headrace.wire.remoting.message import take_batch
from headrace.wire.remoting.properties import take_properties

CONFIG = ProducerConfig(producer_group="pg", namesrv_addr="localhost:9876")
QUEUES = [MessageQueue("T", broker, number) for broker in "ab" for number in range(2)]
STORED = {"msgId": "7F00000100002A9F0000000000000400", "queueId": "1", "queueOffset": "7"}


def tries(most: int = 3, deadline: float = 10.0, **more: object) -> SendAttempts:
    sent = encode_message(CONFIG, Message("T", b"x"), "ID")
    return SendAttempts(
        sent,
        QUEUES,
        BrokerFaults(),
        place=0,
        most=most,
        deadline=deadline,
        **more,  # type: ignore[arg-type]
    )


# -- tries ---------------------------------------------------------------------------------------


def test_a_stored_message_has_a_result() -> None:
    job = tries()
    queue, left = job.next(0.0)
    assert (queue, left) == (QUEUES[0], 10.0)
    result = job.answered(Command(0, STORED), "b:1", 0.1)
    assert result is not None
    assert (result.status, result.msg_id, result.queue_offset) == (SendStatus.SEND_OK, "ID", 7)
    assert result.queue == MessageQueue("T", "a", 1)


@pytest.mark.parametrize(
    ("code", "status"),
    [(10, "FLUSH_DISK_TIMEOUT"), (11, "SLAVE_NOT_AVAILABLE"), (12, "FLUSH_SLAVE_TIMEOUT")],
)
def test_stored_but_not_safe(code: int, status: str) -> None:
    job = tries()
    job.next(0.0)
    result = job.answered(Command(code, STORED), "b:1", 0.1)
    assert result is not None and result.status == status
    strict = tries(strict_store=True)
    strict.next(0.0)
    assert strict.answered(Command(code, STORED), "b:1", 0.1) is None
    assert strict.next(0.1)[0].broker_name == "b"


def test_a_retry_goes_to_another_broker() -> None:
    job = tries()
    brokers = []
    for _ in range(3):
        brokers.append(job.next(0.0)[0].broker_name)
        job.failed(ConnectError("down"), 0.0)
    assert brokers == ["a", "b", "a"]
    with pytest.raises(SendError, match="3 attempts") as caught:
        job.next(0.0)
    assert len(caught.value.attempts) == 3
    assert "ID" in str(caught.value)


@given(st.integers(0, 3000))
def test_only_some_codes_are_tried_again(code: int) -> None:
    job = tries()
    job.next(0.0)
    answer = job.answered(Command(code, STORED, remark="no"), "b:1", 0.1)
    if code in (0, 10, 11, 12):
        assert answer is not None
    elif code in RETRIED:
        job.next(0.2)
    else:
        with pytest.raises(BrokerError) as caught:
            job.next(0.2)
        assert caught.value.code == code


def test_the_time_is_for_all_tries_together() -> None:
    job = tries(deadline=1.0)
    job.next(0.0)
    job.failed(RequestTimeoutError("slow"), 0.9)
    assert job.next(0.9)[1] == pytest.approx(0.1)
    job.failed(RequestTimeoutError("slow"), 1.0)
    with pytest.raises(SendError, match="timeout is over"):
        job.next(1.0)


def test_a_chosen_queue_is_tried_once() -> None:
    job = tries(fixed=QUEUES[3])
    assert job.next(0.0)[0] == QUEUES[3]
    job.failed(ConnectError("down"), 0.0)
    with pytest.raises(ConnectError):
        job.next(0.0)


@given(st.text(max_size=20), st.integers(1, 20))
def test_a_key_always_has_the_same_queue(key: str, count: int) -> None:
    queues = [MessageQueue("T", "a", number) for number in range(count)]
    assert queue_by_key(queues, key) == queue_by_key(queues, key)


def test_keys_are_hashed_as_in_java() -> None:
    queues = [MessageQueue("T", "a", number) for number in range(1000)]
    assert queue_by_key(queues, "TagA").queue_id == 919
    assert queue_by_key(queues, "CreateOrderAndPay").queue_id == 627


# -- messages -------------------------------------------------------------------------------------


def sent(one: EncodedSend) -> tuple[dict[str, str], Command]:
    command = one.command(QUEUES[1])
    header = take_send(command.code, command.ext)
    assert (header.queue_id, header.producer_group, header.topic) == (1, "pg", "T")
    return take_properties(header.properties), command


def test_large_bodies_are_compressed() -> None:
    body = b"x" * 5000
    _, command = sent(encode_message(CONFIG, Message("T", body), "ID"))
    flag = take_send(command.code, command.ext).sys_flag
    assert len(command.body) < 100
    assert inflate(command.body, flag) == body
    incompressible = bytes(range(256)) * 16
    _, small = sent(encode_message(CONFIG, Message("T", incompressible[:4096]), "ID"))
    assert take_send(small.code, small.ext).sys_flag == 0


def test_half_messages_are_marked_and_cannot_be_delayed() -> None:
    with pytest.raises(InvalidMessageError, match="cannot be delayed"):
        encode_message(CONFIG, Message("T", b"x", delay_level=3), "ID", transaction=True)
    half = encode_message(CONFIG, Message("T", b"x"), "ID", transaction=True)
    properties, command = sent(half)
    assert properties["TRAN_MSG"] == "true"
    assert properties["PGROUP"] == "pg"
    assert take_send(command.code, command.ext).sys_flag == 4


def test_batches_hold_every_message() -> None:
    messages = [Message("T", b"1", tags="a"), Message("T", b"2", keys="k")]
    one = encode_batch(CONFIG, messages, ["ID1", "ID2"])
    _, command = sent(one)
    elements = list(take_batch(command.body))
    assert [element.body for element in elements] == [b"1", b"2"]
    first = take_properties(elements[0].properties.decode())
    assert (first["TAGS"], first["UNIQ_KEY"]) == ("a", "ID1")
    assert (one.msg_id, one.count) == ("ID1,ID2", 2)


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [Message("T", b"x"), Message("U", b"x")],
        [Message("T", b"x", delay_level=1)],
        [Message("T", b"x"), Message("T", b"x", wait_store_ok=False)],
        [Message("%RETRY%g", b"x")],
    ],
)
def test_batches_no_broker_would_take(messages: list[Message]) -> None:
    with pytest.raises(InvalidMessageError):
        encode_batch(CONFIG, messages, ["ID"] * len(messages))


def test_messages_above_the_limit_are_refused() -> None:
    config = ProducerConfig(producer_group="pg", namesrv_addr="a:1", max_message_size=10)
    with pytest.raises(InvalidMessageError, match="max_message_size"):
        encode_message(config, Message("T", b"x" * 11), "ID")


# -- faults --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("millis", "seconds"),
    [(0, 0), (549, 0), (550, 2), (1800, 5), (3000, 6), (5000, 10), (15_000, 30), (99_999, 30)],
)
def test_slow_brokers_rest(millis: int, seconds: int) -> None:
    assert rest_after(millis) == seconds


def test_a_resting_broker_is_avoided_while_there_is_another() -> None:
    faults = BrokerFaults(by_latency=True)
    faults.failed("a", 0.0)
    assert faults.choose(QUEUES, 0, set(), 1.0).broker_name == "b"
    assert faults.choose(QUEUES, 0, {"b"}, 1.0).broker_name == "a"
    assert faults.choose(QUEUES, 0, set(), 10.0).broker_name == "a"
    faults.succeeded("a", 20_000, 0.0)
    assert faults.choose(QUEUES, 0, set(), 29.0).broker_name == "b"
    faults.succeeded("a", 1, 29.0)
    assert faults.choose(QUEUES, 0, set(), 29.0).broker_name == "a"
    off = BrokerFaults()
    off.failed("a", 0.0)
    assert off.choose(QUEUES, 0, set(), 0.0).broker_name == "a"


@given(st.integers(0, 1000), st.sets(st.sampled_from("abc")))
def test_there_is_always_a_queue(place: int, tried: set[str]) -> None:
    assert BrokerFaults().choose(QUEUES, place, tried, 0.0) in QUEUES


# -- routes --------------------------------------------------------------------------------------


def route(*brokers: str, queues: int = 4) -> TopicRoute:
    return TopicRoute(
        tuple(BrokerData("c", name, {0: f"{name}:1", 1: f"{name}:2"}) for name in brokers),
        tuple(QueueData(name, queues, queues) for name in brokers),
    )


def test_a_route_update_reports_whether_it_changed_anything() -> None:
    routes = TopicRoutes()
    assert routes.update("T", route("a"))
    assert not routes.update("T", route("a"))
    assert routes.update("T", route("a", "b"))
    known = routes.get("T")
    assert known is not None and len(known.read_queues) == len(known.write_queues) == 8
    assert routes.address("a") == "a:1"
    assert routes.address("a", 1) == "a:2"
    assert routes.address("a", 9) == "a:1"
    assert routes.address("z") is None
    assert routes.addresses(masters_only=True) == ["a:1", "b:1"]
    assert routes.addresses(masters_only=False) == ["a:1", "a:2", "b:1", "b:2"]
    assert routes.forget("T") and not routes.forget("T")
    assert routes.addresses(masters_only=True) == []


def test_a_new_topic_is_like_its_template() -> None:
    made = route_by_template(route("a", queues=8), 4)
    assert len(made.write_queues("T")) == 4
    assert len(route_by_template(route("a", queues=2), 4).write_queues("T")) == 2


# -- rebalance -----------------------------------------------------------------------------------


@given(st.sets(st.sampled_from(QUEUES)), st.sets(st.sampled_from(QUEUES)))
def test_a_change_leads_from_one_share_to_the_other(
    owned: set[MessageQueue], wanted: set[MessageQueue]
) -> None:
    gained, lost = change(owned, wanted)
    assert (owned - set(lost)) | set(gained) == wanted
    assert bool(gained or lost) == (owned != wanted)


def test_nothing_is_decided_without_members_or_queues() -> None:
    class Everything:
        name = "ALL"

        def allocate(
            self, group: str, cid: str, mq_all: list[MessageQueue], cid_all: list[str]
        ) -> list[MessageQueue]:
            return mq_all

    strategy = Everything()
    assert share_of(strategy, "g", "me", QUEUES, None) is None  # type: ignore[arg-type]
    assert share_of(strategy, "g", "me", [], ["me"]) is None  # type: ignore[arg-type]
    assert share_of(strategy, "g", "me", QUEUES, ["me"]) == QUEUES  # type: ignore[arg-type]
    assert {name: len(found) for name, found in by_broker(QUEUES).items()} == {"a": 2, "b": 2}


# -- calls ---------------------------------------------------------------------------------------


def test_answers_find_who_waits() -> None:
    calls, found = PendingRequests("a:1"), []
    number = calls.next_number()
    calls.add(number, PendingRequest(found.append, 5.0, "PULL_MESSAGE"))
    assert not calls.answered(Command(0, opaque=number + 1))
    assert calls.answered(Command(0, opaque=number))
    assert not calls.answered(Command(0, opaque=number))
    assert len(found) == 1 and len(calls) == 0


def test_calls_expire_and_fail() -> None:
    calls = PendingRequests("a:1")
    found: list[Command | RocketMQError] = []
    for deadline in (1.0, 2.0, 3.0):
        calls.add(calls.next_number(), PendingRequest(found.append, deadline, "HEART_BEAT"))
    calls.expire(0.5)
    assert found == []
    calls.expire(1.5)
    assert isinstance(found[0], RequestTimeoutError)
    assert "HEART_BEAT" in str(found[0])
    calls.fail_all(ConnectionLostError("gone"))
    assert len(found) == 3
    assert isinstance(found[2], ConnectionLostError)
    assert not calls.drop(99)


def test_errors_name_the_code() -> None:
    error = BrokerError(16, "not allowed", "b:1")
    assert str(error) == "code 16 (NO_PERMISSION) from b:1: not allowed"
    assert "unknown" in str(BrokerError(777, ""))
    assert json.dumps(error.code) == "16"
