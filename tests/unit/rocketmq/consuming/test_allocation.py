"""Sharing queues: every member computes the same, and together they own everything once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.rocketmq import (
    AllocateQueueStrategy,
    AverageAllocateStrategy,
    AverageByCircleAllocateStrategy,
    ConfigurationAllocateStrategy,
    ConfigurationError,
    ConsistentHashAllocateStrategy,
    HashAllocateStrategy,
    MachineRoomAllocateStrategy,
    MessageQueue,
)
from headrace.rocketmq.consuming.allocation import AllocateStrategy, strategy_of


def queues(count: int, broker: str = "broker-a") -> list[MessageQueue]:
    return [MessageQueue("T", broker, number) for number in range(count)]


def shares(strategy: AllocateStrategy, count: int, members: int) -> list[list[int]]:
    cids = [f"c{number}" for number in range(members)]
    return [
        [one.queue_id for one in strategy.allocate("g", cid, queues(count), cids)] for cid in cids
    ]


def test_average_as_in_java() -> None:
    assert shares(AverageAllocateStrategy(), 8, 3) == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert shares(AverageAllocateStrategy(), 2, 3) == [[0], [1], []]


def test_circle_as_in_java() -> None:
    expected = [[0, 3, 6], [1, 4, 7], [2, 5]]
    assert shares(AverageByCircleAllocateStrategy(), 8, 3) == expected


STRATEGIES = [
    AverageAllocateStrategy(),
    AverageByCircleAllocateStrategy(),
    ConsistentHashAllocateStrategy(),
    MachineRoomAllocateStrategy(["room"]),
]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda one: one.name)
@given(
    numbers=st.sets(st.integers(0, 200), max_size=40),
    cids=st.sets(st.text(min_size=1, max_size=8), min_size=1, max_size=9),
    data=st.data(),
)
def test_every_queue_has_exactly_one_owner(
    strategy: AllocateStrategy, numbers: set[int], cids: set[str], data: st.DataObject
) -> None:
    all_queues = [MessageQueue("T", "room@b", number) for number in numbers]
    mixed = data.draw(st.permutations(all_queues)), data.draw(st.permutations(sorted(cids)))
    owned = [queue for cid in cids for queue in strategy.allocate("g", cid, *mixed)]
    assert sorted(owned) == sorted(all_queues)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda one: one.name)
def test_a_client_outside_the_group_gets_no_queues(strategy: AllocateStrategy) -> None:
    assert strategy.allocate("g", "me", queues(4, "room@b"), ["other"]) == []
    assert strategy.allocate("g", "me", queues(4, "room@b"), []) == []


@given(st.integers(0, 50), st.integers(1, 12))
def test_average_shares_differ_by_one_at_most(count: int, members: int) -> None:
    sizes = [len(share) for share in shares(AverageAllocateStrategy(), count, members)]
    assert max(sizes) - min(sizes) <= 1


def test_consistent_hash_is_the_ring_of_java() -> None:
    """By hand: MD5 of `<cid>-<k>` and of the queue's Java text, first four bytes."""
    import hashlib

    def point(text: str) -> int:
        return int(hashlib.md5(text.encode()).hexdigest()[:8], 16)

    cids = ["10.0.0.1@1", "10.0.0.2@1", "10.0.0.3@1"]
    ring = sorted((point(f"{cid}-{k}"), cid) for cid in cids for k in range(10))
    expected: dict[str, list[int]] = {cid: [] for cid in cids}
    for number in range(16):
        place = point(f"MessageQueue [topic=T, brokerName=broker-a, queueId={number}]")
        owner = next((cid for at, cid in ring if at >= place), ring[0][1])
        expected[owner].append(number)
    for cid in cids:
        got = HashAllocateStrategy().allocate("g", cid, queues(16), cids)
        assert [one.queue_id for one in got] == expected[cid]


def test_only_the_queues_of_a_leaver_move() -> None:
    cids = [f"c{number}" for number in range(5)]
    strategy = ConsistentHashAllocateStrategy()
    before = {cid: set(strategy.allocate("g", cid, queues(40), cids)) for cid in cids}
    after = {cid: set(strategy.allocate("g", cid, queues(40), cids[1:])) for cid in cids[1:]}
    assert all(before[cid] <= after[cid] for cid in cids[1:])


def test_configuration_takes_what_exists() -> None:
    wanted = [MessageQueue("T", "broker-a", 1), MessageQueue("T", "broker-z", 0)]
    strategy = ConfigurationAllocateStrategy(wanted)
    assert strategy.allocate("g", "me", queues(4), []) == wanted[:1]


def test_machine_room_ignores_other_rooms() -> None:
    strategy = MachineRoomAllocateStrategy(["r1"])
    mixed = queues(4, "r1@a") + queues(4, "r2@a") + queues(4, "plain")
    got = [strategy.allocate("g", cid, mixed, ["c0", "c1", "c2"]) for cid in ("c0", "c1", "c2")]
    assert [[one.queue_id for one in share] for share in got] == [[0, 3], [1], [2]]
    assert {one.broker_name for share in got for one in share} == {"r1@a"}


def test_names_of_the_enumeration() -> None:
    assert strategy_of("AVG").name == "AVG"
    assert strategy_of(AllocateQueueStrategy.HASH).name == "CONSISTENT_HASH"
    with pytest.raises(ConfigurationError, match="allocate_queues"):
        strategy_of(AllocateQueueStrategy.CONFIGURATION)
    with pytest.raises(ConfigurationError, match="machine_rooms"):
        strategy_of("MACHINE_ROOM")
    with pytest.raises(ConfigurationError, match="AVG"):
        strategy_of("nonsense")
    with pytest.raises(ConfigurationError, match="allocate"):
        strategy_of(object())  # type: ignore[arg-type]
