"""The rows of the original document on RocketMQ consumers, each with a check of its own.

Written from the document, not from the code: what a user who has only read the document types.
A check that returns a text differs from the document, for that reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from headrace import rocketmq as api
from headrace.testing import wait_for


@dataclass(frozen=True)
class Stage:
    """What checks need: a name server, a directory, names of their own."""

    namesrv_addr: str
    directory: Path
    name: str

    def config(self, **settings: Any) -> api.ConsumerConfig:  # noqa: ANN401 - any setting
        settings.setdefault("consume_from_where", "CONSUME_FROM_FIRST_OFFSET")
        return api.ConsumerConfig(
            consumer_group=f"g_{self.name}", namesrv_addr=self.namesrv_addr, **settings
        )

    def send(self, *bodies: bytes) -> None:
        config = api.ProducerConfig(f"p_{self.name}", self.namesrv_addr)
        with api.Producer(config) as producer:
            queue = producer.queues(self.name)[0]
            for body in bodies:
                producer.send(api.Message(self.name, body), queue=queue)


Check = Callable[[Stage], str | None]
ROWS: dict[str, dict[str, Check]] = {}


def row(part: str, *names: str) -> Callable[[Check], Check]:
    def add(check: Check) -> Check:
        for name in names:
            ROWS.setdefault(part, {})[name] = check
        return check

    return add


# -- ConsumerConfig ------------------------------------------------------------------------------

DEFAULTS: dict[str, object] = {
    "message_model": "CLUSTERING",
    "consume_thread_min": 20,
    "consume_thread_max": 64,
    "pull_batch_size": 32,
    "pull_interval": 0,
    "consume_timeout": 15,
    "max_reconsume_times": 16,
    "consume_from_where": "CONSUME_FROM_LAST_OFFSET",
    "consume_timestamp": 0,
    "allocate_queue_strategy": "AVG",
    "persist_interval": 5000,
    "persist_batch_size": 10,
    "offset_store_path": "~/.rocketmq/offsets",
    "max_cache_size": 10000,
    "enable_auto_recovery": True,
    "max_retry_times": 3,
    "orderly_max_reconsume_times": 16,
    "orderly_consume_timeout": 30,
    "orderly_suspend_current_queue_time_millis": 1000,
    "enable_auto_commit": True,
}
CONFIG, ENUMS, CONSUMERS = "ConsumerConfig", "Enumerations", "Consumers"
ALLOCATION, SELECTORS, MANAGER = "Allocation and start position", "Selectors", "SubscriptionManager"
METRICS, ERRORS, OFFSETS = "SubscriptionMetrics", "Exceptions", "Offset stores"


@row(CONFIG, "consumer_group", "namesrv_addr")
def required(stage: Stage) -> str | None:
    config = api.ConsumerConfig(consumer_group="g", namesrv_addr="localhost:9876")
    assert (config.consumer_group, config.namesrv_addr) == ("g", "localhost:9876")
    for missing in ({"consumer_group": "g"}, {"namesrv_addr": "localhost:9876"}):
        with pytest.raises(TypeError):
            api.ConsumerConfig(**missing)  # type: ignore[call-arg]
    return None


def _default(name: str, value: object) -> Check:
    def check(stage: Stage) -> str | None:
        config = api.ConsumerConfig("g", "localhost:9876")
        assert getattr(config, name) == value
        again = api.ConsumerConfig("g", "localhost:9876", **{name: value})  # type: ignore[arg-type]
        assert again == config
        return None

    return check


for _name, _value in DEFAULTS.items():
    row(CONFIG, _name)(_default(_name, _value))


@row(CONFIG, "8 threads")
def eight_threads(stage: Stage) -> str | None:
    assert api.ConsumerConfig("g", "localhost:9876", consume_thread_max=8).consume_thread_min == 8
    return None


@row(CONFIG, "a setting changed later")
def changed(stage: Stage) -> str | None:
    config = api.ConsumerConfig("g", "localhost:9876")
    with pytest.raises(FrozenInstanceError):
        config.pull_batch_size = 16  # type: ignore[misc]
    assert replace(config, pull_batch_size=16).pull_batch_size == 16
    return "settings are checked once and cannot be changed; use `dataclasses.replace()`"


# -- enumerations --------------------------------------------------------------------------------

MEMBERS = {
    "ConsumeFromWhere": "CONSUME_FROM_LAST_OFFSET CONSUME_FROM_FIRST_OFFSET CONSUME_FROM_TIMESTAMP",
    "AllocateQueueStrategy": "AVERAGE=AVG HASH CONFIGURATION MACHINE_ROOM",
    "ConsumeResult": "SUCCESS=CONSUME_SUCCESS RECONSUME_LATER COMMIT ROLLBACK",
    "ReadOffsetType": "MEMORY_FIRST_THEN_STORE READ_FROM_MEMORY READ_FROM_STORE",
    "MessageModel": "CLUSTERING BROADCASTING",
}


def _members(kind: str, words: str) -> Check:
    def check(stage: Stage) -> str | None:
        for word in words.split():
            name, _, value = word.partition("=")
            assert getattr(getattr(api, kind), name).value == (value or name)
        return None

    return check


for _kind, _words in MEMBERS.items():
    row(ENUMS, _kind)(_members(_kind, _words))


@row(ENUMS, "selector type")
def selector_type(stage: Stage) -> str | None:
    assert api.MessageSelector.by_tag("a").type.value == "TAG"
    assert api.MessageSelector.by_sql("a = 1").type.value == "SQL92"
    return None


# -- consumers -----------------------------------------------------------------------------------


class Own(api.BaseConsumer):
    def start(self) -> None:
        self.running = True

    def shutdown(self) -> None:
        self.running = False

    def subscribe(self, topic: str, selector: Any = None) -> None:  # noqa: ANN401 - as in the text
        self.subscription_manager.subscribe(topic, selector)


@row(CONSUMERS, "BaseConsumer")
def base_consumer(stage: Stage) -> str | None:
    consumer = Own(stage.config())
    assert consumer.config.consumer_group == f"g_{stage.name}"
    assert (consumer.running, consumer.message_listener) == (False, None)
    consumer.subscribe("order_topic", api.MessageSelector.by_tag("*"))
    assert consumer.subscription_manager.is_subscribed("order_topic")
    listener = Listener()
    consumer.register_message_listener(listener)
    assert consumer.message_listener is listener
    consumer.start()
    assert consumer.running
    consumer.shutdown()
    assert not consumer.running
    return None


class Listener(api.MessageListener):
    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.fail_first = False

    def consume_message(self, messages: list[api.MessageExt]) -> api.ConsumeResult:
        self.bodies += [message.body for message in messages]
        if self.fail_first and len(self.bodies) == 1:
            raise RuntimeError("once")
        return api.ConsumeResult.SUCCESS


class AsyncListener(Listener):
    async def consume_message(  # type: ignore[override]
        self, messages: list[api.MessageExt]
    ) -> api.ConsumeResult:
        self.bodies += [message.body for message in messages]
        return api.ConsumeResult.SUCCESS


def _blocking(stage: Stage, kind: Any, listener: Listener, **settings: object) -> None:  # noqa: ANN401
    consumer = kind(stage.config(**settings))
    consumer.subscribe(stage.name, api.MessageSelector.by_tag("*"))
    consumer.register_message_listener(listener)
    assert not consumer.running
    consumer.start()
    consumer.start()
    try:
        wait_for(lambda: len(listener.bodies) >= 3, 20)
        assert consumer.running
    finally:
        consumer.shutdown()
        consumer.shutdown()
    assert not consumer.running


@row(CONSUMERS, "ConcurrentConsumer", "MessageListener")
def concurrent_consumer(stage: Stage) -> str | None:
    stage.send(b"1", b"2", b"3")
    listener = Listener()
    _blocking(stage, api.ConcurrentConsumer, listener)
    assert sorted(listener.bodies) == [b"1", b"2", b"3"]
    again = Listener()
    stage.send(b"4", b"5", b"6")
    _blocking(stage, api.ConcurrentConsumer, again)
    assert sorted(again.bodies) == [b"4", b"5", b"6"]  # offsets were persisted by shutdown()
    return None


@row(CONSUMERS, "OrderlyConsumer")
def orderly_consumer(stage: Stage) -> str | None:
    assert not issubclass(api.OrderlyConsumer, api.ConcurrentConsumer)
    stage.send(b"1", b"2", b"3")
    listener = Listener()
    listener.fail_first = True
    _blocking(stage, api.OrderlyConsumer, listener, orderly_suspend_current_queue_time_millis=10)
    assert listener.bodies[:3] == [b"1", b"1", b"2"]  # a failed message blocks its queue
    return None


@row(CONSUMERS, "manual intervention in orderly mode")
def orderly_dead_letters(stage: Stage) -> str | None:
    stage.send(b"bad", b"good", b"better")
    bodies: list[bytes] = []

    def listen(messages: list[api.MessageExt]) -> api.ConsumeResult:
        bodies.append(messages[0].body)
        failed = messages[0].body == b"bad"
        return api.ConsumeResult.RECONSUME_LATER if failed else api.ConsumeResult.SUCCESS

    consumer = api.OrderlyConsumer(
        stage.config(orderly_max_reconsume_times=2, orderly_suspend_current_queue_time_millis=10)
    )
    consumer.subscribe(stage.name)
    consumer.register_message_listener(listen)
    with consumer:
        wait_for(lambda: len(bodies) >= 5, 20)
    assert bodies == [b"bad"] * 3 + [b"good", b"better"]
    return "after `orderly_max_reconsume_times` it is dead-lettered; -1 blocks the queue"


@row(CONSUMERS, "TransactionConsumer")
def transaction_consumer(stage: Stage) -> str | None:
    with pytest.raises(api.ConfigurationError):
        api.TransactionConsumer(stage.config())
    assert issubclass(api.TransactionConsumer, api.OrderlyConsumer)
    return "the document only names it; here it is orderly with `enable_auto_commit=False`"


def _awaited(stage: Stage, kind: Any) -> None:  # noqa: ANN401 - two classes
    stage.send(b"1", b"2", b"3")
    listener = AsyncListener()

    async def main() -> None:
        consumer = kind(stage.config())
        consumer.subscribe(stage.name, api.MessageSelector.by_tag("*"))
        consumer.register_message_listener(listener)
        await consumer.start()
        await consumer.start()
        await asyncio.to_thread(wait_for, lambda: len(listener.bodies) >= 3, 20)
        await consumer.shutdown()
        await consumer.shutdown()

    asyncio.run(asyncio.wait_for(main(), 20))
    assert sorted(listener.bodies) == [b"1", b"2", b"3"]


@row(CONSUMERS, "AsyncConcurrentConsumer")
def async_concurrent(stage: Stage) -> str | None:
    _awaited(stage, api.AsyncConcurrentConsumer)
    return None


@row(CONSUMERS, "AsyncOrderlyConsumer")
def async_orderly(stage: Stage) -> str | None:
    _awaited(stage, api.AsyncOrderlyConsumer)
    return None


# -- allocation and start position ---------------------------------------------------------------

QUEUES = [api.MessageQueue("T", "b", number) for number in range(8)]


@row(ALLOCATION, "AverageAllocateStrategy")
def average(stage: Stage) -> str | None:
    strategy = api.AverageAllocateStrategy()
    shares = [strategy.allocate("g", cid, QUEUES, ["a", "b", "c"]) for cid in "abc"]
    assert [len(share) for share in shares] == [3, 3, 2]
    assert sorted(queue for share in shares for queue in share) == QUEUES
    return None


@row(ALLOCATION, "HashAllocateStrategy")
def hashed(stage: Stage) -> str | None:
    strategy = api.HashAllocateStrategy()
    before = strategy.allocate("g", "a", QUEUES, ["a", "b", "c"])
    assert strategy.allocate("g", "a", QUEUES, ["a", "b", "c"]) == before
    assert set(before) <= set(strategy.allocate("g", "a", QUEUES, ["a", "b"]))
    return "it is the consistent hash of the Java client, so that members in Java agree"


@row(ALLOCATION, "CONFIGURATION", "MACHINE_ROOM")
def with_parameters(stage: Stage) -> str | None:
    fixed = stage.config(allocate_queue_strategy="CONFIGURATION", allocate_queues=QUEUES[:2])
    assert fixed.strategy.allocate("g", "a", QUEUES, ["a", "b"]) == QUEUES[:2]
    rooms = [api.MessageQueue("T", f"{room}@b", 0) for room in ("r1", "r2")]
    near = stage.config(
        allocate_queue_strategy=api.AllocateQueueStrategy.MACHINE_ROOM, machine_rooms=["r1"]
    )
    assert near.strategy.allocate("g", "a", rooms, ["a"]) == rooms[:1]
    return None


@row(ALLOCATION, "ConsumeFromWhereManager")
def start_position(stage: Stage) -> str | None:
    stage.send(b"1", b"2", b"3")
    with api.QueueReader(stage.namesrv_addr) as reader:
        queue = reader.queues(stage.name)[0]
        manager = api.ConsumeFromWhereManager(reader)
        where = api.ConsumeFromWhere
        assert manager.get_consume_offset(queue, where.CONSUME_FROM_FIRST_OFFSET) == 0
        assert manager.get_consume_offset(queue, where.CONSUME_FROM_LAST_OFFSET) == 3
        assert manager.get_consume_offset(queue, where.CONSUME_FROM_TIMESTAMP, timestamp=1) == 0
    return "its constructor takes what it asks for offsets, for example a `QueueReader`"


# -- offset stores -------------------------------------------------------------------------------


class FiveMethods(api.OffsetStore):
    def __init__(self) -> None:
        self.memory: dict[api.MessageQueue, int] = {}
        self.stored: dict[api.MessageQueue, int] = {}

    def load(self) -> None:
        self.memory = dict(self.stored)

    def update_offset(self, queue: api.MessageQueue, offset: int) -> None:
        self.memory[queue] = offset

    def persist(self, queue: api.MessageQueue) -> None:
        self.stored[queue] = self.memory[queue]

    def persist_all(self) -> None:
        self.stored.update(self.memory)

    def read_offset(self, queue: api.MessageQueue, read_type: api.ReadOffsetType) -> int:
        where = self.stored if read_type is api.ReadOffsetType.READ_FROM_STORE else self.memory
        return where.get(queue, -1)


@row(OFFSETS, "OffsetStore")
def own_store(stage: Stage) -> str | None:
    stage.send(b"1", b"2", b"3")
    store = FiveMethods()
    for kind, count in ((api.ConcurrentConsumer, 3), (api.OrderlyConsumer, 0)):
        got: list[bytes] = []

        def listen(messages: list[api.MessageExt], got: list[bytes] = got) -> api.ConsumeResult:
            got.extend(message.body for message in messages)
            return api.ConsumeResult.SUCCESS

        consumer = kind(stage.config(), offset_store=store)
        consumer.subscribe(stage.name)
        consumer.register_message_listener(listen)
        with consumer:
            wait_for(lambda got=got, count=count: len(got) >= count, 20)
        assert len(got) == count
    assert max(offset for queue, offset in store.stored.items() if queue.topic == stage.name) == 3
    return None


@row(OFFSETS, "OffsetEntry")
def entry(stage: Stage) -> str | None:
    made = api.OffsetEntry(QUEUES[0], 5, 1_700_000_000_000)
    assert (made.queue, made.offset, made.last_update_timestamp) == (QUEUES[0], 5, 1700000000000)
    return None


@row(OFFSETS, "RemoteOffsetStore")
def remote(stage: Stage) -> str | None:
    stage.send(b"1", b"2", b"3")
    listener = Listener()
    _blocking(stage, api.ConcurrentConsumer, listener)
    consumer = api.ConcurrentConsumer(stage.config())
    consumer.subscribe(stage.name)
    consumer.register_message_listener(listener)
    with consumer:
        store = consumer.offset_store
        assert isinstance(store, api.RemoteOffsetStore)
        queue = next(one for one in consumer.assigned_queues() if one.topic == stage.name)
        assert store.read_offset(queue, api.ReadOffsetType.READ_FROM_STORE) in (0, 3)
    return None


@row(OFFSETS, "LocalOffsetStore", "topic@brokerId:queueId=offset")
def local(stage: Stage) -> str | None:
    store = api.LocalOffsetStore(stage.directory, "g", file_format=api.OffsetFileFormat.LINES)
    store.load()
    store.update_offset(QUEUES[1], 42)
    store.persist(QUEUES[1])
    assert store.path.read_text() == "T@b:1=42\n"
    again = api.LocalOffsetStore(stage.directory, "g")
    again.load()
    assert again.read_offset(QUEUES[1], api.ReadOffsetType.READ_FROM_MEMORY) == 42
    config = stage.config(message_model="BROADCASTING", offset_file_format="LINES")
    assert config.offset_file_format is api.OffsetFileFormat.LINES
    return 'JSON is the default format; `offset_file_format="LINES"` writes the lines'
