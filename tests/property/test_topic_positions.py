"""Consumers on their own: every message comes, in order, until it is committed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ClaimLost
from headrace.model.topics.message_priority import BY_URGENCY, Priority
from headrace.model.topics.partitions import Bound, Partition, message_id, place_of
from headrace.model.topics.positions import ConsumerPositions

partitions = st.builds(Partition, st.sampled_from(Priority), st.integers(0, 2))
sizes = st.dictionaries(partitions, st.integers(0, 12), max_size=6)


@given(sizes, st.lists(st.integers(1, 9), min_size=1, max_size=40), st.sampled_from((0, 25)))
def test_all_messages_are_read_once_when_all_is_committed(
    counts: dict[Partition, int], rooms: list[int], share: int
) -> None:
    bounds = {partition: Bound(0, count) for partition, count in counts.items()}
    alone = ConsumerPositions()
    seen: list[tuple[Partition, int]] = []
    for room in [*rooms, *[9] * 20]:
        plan = alone.plan(room, share, bounds)
        left = sum(counts.values()) - len(seen)
        assert sum(span.size for span in plan) == min(room, left)
        priorities = [span.partition.priority for span in plan]
        assert priorities == sorted(priorities, key=BY_URGENCY.index)
        assert alone.plan(room, share, bounds) == plan, "a read changes nothing"
        seen += [(span.partition, at) for span in plan for at in range(span.start, span.stop)]
        alone.commit(0, [(span.partition, span.stop) for span in plan], bounds)
    assert len(seen) == len(set(seen)) == sum(counts.values())
    for partition in counts:
        offsets = [at for one, at in seen if one == partition]
        assert offsets == sorted(offsets)


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_commits_never_go_back_and_seeks_make_older_ones_void(
    first: int, second: int, target: int
) -> None:
    partition: Partition = Partition(Priority.MIDDLE, 0)
    bounds = {partition: Bound(0, 20)}
    alone = ConsumerPositions()
    alone.commit(0, [(partition, first)], bounds)
    alone.commit(0, [(partition, second)], bounds)
    assert alone.partitions[partition] == max(first, second)

    alone.seek({partition: target})

    with pytest.raises(ClaimLost):
        alone.commit(0, [(partition, 20)], bounds)
    assert alone.partitions[partition] == target


@pytest.mark.parametrize("stop", [-1, 21])
def test_a_commit_outside_the_readable_range_is_refused(stop: int) -> None:
    partition: Partition = Partition(Priority.MIDDLE, 0)
    alone = ConsumerPositions()
    with pytest.raises(ClaimLost):
        alone.commit(0, [(partition, stop)], {partition: Bound(0, 20)})
    with pytest.raises(ClaimLost):
        alone.commit(0, [(Partition(Priority.LOW, 0), 1)], {partition: Bound(0, 20)})


@given(st.integers(0, 1023), st.integers(0, (1 << 40) - 2))
def test_an_id_names_its_place(partition: int, offset: int) -> None:
    assert place_of(message_id(partition, offset)) == (partition, offset)
