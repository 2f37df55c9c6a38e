"""Producers when name servers and brokers misbehave."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from headrace.rocketmq import (
    AsyncProducer,
    BrokerError,
    ForkError,
    LocalTransactionState,
    Message,
    MessageExt,
    MessageQueue,
    Producer,
    ProducerConfig,
    RequestTimeoutError,
    SendError,
    TopicNotFoundError,
    TransactionListener,
    TransactionProducer,
)
from headrace.testing import wait_for
from headrace.wire.remoting.codes import RequestCode
from headrace.wire.remoting.command import Command
from support.remoting_bodies import message_bytes
from support.rocketmq.fake_server import Fake, Peer

SEND = RequestCode.SEND_MESSAGE_V2
HELLO = Message("T", b"hello")
Produce = Callable[..., Producer]


def test_a_message_arrives_once(fake: Fake, produce: Produce) -> None:
    result = produce().send(HELLO)
    stored = fake.messages["T", result.queue.queue_id]
    assert [one.body for one in stored] == [b"hello"]
    assert stored[0].properties["UNIQ_KEY"] == result.msg_id


def test_queues_take_turns(fake: Fake, produce: Produce) -> None:
    producer = produce()
    assert {producer.send(HELLO).queue.queue_id for _ in range(4)} == {0, 1}


def test_a_topic_that_does_not_exist_is_sent_like_the_template(
    fake: Fake, produce: Produce
) -> None:
    assert produce().send(Message("new", b"x")).queue.topic == "new"
    del fake.topics["TBW102"]
    with pytest.raises(TopicNotFoundError, match="autoCreateTopicEnable"):
        produce().send(Message("newer", b"x"))


def test_another_name_server_is_asked_when_one_is_down(fake: Fake, produce: Produce) -> None:
    producer = produce(namesrv_addr=f"127.0.0.1:1;{fake.address};127.0.0.1:2")
    producer.send(HELLO)
    assert producer.health().ok


def test_a_busy_broker_is_tried_again(fake: Fake, produce: Produce) -> None:
    left = [2, 14]

    def busy(peer: Peer, command: Command) -> Command:
        if left:
            return command.answer(left.pop(), remark="busy")
        return fake._sent(command)

    fake.on(SEND, busy)
    producer = produce()
    producer.send(HELLO)
    assert fake.count(SEND) == 3
    assert producer.metrics.to_dict()["retries"] == 2


def test_a_refused_message_is_not_tried_again(fake: Fake, produce: Produce) -> None:
    fake.on(SEND, lambda peer, command: command.answer(13, remark="too large"))
    with pytest.raises(BrokerError, match=r"MESSAGE_ILLEGAL.*too large"):
        produce().send(HELLO)
    assert fake.count(SEND) == 1


def test_a_lost_connection_is_opened_again(fake: Fake, produce: Produce) -> None:
    once = [1]

    def cut(peer: Peer, command: Command) -> Command | None:
        if once:
            once.pop()
            peer.close()
            return None
        return fake._sent(command)

    fake.on(SEND, cut)
    produce().send(HELLO)
    assert fake.count(SEND) == 2


@pytest.mark.parametrize("junk", [b"\xff" * 64, b"\x00\x00\x00\x08\x00\x00\x00\x04{x}}"])
def test_bytes_that_make_no_sense_cost_the_connection_only(
    fake: Fake, produce: Produce, junk: bytes
) -> None:
    once = [1]

    def babble(peer: Peer, command: Command) -> Command | bytes:
        return junk if once and once.pop() else fake._sent(command)

    fake.on(SEND, babble)
    produce().send(HELLO)


def test_another_broker_is_used_when_one_is_silent(fake: Fake, produce: Produce) -> None:
    with Fake({"T": 2}) as other:
        fake.others["broker-b"] = other.address
        other.others["broker-a"] = fake.address
        fake.on(SEND, lambda peer, command: peer.close())
        producer = produce()
        for _ in range(4):
            assert producer.send(HELLO).queue.broker_name == "broker-b"


def test_the_time_of_a_send_is_kept(fake: Fake, produce: Produce) -> None:
    fake.on(SEND, lambda peer, command: None)
    producer = produce(retry_times_when_send_failed=0)
    with pytest.raises(RequestTimeoutError, match="not known"):
        producer.send(HELLO, timeout=0.3)
    fake.on(SEND, lambda peer, command: peer.close())
    with pytest.raises(SendError, match="its id is"):
        produce(retry_times_when_send_failed=1).send(HELLO)
    assert producer.metrics.to_dict()["failed"] == 1


def test_futures_and_callbacks_report_the_outcome(fake: Fake, produce: Produce) -> None:
    producer = produce(max_pending=5)
    told: list[object] = []
    futures = [
        producer.send_async(HELLO, lambda result, error: told.append(result)) for _ in range(50)
    ]
    assert all(future.result(10).status == "SEND_OK" for future in futures)
    wait_for(lambda: len(told) == 50)
    fake.on(SEND, lambda peer, command: command.answer(13, remark="no"))
    failed: list[Exception | None] = []
    future = producer.send_async(HELLO, lambda result, error: failed.append(error))
    assert isinstance(future.exception(10), BrokerError)
    wait_for(lambda: failed)
    assert isinstance(failed[0], BrokerError)


def test_async_sends_are_tried_again(fake: Fake, produce: Produce) -> None:
    once = [1]

    def cut(peer: Peer, command: Command) -> Command | None:
        if once:
            once.pop()
            peer.close()
            return None
        return fake._sent(command)

    producer = produce()
    producer.send(HELLO)
    fake.on(SEND, cut)
    assert producer.send_async(HELLO).result(10).status == "SEND_OK"


def test_one_way_messages_want_no_answer(fake: Fake, produce: Produce) -> None:
    producer = produce()
    producer.send_oneway(HELLO, queue=MessageQueue("T", "broker-a", 1))
    wait_for(lambda: fake.messages["T", 1])
    assert next(one for one in fake.seen if one.code == SEND).is_oneway


def test_a_key_has_one_queue_and_one_try(fake: Fake, produce: Produce) -> None:
    producer = produce()
    assert len({producer.send_by_key(HELLO, "order-1").queue for _ in range(5)}) == 1
    fake.on(SEND, lambda peer, command: command.answer(2, remark="busy"))
    before = fake.count(SEND)
    with pytest.raises(BrokerError):
        producer.send_by_key(HELLO, "order-1")
    assert fake.count(SEND) == before + 1


def test_brokers_get_heartbeats_and_unregistrations_of_producers(
    fake: Fake, produce: Produce
) -> None:
    producer = produce()
    producer.send(HELLO)
    groups = [peer.heartbeat.producer_groups for peer in fake.peers if peer.heartbeat]
    assert groups and "pg" in groups[0]
    producer.shutdown()
    assert fake.count(RequestCode.UNREGISTER_CLIENT) == 1


def test_the_signature_of_a_user_travels(fake: Fake, produce: Produce) -> None:
    produce(access_key="ak", secret_key="sk").send(HELLO)
    send = next(one for one in fake.seen if one.code == SEND)
    assert send.ext["AccessKey"] == "ak"
    assert send.ext["Signature"]


def test_a_child_cannot_use_the_producer_and_the_parent_can(fake: Fake, produce: Produce) -> None:
    producer = produce()
    producer.send(HELLO)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            producer.send(HELLO)
        except ForkError:
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    producer.send(HELLO)


class Books(TransactionListener):
    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return arg  # type: ignore[return-value]

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        return LocalTransactionState(message.body.decode())


def test_the_state_of_a_transaction_is_sent_to_the_broker(fake: Fake, stack: ExitStack) -> None:
    config = ProducerConfig(producer_group="pg", namesrv_addr=fake.address)
    producer = stack.enter_context(TransactionProducer(config, Books()))
    for arg, word in [
        (LocalTransactionState.COMMIT_MESSAGE, "8"),
        (LocalTransactionState.ROLLBACK_MESSAGE, "12"),
        ("nonsense", "0"),
    ]:
        fake.seen.clear()
        producer.send_in_transaction(Message("T", b"x"), arg)
        wait_for(lambda: fake.count(RequestCode.END_TRANSACTION))
        end = next(one for one in fake.seen if one.code == RequestCode.END_TRANSACTION)
        assert (end.ext["commitOrRollback"], end.is_oneway) == (word, True)


@pytest.mark.parametrize(
    ("body", "word"), [(b"COMMIT_MESSAGE", "8"), (b"ROLLBACK_MESSAGE", "12"), (b"bad", "0")]
)
def test_a_question_about_a_transaction_is_answered(
    fake: Fake, stack: ExitStack, body: bytes, word: str
) -> None:
    config = ProducerConfig(producer_group="pg", namesrv_addr=fake.address)
    producer = stack.enter_context(TransactionProducer(config, Books()))
    producer.send(HELLO)
    fake.put("half", body)
    ext = {"tranStateTableOffset": "5", "commitLogOffset": "9", "transactionId": "tx"}
    stored = message_bytes(fake.messages["half", 0][0])
    code = RequestCode.CHECK_TRANSACTION_STATE
    fake.everybody(lambda peer: peer.ask(code, ext, stored, oneway=True))
    wait_for(lambda: fake.count(RequestCode.END_TRANSACTION))
    end = next(one for one in fake.seen if one.code == RequestCode.END_TRANSACTION)
    assert end.ext["commitOrRollback"] == word
    assert end.ext["fromTransactionCheck"] == "true"
    assert (end.ext["tranStateTableOffset"], end.ext["commitLogOffset"]) == ("5", "9")


def test_asyncio_sends(fake: Fake) -> None:
    async def story() -> None:
        config = ProducerConfig(producer_group="pg", namesrv_addr=fake.address)
        async with AsyncProducer(config) as producer:
            results = await asyncio.gather(*(producer.send(HELLO) for _ in range(20)))
            assert len({result.msg_id for result in results}) == 20
            assert len(await producer.queues("T")) == 2
            fake.on(SEND, lambda peer, command: command.answer(13, remark="no"))
            with pytest.raises(BrokerError):
                await producer.send(HELLO)
            assert producer.health().ok
        assert not producer.running

    asyncio.run(story())
