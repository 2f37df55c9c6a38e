"""Backlogs: what is merged, what is kept apart, and where requeued messages go."""

from __future__ import annotations

import pytest

from headrace.model.backlog import Backlog, PriorityBacklog, merge
from headrace.model.message import Route, Run

ROUTE, OTHER = Route("e", "key"), Route("e", "other")


def run_of(
    offsets: range | list[int],
    *,
    route: Route = ROUTE,
    channel_number: int = 1,
    persistent: bool = False,
    expires: int | None = None,
    priority: int = 0,
) -> Run:
    contents = [b"%d" % offset for offset in offsets]
    return Run(
        route,
        contents,
        offsets,
        sum(map(len, contents)),
        channel_number=channel_number,
        persistent=persistent,
        expires=expires,
        priority=priority,
    )


def offsets(backlog: Backlog | PriorityBacklog) -> list[int]:
    return [offset for run in backlog.runs() for offset in run.offsets[run.start :]]


def test_small_publishes_grow_one_run() -> None:
    backlog = Backlog()
    for offset in range(100):
        backlog.append(run_of(range(offset, offset + 1)))

    assert len(list(backlog.runs())) == 1
    assert offsets(backlog) == list(range(100))


def test_a_run_has_a_maximum_length() -> None:
    backlog = Backlog()
    for offset in range(1000):
        backlog.append(run_of(range(offset, offset + 1)))

    assert max(len(run) for run in backlog.runs()) <= 256 + 31
    assert backlog.count == 1000


@pytest.mark.parametrize(
    "different", [{"route": OTHER}, {"channel_number": 2}, {"persistent": True}, {"expires": 5}]
)
def test_unlike_messages_stay_apart(different: dict[str, object]) -> None:
    backlog = Backlog()
    backlog.append(run_of(range(0, 1)))
    backlog.append(run_of(range(1, 2), **different))  # type: ignore[arg-type]

    assert len(list(backlog.runs())) == 2


@pytest.mark.parametrize(("first", "second"), [([0, 2], [3]), ([0], [1, 3]), ([0, 1], [2])])
def test_growing_keeps_every_number(first: list[int], second: list[int]) -> None:
    """Messages of one priority do not follow each other without gaps."""
    backlog = Backlog()
    backlog.append(run_of(first))
    backlog.append(run_of(second))

    assert offsets(backlog) == first + second
    assert [len(run.offsets) for run in backlog.runs()] == [
        len(run.contents) for run in backlog.runs()
    ]


def test_growing_leaves_the_publishers_list_alone() -> None:
    backlog = Backlog()
    first = run_of(range(0, 1))
    published = first.contents
    backlog.append(first)
    backlog.append(run_of(range(1, 2)))

    assert published == [b"0"]


def test_a_delivered_run_does_not_grow_any_more() -> None:
    backlog = Backlog()
    backlog.append(run_of(range(0, 2)))
    taken = backlog.take(10)
    backlog.append(run_of(range(2, 3)))

    assert list(taken.offsets) == [0, 1]
    assert offsets(backlog) == [2]


def test_taking_ends_at_the_end_of_a_run() -> None:
    backlog = Backlog()
    backlog.append(run_of(range(0, 40)))
    backlog.append(run_of(range(40, 80)))

    assert [len(backlog.take(30)) for _ in range(4)] == [30, 10, 30, 10]
    assert (backlog.count, backlog.size) == (0, 0)


def test_a_taken_run_starts_at_its_first_message() -> None:
    backlog = Backlog()
    backlog.append(run_of(range(0, 5)))
    backlog.take(2)

    rest = backlog.take(10)

    assert (rest.start, rest.contents, list(rest.offsets)) == (0, [b"2", b"3", b"4"], [2, 3, 4])


def test_interleaved_runs_are_cut_into_order() -> None:
    runs = [run_of([0, 3, 6]), run_of([1, 4, 7]), run_of([2, 5]), run_of([20, 21])]

    merged = merge(runs)

    assert [offset for run in merged for offset in run.offsets] == [*range(8), 20, 21]
    assert [list(run.offsets) for run in merged][-1] == [20, 21]


def test_requeued_messages_come_before_the_ready_ones() -> None:
    backlog = Backlog()
    backlog.append(run_of(range(0, 6)))
    first, second = backlog.take(2), backlog.take(2)

    backlog.requeue([second])
    assert offsets(backlog) == [2, 3, 4, 5]
    backlog.requeue([first])
    assert offsets(backlog) == [0, 1, 2, 3, 4, 5]


def test_putting_back_nothing_changes_nothing() -> None:
    backlog = Backlog()
    backlog.requeue([])

    assert (backlog.count, backlog.head()) == (0, None)


def test_only_the_head_expires() -> None:
    backlog = Backlog()
    backlog.append(run_of(range(0, 2), expires=10))
    backlog.append(run_of(range(2, 3)))
    backlog.append(run_of(range(3, 4), expires=5))
    assert backlog.next_expiry() == 10

    assert backlog.take_expired(9) == []
    assert [list(run.offsets) for run in backlog.take_expired(10)] == [[0, 1]]
    assert backlog.next_expiry() is None
    assert backlog.take_expired(100) == []
    assert offsets(backlog) == [2, 3]


def test_clearing_gives_everything_back_in_order() -> None:
    backlog = Backlog()
    backlog.append(run_of(range(0, 3)))
    taken = backlog.take(1)
    backlog.requeue([taken])

    assert [list(run.offsets[run.start :]) for run in backlog.clear()] == [[0], [1, 2]]
    assert (backlog.count, backlog.size, list(backlog.runs())) == (0, 0, [])


def test_priorities_above_the_highest_count_as_the_highest() -> None:
    backlog = PriorityBacklog(2)
    for offset, priority in enumerate((0, 255, 2, 1)):
        backlog.append(run_of(range(offset, offset + 1), priority=priority))

    assert offsets(backlog) == [1, 2, 3, 0]
    head = backlog.head()
    assert head is not None
    assert list(head.offsets) == [1, 2]


def test_the_next_expiry_is_that_of_any_level() -> None:
    backlog = PriorityBacklog(1)
    backlog.append(run_of(range(0, 1), priority=1, expires=20))
    backlog.append(run_of(range(1, 2), priority=0, expires=10))

    assert backlog.next_expiry() == 10
    assert [list(run.offsets) for run in backlog.take_expired(10)] == [[1]]
    assert (backlog.count, backlog.next_expiry()) == (1, 20)


def test_an_empty_priority_backlog_has_no_head() -> None:
    backlog = PriorityBacklog(3)

    assert (backlog.head(), backlog.next_expiry(), backlog.clear()) == (None, None, [])
