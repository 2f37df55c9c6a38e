"""Backlogs against a plain sorted list: the same requests, the same messages in the same order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.backlog import Backlog, PriorityBacklog
from headrace.model.message import Route, Run
from support.example_counts import examples

ROUTES = (Route("", "a"), Route("", "b"))
HIGHEST = 2

appends = st.tuples(
    st.just("append"),
    st.integers(1, 70),
    st.integers(0, 1),  # route
    st.integers(1, 3),  # distance of the numbers: those between are of another priority
    st.integers(0, 4),  # priority
    st.sampled_from([None, None, 3, 6, 9]),  # expiry
)
requests = st.one_of(
    appends,
    st.tuples(st.just("take"), st.integers(1, 60)),
    st.tuples(st.just("deal"), st.integers(1, 90), st.integers(2, 5)),
    st.tuples(st.just("requeue"), st.integers(1, 6), st.randoms(use_true_random=False)),
    st.tuples(st.just("put_back_part"), st.integers(0, 50), st.integers(1, 50)),
    st.tuples(st.just("expire"), st.integers(0, 10)),
    st.tuples(st.just("clear")),
)


class Item:
    """One message of the model: sorted by level, then by whether it was returned, then age."""

    def __init__(self, offset: int, level: int, expires: int | None) -> None:
        self.key = (-level, offset)
        self.content = b"x" * (offset % 7) + b"%d" % offset
        self.expires = expires


class Pair:
    """A backlog and its model, driven together."""

    def __init__(self, levels: int) -> None:
        self.real = PriorityBacklog(levels - 1) if levels > 1 else Backlog()
        self.levels = levels
        self.model: list[Item] = []
        self.items: dict[int, Item] = {}
        self.out: list[Run] = []  # delivered, may be returned
        self.next_offset = 0

    def append(
        self, count: int, route: int, distance: int, priority: int, expires: int | None
    ) -> None:
        end = self.next_offset + count * distance
        offsets = range(self.next_offset, end, distance)
        self.next_offset = offsets[-1] + 1
        items = [Item(at, min(priority, self.levels - 1), expires) for at in offsets]
        self.items |= dict(zip(offsets, items, strict=True))
        self.model += items
        self.model.sort(key=lambda item: item.key)
        contents = [item.content for item in items]
        size = sum(map(len, contents))
        self.real.append(
            Run(ROUTES[route], contents, offsets, size, expires=expires, priority=priority)
        )

    def take(self, limit: int) -> None:
        if self.real.count:
            run = self.real.take(limit)
            self.expect_head(run, limit)
            self.out.append(run)

    def deal(self, limit: int, hands: int) -> None:
        if self.real.count:
            run = self.real.take(limit)
            self.expect_head(run, limit)
            self.out += run.split_round_robin(hands)

    def expect_head(self, run: Run, limit: int) -> None:
        assert run.start == 0
        assert 1 <= len(run) <= limit
        expected, self.model = self.model[: len(run)], self.model[len(run) :]
        assert run.contents == [item.content for item in expected]
        assert list(run.offsets) == [item.key[1] for item in expected]
        assert run.size == sum(map(len, run.contents))

    def requeue(self, count: int, random: object) -> None:
        random.shuffle(self.out)  # type: ignore[attr-defined]
        back, self.out = self.out[:count], self.out[count:]
        self.give(back)

    def put_back_part(self, start: int, length: int) -> None:
        if self.out:
            run = self.out.pop()
            part = run.piece(slice(start, start + length))
            self.give([part])

    def give(self, runs: list[Run]) -> None:
        self.model += [self.items[offset] for run in runs for offset in run.offsets]
        self.model.sort(key=lambda item: item.key)
        self.real.requeue(runs)

    def expire(self, now: int) -> None:
        gone = [content for run in self.real.take_expired(now) for content in run.contents]
        expected: list[Item] = []
        for level in range(self.levels):
            for item in [one for one in self.model if one.key[0] == -level]:
                if item.expires is None or item.expires > now:
                    break
                expected.append(item)
        self.model = [item for item in self.model if item not in expected]
        assert sorted(gone) == sorted(item.content for item in expected)
        coming = self.real.next_expiry()
        assert coming is None or coming > now

    def clear(self) -> None:
        runs = self.real.clear()
        contents = [content for run in runs for content in run.contents[run.start :]]
        assert contents == [item.content for item in self.model]
        self.model = []

    def check(self) -> None:
        assert self.real.count == len(self.model)
        assert self.real.size == sum(len(item.content) for item in self.model)
        held = [run.contents[run.start :] for run in self.real.runs()]
        assert [one for part in held for one in part] == [item.content for item in self.model]
        numbers = [run.offsets[run.start :] for run in self.real.runs()]
        assert [one for part in numbers for one in part] == [item.key[1] for item in self.model]


@pytest.mark.parametrize("levels", [1, HIGHEST + 1], ids=["plain", "priorities"])
@settings(max_examples=examples(150))
@given(st.lists(requests, max_size=30))
def test_a_backlog_is_a_sorted_list(levels: int, steps: list[tuple[object, ...]]) -> None:
    pair = Pair(levels)
    for name, *arguments in steps:
        getattr(pair, str(name))(*arguments)
        pair.check()


@given(st.data(), st.integers(1, 200), st.integers(2, 6))
def test_dealt_runs_come_back_in_order_whatever_is_acknowledged(
    data: st.DataObject, count: int, hands: int
) -> None:
    backlog = Backlog()
    contents = [b"%d" % number for number in range(count)]
    backlog.append(Run(ROUTES[0], contents, range(count), sum(map(len, contents))))
    dealt = list(backlog.take(count).split_round_robin(hands))
    acknowledged = data.draw(st.sets(st.integers(0, count - 1)))

    for run in data.draw(st.permutations(dealt)):
        left = [at for at, offset in enumerate(run.offsets) if offset not in acknowledged]
        backlog.requeue([run.piece(slice(at, at + 1)) for at in left])

    returned = [offset for run in backlog.runs() for offset in run.offsets]
    assert returned == [number for number in range(count) if number not in acknowledged]
