"""The native operations of topics: waiting reads, bad input, who may do what."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest

from headrace.core.broker import Broker
from headrace.errors import (
    BadTopicValue,
    BodyTooLarge,
    BrokerError,
    NoSuchTopic,
)
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import Partition
from headrace.store.topics.types import ConsumerSpec, Entry
from headrace.testing import RunningBroker, wait_for
from support.access_matrix import Site
from support.native_topics import (
    APPEND,
    COMMIT,
    DEAD,
    DECLARE,
    DELETE,
    DESCRIBE,
    FORGET,
    LAG,
    NACK,
    READ,
    RENEW,
    SEEK,
    Line,
    NativeEngine,
)

LineMaker = Callable[..., Line]


@pytest.fixture
def line_of(running: RunningBroker) -> Iterator[LineMaker]:
    with ExitStack() as stack:

        def line_of(user: str = "guest") -> Line:
            assert running.native_port is not None
            line = Line((running.host, running.native_port), user)
            stack.callback(line.close)
            return line

        yield line_of


# -- waiting --------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [None, "g"])
def test_a_waiting_read_is_answered_by_the_next_message(
    engine: NativeEngine, line_of: LineMaker, topic: str, group: str | None
) -> None:
    line = line_of()
    rid = line.send(READ, topic=topic, token="c", group=group, batch=10, wait_ms=30_000)
    wait_for(lambda: engine.append(topic, [Entry(b"x")]))

    assert [one[4] for one in line.receive(rid)["messages"]] == [b"x"]


def test_a_waiting_read_ends_with_nothing(line_of: LineMaker, topic: str) -> None:
    answer = line_of().call(READ, topic=topic, token="c", batch=10, wait_ms=1)

    assert (answer["messages"], answer["claim"]) == ([], [])


def test_a_waiting_read_does_not_hold_up_its_channel(line_of: LineMaker, topic: str) -> None:
    line = line_of()
    line.send(READ, topic=topic, token="c", batch=10, wait_ms=30_000)

    line.call(APPEND, topic=topic, body=b"own")


def test_the_end_of_a_lease_wakes_who_waits(
    engine: NativeEngine, line_of: LineMaker, topic: str
) -> None:
    engine.append(topic, [Entry(b"x")])
    engine.read(topic, ConsumerSpec("slow", "g", lease_ms=50), 1)

    answer = line_of().call(READ, topic=topic, token="c", group="g", batch=1, wait_ms=30_000)

    assert [(one[4], one[12]) for one in answer["messages"]] == [(b"x", 2)]


def test_the_end_of_a_delay_wakes_who_waits(
    engine: NativeEngine, line_of: LineMaker, topic: str
) -> None:
    reader = ConsumerSpec("a", "g")
    (number,) = engine.append(topic, [Entry(b"x")])
    taken = engine.read(topic, reader, 1)
    engine.nack(topic, reader, taken.claim, [(Priority.MIDDLE, number)], 50)
    engine.commit(topic, reader, taken.claim)

    answer = line_of().call(READ, topic=topic, token="c", group="g", batch=1, wait_ms=30_000)

    assert [one[4] for one in answer["messages"]] == [b"x"]


def test_a_reader_that_hangs_up_takes_nothing_with_it(
    engine: NativeEngine, line_of: LineMaker, topic: str
) -> None:
    line = line_of()
    line.send(READ, topic=topic, token="gone", group="g", batch=10, wait_ms=60_000)
    line.call(LAG, topic=topic, group="g")  # the read has been taken
    line.socket.shutdown(socket.SHUT_RDWR)

    def somebody_else_gets_one() -> bool:
        # Until the broker has seen the hang-up, messages go to the one who is gone.
        engine.append(topic, [Entry(b"x")])
        return bool(engine.read(topic, ConsumerSpec("b", "g"), 100).messages)

    wait_for(somebody_else_gets_one)


def test_readers_that_wait_are_served_in_their_order(
    engine: NativeEngine, line_of: LineMaker, topic: str
) -> None:
    lines = [line_of() for _ in range(3)]
    rids = []
    for number, line in enumerate(lines):
        rids.append(
            line.send(READ, topic=topic, token=f"m{number}", group="g", batch=1, wait_ms=30_000)
        )
        line.call(LAG, topic=topic, group="g")  # it waits now
    for number in range(3):
        engine.append(topic, [Entry(b"%d" % number)])
        answer = lines[number].receive(rids[number])
        assert [one[4] for one in answer["messages"]] == [b"%d" % number]


def test_a_deleted_topic_ends_the_waiting(
    engine: NativeEngine, line_of: LineMaker, topic: str
) -> None:
    line = line_of()
    rid = line.send(READ, topic=topic, token="c", batch=10, wait_ms=30_000)
    line.call(DESCRIBE, name=topic)
    engine.delete(topic)

    with pytest.raises(NoSuchTopic):
        line.receive(rid)


def test_a_read_has_about_sixteen_mebibytes(engine: NativeEngine, topic: str) -> None:
    body = bytes(5 << 20)
    for _ in range(5):
        engine.append(topic, [Entry(body)])
    reader = ConsumerSpec("c", "g")

    sizes = []
    for _ in range(3):
        taken = engine.read(topic, reader, 100)
        sizes.append(len(taken.messages))
        if taken.claim:
            engine.commit(topic, reader, taken.claim)

    assert sizes == [3, 2, 0]


# -- bad input ------------------------------------------------------------------------------------

BAD_VALUES: list[tuple[int, dict[str, object]]] = [
    (APPEND, {"body": b"", "priority": "urgent"}),
    (APPEND, {"body": b"", "priority": 5}),
    (APPEND, {"body": b"", "source_ip": "300.1.1.1"}),
    (APPEND, {"body": b"", "key": "k" * 256}),
    (APPEND, {"body": b"", "token": "with space"}),
    (APPEND, {"body": b"", "born": "today"}),
    (APPEND, {"body": b"", "born": 1 << 63}),
    (APPEND, {"body": b"", "properties": {"a": 1}}),
    (APPEND, {"body": b"", "properties": [1]}),
    (READ, {"token": "c", "batch": 0}),
    (READ, {"token": "c", "batch": 1 << 20}),
    (READ, {"token": "c", "batch": "many"}),
    (READ, {"token": "", "batch": 1}),
    (READ, {"token": "ü", "batch": 1}),
    (READ, {"token": "c", "group": "a b", "batch": 1}),
    (READ, {"token": "c", "batch": 1, "wait_ms": 60_001}),
    (READ, {"token": "c", "batch": 1, "lease_ms": 0}),
    (READ, {"token": "c", "batch": 1, "min_share": 51}),
    (READ, {"token": "c", "batch": 1, "start": "middle"}),
    (SEEK, {"token": "c"}),
    (SEEK, {"token": "c", "positions": {"low": -1}}),
    (SEEK, {"token": "c", "positions": {"urgent": 1}}),
    (SEEK, {"token": "c", "positions": {"low": 1}, "time_ms": 1}),
    (SEEK, {"token": "c", "time_ms": -1}),
    (NACK, {"token": "c", "claim": [], "ids": [], "delay_ms": 0}),
    (DEAD, {"group": "g", "limit": 0}),
]


@pytest.mark.parametrize(("kind", "fields"), BAD_VALUES, ids=lambda one: repr(one)[:60])
def test_bad_values_are_refused_and_change_nothing(
    engine: NativeEngine, line_of: LineMaker, topic: str, kind: int, fields: dict[str, object]
) -> None:
    line = line_of()
    before = engine.describe(topic)

    with pytest.raises(BadTopicValue):
        line.call(kind, topic=topic, **fields)

    assert engine.describe(topic) == before
    assert engine.groups(topic) == []
    line.call(DESCRIBE, name=topic)  # the channel is as good as before


@pytest.mark.parametrize(
    "fields",
    [{"queues": 0}, {"queues": 1025}, {"engine": "nowhere"}, {"retention_ms": 0},
     {"retention_bytes": -1}, {"retention_ms": "7d"}],
)  # fmt: skip
def test_bad_declarations_make_no_topic(
    engine: NativeEngine, line_of: LineMaker, fields: dict[str, object]
) -> None:
    name = f"t_{uuid4().hex[:12]}"
    with pytest.raises(BadTopicValue):
        line_of().call(DECLARE, name=name, **fields)
    with pytest.raises(NoSuchTopic):
        engine.describe(name)


def test_a_batch_with_one_bad_entry_is_refused_as_a_whole(
    engine: NativeEngine, line_of: LineMaker, topic: str
) -> None:
    good, bad = {"body": b"good"}, {"body": b"bad", "priority": "x"}
    with pytest.raises(BadTopicValue):
        line_of().call(APPEND, topic=topic, batch=[good, bad])

    assert engine.read(topic, ConsumerSpec("c"), 10).messages == ()


def test_twenty_mebibytes_are_refused(line_of: LineMaker, topic: str) -> None:
    with pytest.raises(BodyTooLarge):
        line_of().call(APPEND, topic=topic, body=bytes(20 << 20))


def test_garbage_leaves_the_broker_standing(
    engine: NativeEngine, line_of: LineMaker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    rng = random.Random(7)
    kinds = [DECLARE, DESCRIBE, APPEND, READ, COMMIT, NACK, RENEW, SEEK, LAG, FORGET, DEAD, DELETE]
    junk: list[object] = [
        None, True, -1, 0, 1 << 62, 1.5, "", "x" * 300, "g", "\x00", b"", b"x" * 50, [], [[]],
        ["g", "x", 1], [[1, 2, 3]], {}, {"low": {}}, {"low": 1 << 62}, ["low", 1], [["low", 1]],
    ]  # fmt: skip
    names = ["token", "group", "batch", "claim", "ids", "positions", "time_ms", "body", "priority",
             "key", "queues", "engine", "options", "limit", "delay_ms", "reason", "properties",
             "lease_ms", "start", "retention_ms"]  # fmt: skip
    line = line_of()
    for _ in range(400):
        kind = rng.choice(kinds)
        fields = {name: rng.choice(junk) for name in rng.sample(names, rng.randrange(1, 8))}
        target = {"name": "x" if kind == DELETE else topic, "topic": topic}
        try:
            line.call(kind, **{**target, **fields})
        except (ConnectionError, OSError):
            line = line_of()
        except BrokerError:
            pass
    engine.append(topic, [Entry(b"still there")])
    found = engine.read(topic, ConsumerSpec("after"), 8000).messages
    assert found[-1].body == b"still there"
    assert "unexpected failure" not in caplog.text


def test_a_group_of_rocketmq_clients_cannot_be_read_by_claims(
    running: RunningBroker, engine: NativeEngine, topic: str
) -> None:
    def commit(broker: Broker) -> None:
        found = broker.get_vhost("/").topics.log.get(topic)
        found.assigned.set("theirs", Partition(Priority.MIDDLE, 0), 0)

    Site(running).do(commit)

    with pytest.raises(BadTopicValue, match="use another name"):
        engine.read(topic, ConsumerSpec("c", "theirs"), 1)
    with pytest.raises(BadTopicValue, match="use another name"):
        engine.seek(topic, ConsumerSpec("c", "theirs"), time_ms=0)

    by_claims: list[object] = []
    Site(running).do(lambda broker: by_claims.extend(
        broker.get_vhost("/").topics.log.get(topic).readers.groups(0)
    ))  # fmt: skip
    assert by_claims == []
    assert [(one.group, one.members) for one in engine.groups(topic)] == [("theirs", ())]


def test_the_short_names_of_the_specification_are_understood(line_of: LineMaker) -> None:
    name = f"t_{uuid4().hex[:12]}"
    line = line_of()
    made = line.call(DECLARE, name=name, retention="7d,500MB")
    assert made["topic"]["retention_ms"] == 7 * 86_400_000
    assert line.call(APPEND, topic=name, body=b"a")["offsets"] == [1]
    batch = [{"body": b"b"}, {"body": b"c", "priority": "high"}]
    assert line.call(APPEND, topic=name, batch=batch)["offsets"] == [2, 1]
    assert line.call(DESCRIBE, name=name)["partitions"] == [
        {"priority": "high", "partition": 0, "first": 1, "end": 2},
        {"priority": "middle", "partition": 0, "first": 1, "end": 3},
    ]
    line.call(SEEK, topic=name, token="c", offsets={"middle": 1})
    read = line.call(READ, topic=name, token="c", batch=5)
    assert [one[4] for one in read["messages"]] == [b"c", b"b"]
    line.call(SEEK, topic=name, token="c", time=4_000_000_000_000)
    assert line.call(READ, topic=name, token="c", batch=5)["messages"] == []
    line.call(DELETE, name=name)
