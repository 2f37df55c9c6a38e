"""Topics, groups, pins, staged batches and RocketMQ's state of version 1 are read in full."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures import contents
from fixtures.opening import ClockAt, Written, unpacked
from headrace import topics
from headrace.bulk.client import BulkConnection
from headrace.client.settings import Settings
from headrace.testing import RunningBroker, run_broker
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.headers.offsets import OffsetResult, QueryConsumerOffset
from headrace.wire.remoting.headers.pull import PullMessage
from headrace.wire.remoting.headers.send import COMMIT, EndTransaction
from headrace.wire.remoting.names import retry_topic
from support.raw_remoting import Link
from support.remoting_bodies import RemotingMessage, take_group_configs, take_messages
from support.rocketmq.protocol_checks import accepted

NAMES = ["crashed", "stopped"]


@pytest.fixture(scope="module", params=NAMES)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    return unpacked(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def broker(written: Written) -> Iterator[RunningBroker]:
    with run_broker(data_dir=written.data, clock=written.clock()) as broker:
        yield broker


@pytest.fixture
def store(broker: RunningBroker) -> Iterator[topics.Store]:
    with topics.open(broker.native_url) as store:
        yield store


@pytest.fixture
def bulk(broker: RunningBroker) -> Iterator[BulkConnection]:
    assert broker.native_port is not None
    with BulkConnection(Settings(port=broker.native_port)) as connection:
        yield connection


def singles(*numbers: int) -> list[bytes]:
    return [b"single-%d" % number for number in numbers]


# -- topics and groups --------------------------------------------------------------------------


def test_all_messages_of_all_priorities_are_there(store: topics.Store) -> None:
    found = store.consumer("events", token="all").read(100)
    info = store.describe("events")

    assert (info.queues, info.counts) == (2, dict.fromkeys(("high", "middle", "low"), 10))
    assert info.retention is not None
    assert info.retention.size == 500_000_000
    numbers = [int(one.text.removeprefix("event-")) for one in found]
    assert sorted(numbers) == list(range(contents.EVENTS))
    for number, message in zip(numbers, found, strict=True):
        assert message.priority == contents.LANES[number % 3]
        assert message.ref_key == f"key-{number % 5}"
        assert message.tags == ("even" if number % 2 == 0 else "odd")
        assert message.properties == {"number": str(number)}
        assert message.token == "producer-1"
    for priority in contents.LANES:
        for key in range(5):  # in order within a key
            of_key = [n for n in numbers if contents.LANES[n % 3] == priority and n % 5 == key]
            assert of_key == sorted(of_key)


def test_groups_are_where_they_were(store: topics.Store) -> None:
    groups = {one.group for one in store.groups("single") if one.group}
    assert groups == {"done", "halfway", "failing", "patient"}

    def state(group: str) -> tuple[int, int, int, int]:
        lag = store.consumer("single", token="w", group=group).lag()["middle"]
        return lag.position, lag.messages, lag.retrying, lag.dead

    assert state("done") == (20, 0, 0, 0)
    assert state("failing")[1:] == (14, 0, 1)
    assert state("patient")[1:] == (15, 1, 0)
    priorities = store.consumer("events", token="w", group="lanes").lag()
    assert {name: lag.messages for name, lag in priorities.items()} == {
        "high": 0,
        "middle": 8,
        "low": 10,
    }


def test_a_claim_that_was_out_comes_again(store: topics.Store) -> None:
    found = store.consumer("single", token="other", group="halfway").read(100)

    assert [one.body for one in found] == singles(*range(8, 20))
    assert all(one.attempts >= 2 for one in found[:3])
    assert all(one.attempts in (1, 2) for one in found[3:])  # claims were known to memory only


def test_dead_messages_are_listed_and_the_rest_is_read(store: topics.Store) -> None:
    failing = store.consumer("single", token="other", group="failing")

    assert [(one.body, reason) for one, reason in failing.dead()] == [(b"single-0", "broken")]
    assert [one.body for one in failing.read(100)] == singles(*range(6, 20))


def test_a_reader_on_its_own_goes_on(store: topics.Store) -> None:
    found = store.consumer("single", token="alone").read(100)
    assert [one.body for one in found] == singles(*range(4, 20))


@pytest.mark.parametrize("name", NAMES)
def test_a_retry_comes_when_it_is_due(tmp_path: Path, name: str) -> None:
    written = unpacked(name, tmp_path)
    hour, due = 3600, written.noted["written"] // 1000 + contents.RETRY_DELAY_S
    clock = ClockAt((due - hour) * 1000)  # the broker was down for almost a month
    with (
        run_broker(data_dir=written.data, clock=clock) as broker,
        topics.open(broker.native_url) as store,
    ):
        patient = store.consumer("single", token="other", group="patient")
        fresh = patient.read(100)
        assert [one.body for one in fresh] == singles(*range(6, 20))
        patient.commit(fresh)
        broker.advance(hour)
        (late,) = patient.read(100)
        assert (late.body, late.attempts) == (b"single-2", 2)


# -- pins and staged batches --------------------------------------------------------------------


def test_pins_hold_what_they_held(bulk: BulkConnection) -> None:
    (pin,) = [one for one in bulk.pins() if one.query == "reader-1"]
    (kept,) = bulk.sources([{"queue": "kept"}])

    assert (pin.kind, pin.name, pin.uuid, pin.lost) == ("queue", "kept", kept.uuid, False)
    assert (dict(pin.positions), pin.max_bytes) == ({"0": 1}, 1 << 20)
    assert (kept.ranges[0].first, kept.ranges[0].end) == (0, 3)


def test_a_published_batch_is_published_once(bulk: BulkConnection, store: topics.Store) -> None:
    query, batch, attempt = contents.STAGED

    assert bulk.publish_staged(query, batch, [attempt]) is False
    found = store.consumer("staged", token="all").read(100)
    assert [one.body for one in found] == contents.STAGED_BODIES


# -- RocketMQ -----------------------------------------------------------------------------------


def link_to(broker: RunningBroker) -> Link:
    """Signed with the secret of an administrator."""
    address = f"127.0.0.1:{broker.ports['remoting']}"
    return Link(address, credentials=("bert", contents.SECRET))


def pulled(link: Link, topic: str, queue: int) -> list[RemotingMessage]:
    answer = link.ask(PullMessage("CG", topic, queue, 0, 32, 4, subscription="*"))
    if answer.code == ResponseCode.PULL_NOT_FOUND:
        return []
    return list(take_messages(accepted(answer).body))


def test_a_group_of_rocketmq_is_where_it_was(broker: RunningBroker) -> None:
    with link_to(broker) as link:
        for queue, offset in contents.GROUP_OFFSETS.items():
            answer = accepted(link.ask(QueryConsumerOffset(contents.GROUP, "trades", queue)))
            assert OffsetResult.take(answer.ext).offset == offset
            messages = pulled(link, "trades", queue)
            numbers = range(queue, contents.TRADES, 2)
            assert [one.body for one in messages] == [b"trade-%d" % one for one in numbers]
            assert [one.msg_id for one in messages] == [f"U{one}" for one in numbers]
            assert [one.keys for one in messages] == [[f"k{one}"] for one in numbers]
        answer = accepted(link.call(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))
    config = take_group_configs(answer.body)[contents.GROUP]
    assert config.retry_max_times == contents.RETRY_TIMES


@pytest.mark.parametrize("name", NAMES)
def test_what_rocketmq_delayed_or_did_not_decide_comes_later(tmp_path: Path, name: str) -> None:
    written = unpacked(name, tmp_path)
    clock = written.clock()
    retries = retry_topic(contents.GROUP)
    before, after = written.noted["rocketmq_due"]
    offset, physical, transaction = written.noted["half"]
    with run_broker(data_dir=written.data, clock=clock) as broker, link_to(broker) as link:
        known = [one.body for one in pulled(link, "trades", 0)]
        commit = EndTransaction("PG", offset, physical, COMMIT, False, "H", transaction, "trades")
        accepted(link.ask(commit))
        assert [one.body for one in pulled(link, "trades", 0)] == [*known, b"half"]
        broker.advance(before / 1000 - 1 - clock.wall_seconds())
        assert pulled(link, retries, 0) == []
        broker.advance(after / 1000 + 1 - clock.wall_seconds())
        (again,) = pulled(link, retries, 0)
        assert (again.body, again.reconsume_times) == (b"trade-0", 1)
        assert [one.body for one in pulled(link, "trades", 0)] == [*known, b"half", b"delayed"]
