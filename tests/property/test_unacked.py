"""Unsettled deliveries against a dict of tags: the same settlements, the same tags settled."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import PreconditionFailed
from headrace.model.message import Route, Run
from headrace.model.unacked import Lease, SettledRange, Unacked
from support.example_counts import examples

ROUTE = Route("", "q")

steps = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 12), st.integers(0, 3)),
    st.tuples(st.just("take"), st.integers(0, 80), st.integers(0, 6)),
    st.tuples(st.just("take_outstanding"), st.integers(0, 500), st.integers(0, 6)),
    st.tuples(st.just("take_upto"), st.integers(0, 80)),
    st.tuples(st.just("take_upto_outstanding"), st.integers(0, 500)),
    st.tuples(st.just("expire"), st.integers(0, 30)),
)


class Pair:
    """The real thing and its model, driven together."""

    def __init__(self) -> None:
        self.real: Unacked[int] = Unacked()
        self.owners: dict[int, int] = {}  # outstanding tag -> owner
        self.forgiven: set[int] = set()
        self.leases: list[Lease[int]] = []
        self.next_tag = 1

    def add(self, count: int, owner: int) -> None:
        tags = range(self.next_tag, self.next_tag + count)
        self.next_tag += count + owner  # gaps: gets without acks take tags too
        contents = [b"%d" % tag for tag in tags]
        run = Run(ROUTE, contents, tags, sum(map(len, contents)))
        self.leases.append(self.real.add(tags[0], owner, run))
        self.owners |= dict.fromkeys(tags, owner)

    def take(self, first: int, more: int) -> None:
        parts, unknown = self.real.take(first, first + more)
        expected: list[tuple[int, int]] = []
        wrong = None
        for tag in range(first, first + more + 1):
            if tag in self.owners:
                expected.append((tag, self.owners.pop(tag)))
            elif tag not in self.forgiven:
                wrong = tag
                break
        assert (settled(parts), unknown) == (expected, wrong)

    def take_outstanding(self, which: int, more: int) -> None:
        if self.owners:
            self.take(sorted(self.owners)[which % len(self.owners)], more)

    def take_upto(self, tag: int) -> None:
        known = tag == 0 or tag in self.owners or tag in self.forgiven
        assert tag == 0 or self.real.knows(tag) == known
        try:
            parts = self.real.take_upto(tag)
        except PreconditionFailed:
            assert not known
            return
        assert known
        taken = sorted(one for one in self.owners if not tag or one <= tag)
        assert settled(parts) == [(one, self.owners.pop(one)) for one in taken]

    def take_upto_outstanding(self, which: int) -> None:
        if self.owners:
            self.take_upto(sorted(self.owners)[which % len(self.owners)])

    def expire(self, which: int) -> None:
        if self.leases:
            lease = self.leases[which % len(self.leases)]
            tags = range(lease.first, lease.first + len(lease.run.contents))
            left = [tag for tag in tags if tag in self.owners]
            parts = self.real.expire(lease)
            assert settled(parts) == [(tag, self.owners.pop(tag)) for tag in left]
            self.forgiven |= set(left)

    def check(self) -> None:
        assert self.real.count == len(self.owners)
        assert sum(lease.live for lease in self.real.leases()) == len(self.owners)
        for tag in range(self.next_tag + 2):
            assert self.real.knows(tag) == (tag in self.owners or tag in self.forgiven)


def settled(parts: list[SettledRange[int]]) -> list[tuple[int, int]]:
    """Tags with their owners; each content is its tag, so the right messages are given back."""
    found = []
    for part in parts:
        piece = part.piece()
        assert len(piece) == part.count
        found += [(int(content), part.owner) for content in piece.contents]
    return found


@settings(max_examples=examples(200))
@given(st.lists(steps, max_size=40))
def test_unacked_is_a_dict_of_tags(requests: list[tuple[object, ...]]) -> None:
    pair = Pair()
    for name, *arguments in requests:
        getattr(pair, str(name))(*arguments)
        pair.check()


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=400))
def test_kept_leases_are_bounded_by_those_outstanding(
    deliveries: list[tuple[int, bool]],
) -> None:
    unacked: Unacked[int] = Unacked()
    tag = 1
    stuck = 0
    for count, keep in deliveries:
        contents = [b"x"] * count
        unacked.add(tag, 0, Run(ROUTE, contents, range(tag, tag + count), count))
        if keep and stuck < 20:
            stuck += 1
        else:
            unacked.take(tag, tag + count - 1)
        tag += count
        assert len(unacked._leases) <= 2 * stuck + 66
