"""Our SDK against a real RocketMQ: producers, and every kind of consumer."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import headrace
from headrace.rocketmq import (
    AsyncConcurrentConsumer,
    AsyncOrderlyConsumer,
    ConcurrentConsumer,
    ConsumeContext,
    ConsumeResult,
    InvalidSelectorError,
    LocalTransactionState,
    Message,
    MessageExt,
    MessageSelector,
    OrderlyConsumer,
    SendResult,
    TransactionConsumer,
    TransactionListener,
)
from headrace.testing import wait_for
from support.rocketmq.sdk_scenarios import BROADCASTING, Collector, Scene, numbered

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

LATER = ConsumeResult.RECONSUME_LATER
SUCCESS = ConsumeResult.SUCCESS


@pytest.fixture(scope="module", params=["apache", "old_apache", "ours"])
def namesrv(request: pytest.FixtureRequest) -> str:
    """A name server's address. ROCKETMQ_TEST_NAMESRV names one that runs already."""
    running = os.environ.get("ROCKETMQ_TEST_NAMESRV")
    if running:
        if request.param != "apache":
            pytest.skip("the given name server is tested once")
        return running
    return str(request.getfixturevalue(request.param).name_address)


@pytest.fixture
def scene(namesrv: str) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(namesrv, stack)


# -- producers -----------------------------------------------------------------------------------


def test_every_way_to_send(scene: Scene) -> None:
    topic = scene.topic()
    producer = scene.producer()
    told: list[tuple[SendResult | None, Exception | None]] = []
    first = producer.send(Message(topic, b"sync", tags="t", keys="k1 k2", properties={"a": "b"}))
    second = producer.send_async(Message(topic, b"async"), lambda *found: told.append(found))
    producer.send_oneway(Message(topic, b"oneway"))
    batch = producer.send_batch(numbered(topic, 10))
    large = os.urandom(3000) * 100
    producer.send(Message(topic, large))
    assert second.result(10).queue.topic == topic
    assert len(batch.msg_id.split(",")) == 10
    wait_for(lambda: told, 5)
    assert told[0][1] is None
    got = Collector()
    scene.consumer(ConcurrentConsumer, topic, got)
    wait_for(lambda: len(got.messages) == 14, 20, 0.02)
    assert {one.body for one in got.messages} == {
        b"sync",
        b"async",
        b"oneway",
        large,
        *(f"m{number}".encode() for number in range(10)),
    }
    one = next(one for one in got.messages if one.body == b"sync")
    assert (one.msg_id, one.tags, one.keys) == (first.msg_id, "t", ("k1", "k2"))
    assert one.user_properties() == {"a": "b"}
    assert (one.queue_id, one.queue_offset) == (first.queue.queue_id, first.queue_offset)
    assert one.offset_msg_id == first.offset_msg_id


def test_messages_of_a_key_keep_their_order(scene: Scene) -> None:
    topic = scene.topic(8)
    producer = scene.producer()
    keys = [f"key{number}" for number in range(10)]
    for number in range(20):
        for key in keys:
            producer.send_by_key(Message(topic, f"{number}".encode(), keys=key), key)
    got: dict[str, list[int]] = defaultdict(list)

    def listen(messages: list[MessageExt]) -> ConsumeResult:
        for one in messages:
            got[one.keys[0]].append(int(one.body))
        return SUCCESS

    scene.consumer(OrderlyConsumer, topic, listen)
    wait_for(lambda: sum(map(len, got.values())) >= 200, 30, 0.02)
    assert dict(got) == {key: list(range(20)) for key in keys}


def test_delayed_messages_wait(scene: Scene) -> None:
    topic = scene.topic(1)
    got = Collector()
    scene.consumer(ConcurrentConsumer, topic, got)
    scene.producer().send(Message(topic, b"late", delay_level=2))
    scene.producer().send(Message(topic, b"now"))
    assert got.wait(2) == ["now", "late"]
    late = got.messages[1]
    assert late.store_timestamp - late.born_timestamp >= 4500


class Bank(TransactionListener):
    def __init__(self) -> None:
        self.checked: list[str] = []

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        if arg == "fails":
            raise ValueError("no money")
        return LocalTransactionState(str(arg))

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        self.checked.append(message.body.decode())
        if message.body == b"asked-no":
            return LocalTransactionState.ROLLBACK_MESSAGE
        return LocalTransactionState.COMMIT_MESSAGE


def test_transactions_commit_roll_back_and_are_asked_for(scene: Scene) -> None:
    topic = scene.topic(1)
    got = Collector()
    scene.consumer(ConcurrentConsumer, topic, got)
    bank = Bank()
    producer = scene.transaction_producer(bank)
    commit, rollback = LocalTransactionState.COMMIT_MESSAGE, LocalTransactionState.ROLLBACK_MESSAGE
    unknown = LocalTransactionState.UNKNOWN
    for body, arg, state in [
        (b"yes", commit, commit),
        (b"no", rollback, rollback),
        (b"asked-yes", unknown, unknown),
        (b"asked-no", unknown, unknown),
        (b"failed", "fails", unknown),
    ]:
        assert producer.send_in_transaction(Message(topic, body), arg).local_state is state
    assert sorted(got.wait(3, 100)) == ["asked-yes", "failed", "yes"]
    wait_for(lambda: {"asked-no", "asked-yes", "failed"} <= set(bank.checked), 60, 0.05)


async def _send_async_ways(scene: Scene, topic: str) -> None:
    async with scene.async_producer() as producer:
        await asyncio.gather(*(producer.send(one) for one in numbered(topic, 50)))
        await producer.send_batch([Message(topic, b"b1"), Message(topic, b"b2")])
        await producer.send_by_key(Message(topic, b"k"), "key")
        await producer.send_oneway(Message(topic, b"o"))


def test_asyncio_from_end_to_end(scene: Scene) -> None:
    topic = scene.topic()
    got: list[str] = []

    async def listen(messages: list[MessageExt]) -> ConsumeResult:
        await asyncio.sleep(0)
        got.extend(one.body.decode() for one in messages)
        return SUCCESS

    async def story() -> None:
        for kind in (AsyncConcurrentConsumer, AsyncOrderlyConsumer):
            got.clear()
            consumer = kind(scene.config(consumer_group=f"{scene.group}{kind.__name__}"))
            consumer.subscribe(topic)
            consumer.register_message_listener(listen)
            await consumer.start()
            try:
                if kind is AsyncConcurrentConsumer:
                    await _send_async_ways(scene, topic)
                await asyncio.wait_for(_until(lambda: len(set(got)) == 54), 30)
            finally:
                await consumer.shutdown()
                await consumer.shutdown()

    asyncio.run(story())


async def _until(condition: object) -> None:
    while not condition():  # type: ignore[operator]  # noqa: ASYNC110 - no event tells
        await asyncio.sleep(0.01)


# -- concurrent consumers ------------------------------------------------------------------------


def test_tags_choose_messages(scene: Scene) -> None:
    topic = scene.topic()
    producer = scene.producer()
    for tag in ("red", "blue", "green"):
        for one in numbered(topic, 5, tags=tag):
            producer.send(one)
    got = Collector()
    consumer = scene.consumer(ConcurrentConsumer, topic, got, "red || blue")
    wait_for(lambda: len(got.messages) == 10, 20, 0.02)
    assert {one.tags for one in got.messages} == {"red", "blue"}
    consumer.subscription_manager.update_selector(topic, "green")
    wait_for(lambda: consumer.health().ok, 10)

    def sees_green() -> bool:
        producer.send(Message(topic, b"x", tags="green"))
        return any(one.tags == "green" for one in got.messages)

    wait_for(sees_green, 20, 0.2)


def test_sql_chooses_messages(scene: Scene) -> None:
    topic = scene.topic()
    producer = scene.producer()
    for price in range(10):
        properties = {"price": str(price), "colour": "red" if price % 2 else "blue"}
        producer.send(Message(topic, str(price).encode(), properties=properties))
    got = Collector()
    selector = MessageSelector.by_sql("colour = 'red' AND price > 4")
    scene.consumer(ConcurrentConsumer, topic, got, selector)
    assert sorted(got.wait(3)) == ["5", "7", "9"]


def test_bad_sql_is_refused_before_anything_starts(scene: Scene) -> None:
    consumer = ConcurrentConsumer(scene.config())
    with pytest.raises(InvalidSelectorError):
        consumer.subscribe(scene.topic(), MessageSelector.by_sql("price >"))


def test_failed_messages_are_tried_again_and_then_buried(scene: Scene) -> None:
    topic = scene.topic(1)

    def judge(message: MessageExt, context: ConsumeContext) -> ConsumeResult:
        context.delay_level_when_next_consume = 1
        if message.body == b"bad" or (message.body == b"twice" and not message.reconsume_times):
            return LATER
        return SUCCESS

    got = Collector(judge)
    consumer = scene.consumer(ConcurrentConsumer, topic, got, max_reconsume_times=2)
    producer = scene.producer()
    for body in (b"good", b"twice", b"bad"):
        producer.send(Message(topic, body))
    dead = Collector()
    wait_for(lambda: got.times()["bad"] == 3, 40, 0.05)
    scene.consumer(
        ConcurrentConsumer, f"%DLQ%{scene.group}", dead, consumer_group=f"{scene.group}dead"
    )
    assert dead.wait(1) == ["bad"]
    assert got.times() == {"good": 1, "twice": 2, "bad": 3}
    assert {one.topic for one in got.messages} == {topic}
    assert [one.reconsume_times for one in got.messages if one.body == b"bad"] == [0, 1, 2]
    stats = consumer.metrics.snapshot()
    assert (stats.sent_back, stats.dead_lettered) == (4, 1)


def test_a_wrong_answer_ends_in_the_dead_letters_and_is_seen(scene: Scene) -> None:
    topic = scene.topic(1)

    def listen(messages: list[MessageExt], context: ConsumeContext) -> None:
        context.delay_level_when_next_consume = 1

    consumer = scene.consumer(ConcurrentConsumer, topic, listen, max_reconsume_times=1)
    scene.producer().send(Message(topic, b"x"))
    wait_for(lambda: consumer.metrics.snapshot().dead_lettered == 1, 30, 0.05)
    assert consumer.metrics.snapshot().wrong_results == 2
    assert any("returned None" in text for text in consumer.health().problems)


def test_offsets_are_committed_at_shutdown(scene: Scene) -> None:
    topic = scene.topic()
    producer = scene.producer()
    for one in numbered(topic, 20):
        producer.send(one)
    first = Collector()
    consumer = scene.consumer(ConcurrentConsumer, topic, first, persist_interval=3_600_000)
    first.wait(20)
    consumer.shutdown()
    producer.send(Message(topic, b"new"))
    second = Collector()
    scene.consumer(ConcurrentConsumer, topic, second)
    second.wait(1)
    assert second.bodies() == ["new"]


MEMBER = """
import sys, time
from headrace.rocketmq import *
namesrv, group, topic = sys.argv[1:]
def listen(messages):
    print(messages[0].body.decode(), flush=True)
    time.sleep(0.02)
    return ConsumeResult.SUCCESS
config = ConsumerConfig(consumer_group=group, namesrv_addr=namesrv, persist_interval=200,
    consume_from_where="CONSUME_FROM_FIRST_OFFSET", consume_thread_min=1, consume_thread_max=1)
consumer = {kind}(config)
consumer.subscribe(topic)
consumer.register_message_listener(listen)
consumer.start()
print("started", flush=True)
time.sleep(600)
"""


def member(scene: Scene, topic: str, kind: str, output: Path) -> subprocess.Popen[bytes]:
    """A member of the group in a process of its own, which can be killed."""
    code = MEMBER.replace("{kind}", kind)
    command = [sys.executable, "-c", code, scene.namesrv, scene.group, topic]
    environment = {**os.environ, "PYTHONPATH": str(Path(headrace.__file__).parent.parent)}
    with output.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, env=environment)
    wait_for(lambda: "started" in output.read_text(), 30, 0.02)
    return process


@pytest.mark.parametrize("kind", [ConcurrentConsumer, OrderlyConsumer])
def test_two_members_share_a_topic_and_one_is_killed(
    scene: Scene, tmp_path: Path, kind: type[ConcurrentConsumer]
) -> None:
    topic = scene.topic(8)
    got = Collector()
    mine = scene.consumer(kind, topic, got)
    output = tmp_path / "other"
    other = member(scene, topic, kind.__name__, output)
    try:
        wait_for(lambda: len(mine.assigned_queues()) <= 5, 30, 0.05)  # 4 and a retry queue
        producer = scene.producer()
        for one in numbered(topic, 400):
            producer.send(one)
        wait_for(lambda: len(output.read_text().split()) > 20, 30, 0.02)
    finally:
        other.kill()
        other.wait()
    theirs = set(output.read_text().split()) - {"started"}
    assert theirs
    wanted = {f"m{number}" for number in range(400)}
    limit = 100 if kind is OrderlyConsumer else 40  # locks of the dead live for a minute
    wait_for(lambda: set(got.bodies()) | theirs == wanted, limit, 0.05)
    wait_for(lambda: len(mine.assigned_queues()) == 9, limit, 0.05)


# -- orderly consumers ---------------------------------------------------------------------------


def test_a_failed_message_blocks_its_queue_until_it_is_dead_lettered(scene: Scene) -> None:
    topic = scene.topic(1)

    def judge(message: MessageExt, context: ConsumeContext) -> ConsumeResult:
        return LATER if message.body == b"m1" else SUCCESS

    got = Collector(judge)
    producer = scene.producer()
    for one in numbered(topic, 4):
        producer.send(one)
    consumer = scene.consumer(
        OrderlyConsumer,
        topic,
        got,
        orderly_max_reconsume_times=2,
        orderly_suspend_current_queue_time_millis=100,
    )
    got.wait(4)
    assert got.bodies() == ["m0", "m1", "m1", "m1", "m2", "m3"]
    dead = Collector()
    scene.consumer(
        ConcurrentConsumer, f"%DLQ%{scene.group}", dead, consumer_group=f"{scene.group}dead"
    )
    assert dead.wait(1) == ["m1"]
    assert consumer.metrics.snapshot().suspensions == 2


def test_a_transaction_consumer_commits_and_rolls_back(scene: Scene) -> None:
    topic = scene.topic(1)
    rolled: list[int] = []

    def judge(message: MessageExt, context: ConsumeContext) -> ConsumeResult:
        if message.body == b"m2" and not rolled:
            rolled.append(1)
            return ConsumeResult.ROLLBACK
        return ConsumeResult.COMMIT if message.body in (b"m0", b"m3") else SUCCESS

    got = Collector(judge)
    producer = scene.producer()
    for one in numbered(topic, 5):
        producer.send(one)
    settings = {"enable_auto_commit": False, "orderly_suspend_current_queue_time_millis": 50}
    consumer = scene.consumer(TransactionConsumer, topic, got, **settings)
    got.wait(5)
    assert got.bodies() == ["m0", "m1", "m2", "m1", "m2", "m3", "m4"]
    consumer.shutdown()
    again = Collector(lambda message, context: ConsumeResult.COMMIT)
    scene.consumer(TransactionConsumer, topic, again, **settings)
    again.wait(1)
    assert again.bodies() == ["m4"], "it was never committed"


# -- broadcasting --------------------------------------------------------------------------------


def test_broadcasting_delivers_every_message_to_every_member(scene: Scene, tmp_path: Path) -> None:
    topic = scene.topic()
    producer = scene.producer()
    for one in numbered(topic, 10):
        producer.send(one)

    def settings(name: str) -> dict[str, object]:
        return {
            "message_model": BROADCASTING,
            "instance_name": name,
            "offset_store_path": str(tmp_path),
        }

    first, second = Collector(), Collector()
    one = scene.consumer(ConcurrentConsumer, topic, first, **settings("a"))
    scene.consumer(OrderlyConsumer, topic, second, **settings("b"))
    for got in (first, second):
        assert sorted(got.wait(10)) == sorted(f"m{number}" for number in range(10))
    one.shutdown()
    producer.send(Message(topic, b"new"))
    again = Collector()
    scene.consumer(ConcurrentConsumer, topic, again, **settings("a"))
    assert again.wait(1) == ["new"], "the local file knows where it was"
    second.wait(11)
