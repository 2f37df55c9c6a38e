"""Consumers when brokers misbehave: nothing is lost, offsets never pass an unfinished message."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from threading import Event, Lock

import pytest

from headrace.rocketmq import (
    AsyncConcurrentConsumer,
    AsyncOrderlyConsumer,
    ConcurrentConsumer,
    ConsumeContext,
    ConsumerConfig,
    ConsumeResult,
    ForkError,
    MessageExt,
    MessageQueue,
    OrderlyConsumer,
    State,
    StateError,
)
from headrace.rocketmq.consuming import concurrent
from headrace.testing import wait_for
from headrace.wire.remoting.codes import RequestCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.statistics import ConsumeDirectlyResult
from headrace.wire.remoting.message_queue import locked_body, offsets_body, take_offsets
from support.remoting_bodies import RunningInfo, message_bytes
from support.rocketmq.fake_server import BROKER, Fake, Peer

SUCCESS, LATER = ConsumeResult.SUCCESS, ConsumeResult.RECONSUME_LATER
Consume = Callable[..., ConcurrentConsumer]
KINDS = [ConcurrentConsumer, OrderlyConsumer]
KEY = ("g", "T", 0)


class Listener:
    """Remembers bodies; fails, waits or succeeds as it is told."""

    def __init__(self) -> None:
        self.bodies: list[str] = []
        self.failing: set[str] = set()
        self.gates: dict[str, Event] = {}
        self._lock = Lock()

    def __call__(self, messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        with self._lock:
            self.bodies += [one.body.decode() for one in messages]
        body = messages[0].body.decode()
        if body in self.gates:
            self.gates[body].wait(20)
        return LATER if body in self.failing else SUCCESS


@pytest.fixture
def listener() -> Listener:
    return Listener()


# -- both kinds ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_messages_are_consumed_and_offsets_committed(
    fake: Fake, consume: Consume, listener: Listener, kind: type[ConcurrentConsumer]
) -> None:
    fake.put("T", b"a", b"b")
    fake.put("T", b"c", queue=1)
    consumer = consume(kind, listener)
    wait_for(lambda: sorted(listener.bodies) == ["a", "b", "c"])
    wait_for(lambda: fake.offsets.get(KEY) == 2)
    fake.put("T", b"d")
    wait_for(lambda: "d" in listener.bodies)
    consumer.start()
    consumer.shutdown()
    consumer.shutdown()
    assert fake.offsets[KEY] == 3
    assert fake.members["g"] == []
    assert fake.locks == {}
    assert consumer.state is State.STOPPED


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_connection_is_opened_again_and_greeted_first(
    fake: Fake, consume: Consume, listener: Listener, kind: type[ConcurrentConsumer]
) -> None:
    consumer = consume(kind, listener)
    lost = list(fake.peers)
    fake.everybody(Peer.close)
    fake.put("T", b"a")
    wait_for(lambda: listener.bodies == ["a"], 10)
    (opened,) = [one for one in fake.peers if one not in lost]
    assert opened.codes[0] == RequestCode.HEART_BEAT
    assert RequestCode.PULL_MESSAGE in opened.codes
    wait_for(lambda: consumer.health().ok, 10)


@pytest.mark.parametrize("kind", KINDS)
def test_a_broker_that_comes_back_is_used_again(
    fake: Fake, consume: Consume, listener: Listener, kind: type[ConcurrentConsumer]
) -> None:
    consumer = consume(kind, listener)
    fake.call(fake.deaf())
    wait_for(lambda: not consumer.health().ok, 10)
    fake.call(fake.listen())
    fake.put("T", b"a")
    wait_for(lambda: listener.bodies == ["a"], 15)
    wait_for(lambda: consumer.health().ok, 15)


def test_an_unknown_subscription_is_announced_again(
    fake: Fake, consume: Consume, listener: Listener
) -> None:
    left = [24, 25]

    def forgetful(peer: Peer, command: Command) -> object:
        if left:
            return command.answer(left.pop(), remark="who are you?")
        return fake.normal(peer, command)

    consume(ConcurrentConsumer, listener, heartbeat_interval=100_000)
    before = fake.count(RequestCode.HEART_BEAT)
    fake.on(RequestCode.PULL_MESSAGE, forgetful)  # type: ignore[arg-type]
    wait_for(lambda: fake.count(RequestCode.HEART_BEAT) == before + 2, 10)
    fake.put("T", b"a")
    wait_for(lambda: listener.bodies == ["a"], 10)


@pytest.mark.parametrize("kind", KINDS)
def test_an_offset_that_is_gone_moves_on(
    fake: Fake, consume: Consume, listener: Listener, kind: type[ConcurrentConsumer]
) -> None:
    fake.put("T", b"a", b"b", b"c")
    fake.offsets[KEY] = 0
    fake.min_offset = 2
    consume(kind, listener)
    wait_for(lambda: listener.bodies == ["c"], 10)
    wait_for(lambda: fake.offsets[KEY] == 3)


def test_tags_are_compared_again(fake: Fake, consume: Consume, listener: Listener) -> None:
    fake.put("T", b"a", TAGS="red")
    fake.put("T", b"b", TAGS="blue")
    consumer = consume(ConcurrentConsumer, listener, "blue")
    wait_for(lambda: listener.bodies == ["b"])
    wait_for(lambda: fake.offsets.get(KEY) == 2)
    assert consumer.metrics.snapshot().messages_filtered == 1


# -- concurrent ----------------------------------------------------------------------------------


def test_a_slow_message_holds_the_committed_offset_back(
    fake: Fake, consume: Consume, listener: Listener
) -> None:
    listener.gates["b"] = Event()
    fake.put("T", b"a", b"b", b"c", b"d")
    consumer = consume(ConcurrentConsumer, listener)
    wait_for(lambda: sorted(listener.bodies) == ["a", "b", "c", "d"])
    wait_for(lambda: fake.offsets.get(KEY) == 1)
    fake.put("T", b"e")
    wait_for(lambda: "e" in listener.bodies)
    assert consumer.statistics()["lag"] == 4
    listener.gates["b"].set()
    wait_for(lambda: fake.offsets.get(KEY) == 5)
    wait_for(lambda: consumer.statistics()["lag"] == 0)
    assert consumer.metrics.snapshot().consumed == 5
    offsets = [offset for topic, queue, offset in fake.commits if (topic, queue) == ("T", 0)]
    assert offsets == sorted(offsets)


def test_a_failed_message_is_redelivered_and_blocks_no_other(
    fake: Fake, consume: Consume, listener: Listener
) -> None:
    listener.failing = {"bad"}
    fake.put("T", b"bad", b"good")
    consumer = consume(ConcurrentConsumer, listener, max_reconsume_times=2)
    wait_for(lambda: fake.messages["%DLQ%g", 0], 10)
    assert listener.bodies.count("bad") == 3
    assert listener.bodies.count("good") == 1
    wait_for(lambda: fake.offsets.get(KEY) == 2)
    stats = consumer.metrics.snapshot()
    assert (stats.failed, stats.sent_back, stats.dead_lettered) == (3, 3, 1)


def test_a_message_that_cannot_be_sent_back_is_sent_to_the_retry_topic(
    fake: Fake, consume: Consume, listener: Listener
) -> None:
    fake.on(RequestCode.CONSUMER_SEND_MSG_BACK, lambda peer, command: command.answer(1))
    listener.failing = {"bad"}
    fake.put("T", b"bad")
    consume(ConcurrentConsumer, listener)
    wait_for(lambda: fake.messages["%RETRY%g", 0], 10)
    sent = fake.messages["%RETRY%g", 0][0]
    assert sent.properties["RETRY_TOPIC"] == "T"
    assert sent.properties["DELAY"] == "3"
    wait_for(lambda: fake.offsets.get(KEY) == 1)


def test_a_message_that_no_broker_takes_back_is_retried_locally(
    fake: Fake, consume: Consume, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concurrent, "_LOCAL_RETRY", 0.05)
    for code in (RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.SEND_MESSAGE_V2):
        fake.on(code, lambda peer, command: command.answer(1, remark="no"))
    listener.failing = {"bad"}
    fake.put("T", b"bad", b"good")
    consume(ConcurrentConsumer, listener)
    wait_for(lambda: listener.bodies.count("bad") >= 3, 10)
    assert fake.offsets.get(KEY, 0) == 0
    listener.failing.clear()
    wait_for(lambda: fake.offsets.get(KEY) == 2, 10)


def test_a_part_of_a_batch_may_fail(fake: Fake, consume: Consume) -> None:
    def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        if len(messages) > 1 and not messages[0].reconsume_times:
            context.ack_index = 0
        return SUCCESS

    fake.put("T", b"a", b"b", b"c")
    consume(ConcurrentConsumer, listen, consume_message_batch_max_size=10)
    wait_for(lambda: len(fake.messages["%RETRY%g", 0]) == 2, 10)
    assert sorted(one.body for one in fake.messages["%RETRY%g", 0]) == [b"b", b"c"]
    wait_for(lambda: fake.offsets.get(KEY) == 3)


def test_a_message_past_the_consume_timeout_is_sent_back(
    fake: Fake, consume: Consume, listener: Listener
) -> None:
    listener.gates["slow"] = Event()
    fake.put("T", b"slow")
    consumer = consume(ConcurrentConsumer, listener)
    wait_for(lambda: listener.bodies == ["slow"])
    core = consumer._core
    assert core is not None
    service = core.service
    assert isinstance(service, concurrent.ConcurrentService)
    far = 1e12
    asyncio.run_coroutine_threadsafe(
        service.sweep_once(far, 900.0), core.instance.remoting.loop
    ).result(10)
    assert [one.body for one in fake.messages["%RETRY%g", 0]] == [b"slow"]
    wait_for(lambda: fake.offsets.get(KEY) == 1)
    listener.gates["slow"].set()
    assert consumer.metrics.snapshot().timed_out == 1


def test_flow_control_stops_pulling(fake: Fake, consume: Consume, listener: Listener) -> None:
    bodies = [f"m{number}".encode() for number in range(300)]
    listener.gates = {body.decode(): Event() for body in bodies}
    fake.put("T", *bodies)
    consumer = consume(
        ConcurrentConsumer, listener, pull_threshold_for_queue=50, consume_thread_max=20
    )
    wait_for(lambda: consumer.metrics.snapshot().flow_controlled > 2)
    assert consumer.statistics()["messages_cached"] <= 50 + 32
    for gate in listener.gates.values():
        gate.set()
    wait_for(lambda: fake.offsets.get(KEY) == 300, 10)


def test_shutdown_waits_for_listeners_and_commits_what_is_done(
    fake: Fake, consume: Consume, listener: Listener
) -> None:
    listener.gates["slow"] = Event()
    fake.put("T", b"a", b"slow")
    consumer = consume(ConcurrentConsumer, listener, persist_interval=3_600_000)
    wait_for(lambda: len(listener.bodies) == 2)
    from threading import Timer

    timer = Timer(0.2, listener.gates["slow"].set)
    timer.start()
    consumer.shutdown()
    timer.join()
    assert fake.offsets[KEY] == 2


def test_a_listener_that_never_ends_does_not_hold_the_shutdown(
    fake: Fake, consume: Consume, listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    listener.gates["stuck"] = Event()
    fake.put("T", b"a", b"stuck")
    consumer = consume(ConcurrentConsumer, listener, shutdown_timeout=200)
    wait_for(lambda: len(listener.bodies) == 2)
    consumer.shutdown()
    listener.gates["stuck"].set()
    assert fake.offsets[KEY] == 1
    assert "did not end within 200 ms" in caplog.text


def test_a_failure_to_store_offsets_at_shutdown_does_not_raise(
    fake: Fake, consume: Consume, listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    fake.put("T", b"a")
    consumer = consume(ConcurrentConsumer, listener, max_retry_times=0)
    fake.on(RequestCode.UPDATE_CONSUMER_OFFSET, lambda peer, command: command.answer(1))
    fake.put("T", b"b")
    wait_for(lambda: len(listener.bodies) == 2)
    wait_for(lambda: any("offsets of" in text for text in consumer.health().problems))
    consumer.shutdown()
    assert "offsets were not stored" in caplog.text


# -- orderly -------------------------------------------------------------------------------------


def test_an_orderly_queue_waits_for_its_failed_message(
    fake: Fake, consume: Consume, listener: Listener
) -> None:
    listener.failing = {"b"}
    fake.put("T", b"a", b"b", b"c")
    consume(
        OrderlyConsumer,
        listener,
        orderly_max_reconsume_times=2,
        orderly_suspend_current_queue_time_millis=10,
    )
    wait_for(lambda: listener.bodies == ["a", "b", "b", "b", "c"], 10)
    assert [one.body for one in fake.messages["%DLQ%g", 0]] == [b"b"]
    wait_for(lambda: fake.offsets[KEY] == 3)


def test_the_offset_is_stored_before_the_next_message(fake: Fake, consume: Consume) -> None:
    seen: list[tuple[str, int]] = []

    def listen(messages: list[MessageExt]) -> ConsumeResult:
        seen.append((messages[0].body.decode(), fake.offsets.get(KEY, 0)))
        return SUCCESS

    fake.put("T", b"a", b"b", b"c")
    consume(OrderlyConsumer, listen, persist_interval=3_600_000)
    wait_for(lambda: len(seen) == 3)
    assert seen == [("a", 0), ("b", 1), ("c", 2)]


def test_a_queue_locked_by_another_client_is_not_consumed(
    fake: Fake, consume: Consume, listener: Listener
) -> None:
    fake.locks[MessageQueue("T", BROKER, 0)] = "somebody else"
    fake.put("T", b"theirs")
    fake.put("T", b"ours", queue=1)
    consumer = consume(OrderlyConsumer, listener)
    wait_for(lambda: listener.bodies == ["ours"])
    wait_for(lambda: consumer.metrics.snapshot().lock_failures >= 2)
    assert listener.bodies == ["ours"]
    del fake.locks[MessageQueue("T", BROKER, 0)]
    wait_for(lambda: listener.bodies == ["ours", "theirs"], 10)


def test_a_lost_lock_ends_the_consumption_of_its_queue(
    fake: Fake, consume: Consume, listener: Listener
) -> None:
    listener.gates["a"] = Event()
    fake.put("T", b"a", b"b")
    consumer = consume(OrderlyConsumer, listener)
    wait_for(lambda: listener.bodies == ["a"])
    queue = MessageQueue("T", BROKER, 0)
    fake.locks[queue] = "somebody else"
    wait_for(lambda: queue not in consumer.assigned_queues())
    listener.gates["a"].set()
    wait_for(lambda: consumer.metrics.snapshot().consumed == 1)
    assert fake.offsets.get(KEY, 0) == 0, "the queue is not ours any more"
    assert listener.bodies == ["a"]
    del fake.locks[queue]
    wait_for(lambda: listener.bodies == ["a", "a", "b"], 10)


def test_a_queue_is_not_released_while_its_listener_runs(
    fake: Fake, consume: Consume, listener: Listener
) -> None:
    for body in ("a", "b"):
        listener.gates[body] = Event()
    fake.put("T", b"a")
    fake.put("T", b"b", queue=1)
    consumer = consume(OrderlyConsumer, listener)
    wait_for(lambda: sorted(listener.bodies) == ["a", "b"])
    fake.members["g"].append("zzz")  # takes the second queue
    fake.members["g"].sort()
    rebalances = consumer.metrics.snapshot().rebalances
    wait_for(lambda: consumer.metrics.snapshot().rebalances >= rebalances + 2, 10)
    busy = MessageQueue("T", BROKER, 1)
    assert busy in consumer.assigned_queues()
    assert fake.locks[busy] == consumer.client_id
    listener.gates["b"].set()
    wait_for(lambda: busy not in consumer.assigned_queues(), 10)
    wait_for(lambda: busy not in fake.locks)
    assert fake.offsets["g", "T", 1] == 1
    listener.gates["a"].set()


def test_a_slow_orderly_listener_is_reported(
    fake: Fake, consume: Consume, listener: Listener
) -> None:
    listener.gates["a"] = Event()
    fake.put("T", b"a")
    consumer = consume(OrderlyConsumer, listener, orderly_consume_timeout=1)
    wait_for(lambda: any("is busy with" in text for text in consumer.health().problems), 10)
    listener.gates["a"].set()
    wait_for(lambda: fake.offsets.get(KEY) == 1)
    wait_for(lambda: consumer.health().ok)


# -- sharing -------------------------------------------------------------------------------------


def test_a_new_member_takes_its_share(fake: Fake, consume: Consume, listener: Listener) -> None:
    fake.put("T", b"a")
    consumer = consume(ConcurrentConsumer, listener)
    wait_for(lambda: fake.offsets.get(KEY) == 1)
    assert len(consumer.assigned_queues()) == 3
    fake.members["g"].insert(0, "0 comes first")
    group = {"consumerGroup": "g"}
    code = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    fake.everybody(lambda peer: peer.ask(code, group, oneway=True))
    wait_for(lambda: consumer.assigned_queues() == [MessageQueue("T", BROKER, 1)], 10)
    fake.members["g"].remove("0 comes first")
    wait_for(lambda: len(consumer.assigned_queues()) == 3, 10)
    assert listener.bodies == ["a"]


def test_a_broker_that_comes_back_without_the_others_is_not_believed_at_once(
    fake: Fake, consume: Consume, listener: Listener
) -> None:
    """They still consume their queues, and will be known again in a moment."""
    consumer = consume(ConcurrentConsumer, listener)
    wait_for(lambda: len(consumer.assigned_queues()) == 3)
    fake.members["g"].insert(0, "0 comes first")
    mine = [MessageQueue("T", BROKER, 1)]
    wait_for(lambda: consumer.assigned_queues() == mine, 10)
    fake.everybody(Peer.close)
    fake.members["g"].remove("0 comes first")  # as far as the broker knows
    begun = consumer.metrics.snapshot().rebalances
    wait_for(lambda: consumer.metrics.snapshot().rebalances >= begun + 3, 10)
    assert consumer.assigned_queues() == mine
    wait_for(lambda: len(consumer.assigned_queues()) == 3, 10)  # it is dead, then


def test_results_for_a_queue_that_was_lost_do_not_count(
    fake: Fake, consume: Consume, listener: Listener
) -> None:
    listener.gates["a"] = Event()
    fake.put("T", b"a")
    consumer = consume(ConcurrentConsumer, listener)
    wait_for(lambda: listener.bodies == ["a"])
    fake.members["g"].insert(0, "0 comes first")
    wait_for(lambda: MessageQueue("T", BROKER, 0) not in consumer.assigned_queues(), 10)
    fake.offsets[KEY] = 7
    listener.gates["a"].set()
    wait_for(lambda: consumer.metrics.snapshot().consumed == 1)
    consumer.shutdown()
    assert fake.offsets[KEY] == 7


def test_who_leaves_a_queue_does_not_take_back_what_another_has_stored(
    fake: Fake, consume: Consume, listener: Listener
) -> None:
    """Two have a queue for a while when a broker comes back and knows only some members yet."""
    fake.put("T", b"a", b"b")
    consumer = consume(ConcurrentConsumer, listener, persist_interval=3_600_000)
    wait_for(lambda: sorted(listener.bodies) == ["a", "b"])  # and nothing is stored yet
    wait_for(lambda: consumer.metrics.snapshot().consumed == 2)
    fake.offsets[KEY] = 7
    fake.members["g"].insert(0, "0 comes first")
    wait_for(lambda: MessageQueue("T", BROKER, 0) not in consumer.assigned_queues(), 10)
    consumer.shutdown()
    assert fake.offsets[KEY] == 7


def test_subscriptions_may_change_while_it_runs(
    fake: Fake, consume: Consume, listener: Listener
) -> None:
    consumer = consume(ConcurrentConsumer, listener)
    fake.topics["U"] = 1
    fake.put("U", b"u")
    consumer.subscribe("U")
    wait_for(lambda: listener.bodies == ["u"], 10)
    groups = [peer.heartbeat.consumer_groups for peer in fake.peers if peer.heartbeat]
    assert {one.topic for one in groups[0][0].subscriptions} == {"T", "U", "%RETRY%g"}
    consumer.unsubscribe("U")
    wait_for(lambda: all(one.topic != "U" for one in consumer.assigned_queues()), 10)


def test_a_topic_that_does_not_exist_yet_is_waited_for(
    fake: Fake, consume: Consume, listener: Listener
) -> None:
    queues = fake.topics.pop("T")
    consumer = consume(ConcurrentConsumer, listener)
    assert any("'T' has no route" in text for text in consumer.health().problems)
    fake.topics["T"] = queues
    fake.put("T", b"a")
    wait_for(lambda: listener.bodies == ["a"], 10)
    wait_for(lambda: consumer.health().ok)


def test_suspend_and_resume(fake: Fake, consume: Consume, listener: Listener) -> None:
    consumer = consume(ConcurrentConsumer, listener)
    consumer.suspend()
    wait_for(lambda: fake.count(RequestCode.PULL_MESSAGE) >= 3)
    consumer.resume()
    fake.put("T", b"a")
    wait_for(lambda: listener.bodies == ["a"], 10)


def test_a_running_consumer_refuses_another_listener_and_a_fork(
    fake: Fake, consume: Consume, listener: Listener
) -> None:
    consumer = consume(ConcurrentConsumer, listener)
    with pytest.raises(StateError):
        consumer.register_message_listener(listener)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            consumer.subscribe("U")
        except ForkError:
            status = 0 if consumer.health().state is State.FORKED else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    fake.put("T", b"a")
    wait_for(lambda: listener.bodies == ["a"])


# -- questions of brokers ------------------------------------------------------------------------


def ask(fake: Fake, code: int, ext: dict[str, str], body: bytes = b"") -> Command:
    fake.answers.clear()
    fake.everybody(lambda peer: peer.ask(code, ext, body, oneway=False) if peer.heartbeat else None)
    wait_for(lambda: fake.answers)
    return fake.answers[0]


def test_a_consumer_answers_with_its_running_info(
    fake: Fake, consume: Consume, listener: Listener
) -> None:
    fake.put("T", b"a")
    consumer = consume(ConcurrentConsumer, listener)
    wait_for(lambda: fake.offsets.get(KEY) == 1)
    who = {"consumerGroup": "g", "clientId": consumer.client_id}
    info = RunningInfo.take(ask(fake, RequestCode.GET_CONSUMER_RUNNING_INFO, who).body)
    assert info.queues[MessageQueue("T", BROKER, 0)].commit_offset == 1
    assert {one.topic for one in info.subscriptions} == {"T", "%RETRY%g"}
    status = ask(fake, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": "T", "group": "g"})
    offsets = take_offsets("messageQueueTable", status.body)
    assert offsets[MessageQueue("T", BROKER, 0)] == 1
    assert ask(fake, 9999, {}).code == 3


@pytest.mark.parametrize(("failing", "result"), [(set(), "CR_SUCCESS"), ({"now"}, "CR_LATER")])
def test_a_message_is_consumed_on_request(
    fake: Fake, consume: Consume, listener: Listener, failing: set[str], result: str
) -> None:
    listener.failing = failing
    consume(ConcurrentConsumer, listener)
    fake.put("elsewhere", b"now")
    body = message_bytes(fake.messages["elsewhere", 0][0])
    answer = ask(fake, RequestCode.CONSUME_MESSAGE_DIRECTLY, {"consumerGroup": "g"}, body)
    assert ConsumeDirectlyResult.take(answer.body).result == result
    assert listener.bodies == ["now"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_operator_resets_the_offset(
    fake: Fake, consume: Consume, listener: Listener, kind: type[ConcurrentConsumer]
) -> None:
    fake.put("T", b"a", b"b")
    consume(kind, listener)
    wait_for(lambda: fake.offsets.get(KEY) == 2)
    body = offsets_body("offsetTable", {MessageQueue("T", BROKER, 0): 1})
    ext = {"topic": "T", "group": "g", "timestamp": "0", "isForce": "true"}
    code = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
    fake.everybody(lambda peer: peer.ask(code, ext, body, oneway=True) if peer.heartbeat else None)
    wait_for(lambda: listener.bodies == ["a", "b", "b"], 10)
    wait_for(lambda: fake.offsets.get(KEY) == 2)


# -- asyncio -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [AsyncConcurrentConsumer, AsyncOrderlyConsumer])
def test_asyncio_consumers(fake: Fake, kind: type[AsyncConcurrentConsumer]) -> None:
    got: list[str] = []

    async def listen(messages: list[MessageExt]) -> ConsumeResult:
        await asyncio.sleep(0)
        got.append(messages[0].body.decode())
        return SUCCESS

    async def story() -> None:
        config = ConsumerConfig(
            consumer_group="g",
            namesrv_addr=fake.address,
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",  # type: ignore[arg-type]
        )
        consumer = kind(config)
        consumer.subscribe("T")
        consumer.register_message_listener(listen)
        async with consumer:
            await asyncio.to_thread(fake.put, "T", b"a", b"b")
            await asyncio.to_thread(wait_for, lambda: got == ["a", "b"], 10)
            await consumer.start()
            assert consumer.running
        await consumer.shutdown()

    asyncio.run(story())
    assert fake.offsets[KEY] == 2
    assert fake.members["g"] == []


def test_locks_are_asked_for_in_one_request(
    fake: Fake, consume: Consume, listener: Listener
) -> None:
    fake.on(
        RequestCode.LOCK_BATCH_MQ, lambda peer, command: command.answer(0, body=locked_body([]))
    )
    consumer = consume(OrderlyConsumer, listener)
    assert consumer.assigned_queues() == []
    fake.well(RequestCode.LOCK_BATCH_MQ)
    wait_for(lambda: len(consumer.assigned_queues()) == 3, 10)
