"""The x-death history: entries, counts, cycles, and headers made by clients."""

from collections.abc import Sequence

import pytest

from headrace.model.x_death import add_death, is_cycle, read_history


def die(
    history: object,
    queue: str,
    reason: str = "expired",
    *,
    exchange: str = "x",
    routing_keys: Sequence[str] = ("k",),
    time: int = 100,
    original_expiration: str | None = None,
) -> list[dict[str, object]]:
    return add_death(
        history,
        queue=queue,
        reason=reason,
        exchange=exchange,
        routing_keys=list(routing_keys),
        time=time,
        original_expiration=original_expiration,
    )


def test_the_first_death_has_every_header() -> None:
    assert die([], "q", routing_keys=["k", "cc"], original_expiration="60") == [
        {
            "count": 1,
            "reason": "expired",
            "queue": "q",
            "time": 100,
            "exchange": "x",
            "routing-keys": ["k", "cc"],
            "original-expiration": "60",
        }
    ]


def test_without_expiration_there_is_no_such_field() -> None:
    assert "original-expiration" not in die([], "q")[0]


def test_the_newest_death_is_in_front() -> None:
    history = die(die([], "a"), "b", "maxlen")

    assert [(entry["queue"], entry["reason"]) for entry in history] == [
        ("b", "maxlen"),
        ("a", "expired"),
    ]


def test_the_same_queue_and_reason_again_moves_to_the_front_and_counts() -> None:
    once = die(die([], "a"), "b")
    again = die(once, "a", exchange="other", routing_keys=["other"], time=200)

    assert [(entry["queue"], entry["count"]) for entry in again] == [("a", 2), ("b", 1)]
    assert again[0] == once[1] | {"count": 2}


def test_another_reason_of_the_same_queue_is_another_entry() -> None:
    history = die(die([], "a", "expired"), "a", "rejected")

    assert [entry["count"] for entry in history] == [1, 1]


def test_the_given_history_stays_as_it_is() -> None:
    history = die(die([], "a"), "b")
    before = [dict(entry) for entry in history]

    die(history, "a")
    assert history == before


@pytest.mark.parametrize(
    "made_up", [None, 5, "text", b"x", {}, [1, None, "q"], [{}], [{"queue": 1}]]
)
def test_a_malformed_history_counts_as_none(made_up: object) -> None:
    assert read_history(made_up) == []
    assert len(die(made_up, "q")) == 1
    assert not is_cycle(made_up, "q")


def test_good_entries_survive_among_bad_ones() -> None:
    good = {"queue": "q", "reason": "expired", "count": 3}

    assert read_history([1, good, {"queue": "q", "reason": 7}]) == [good]


@pytest.mark.parametrize("count", [None, "9", True, 0, -4, 1.5])
def test_a_malformed_count_counts_as_one(count: object) -> None:
    history = [{"queue": "q", "reason": "expired", "count": count}]

    assert die(history, "q")[0]["count"] == 2


def test_coming_back_without_a_rejection_is_a_cycle() -> None:
    history = die(die([], "a"), "b", "maxlen")

    assert is_cycle(history, "a")
    assert is_cycle(history, "b")
    assert not is_cycle(history, "c")


def test_a_rejection_on_the_way_breaks_the_cycle() -> None:
    history = die(die(die([], "a"), "b", "rejected"), "c")

    assert not is_cycle(history, "a")
    assert not is_cycle(history, "b")
    assert is_cycle(history, "c")


def test_a_rejection_before_the_cycle_does_not_break_it() -> None:
    assert is_cycle(die(die([], "a", "rejected"), "b"), "b")


def test_a_message_that_is_being_rejected_is_never_in_a_cycle() -> None:
    assert not is_cycle(die(die([], "a"), "a", "rejected"), "a")


def test_old_entries_of_one_queue_and_reason_become_one_that_counts_them() -> None:
    old = [{"queue": name, "reason": "expired"} for name in ("a", "b", "a", "a")]

    history = die(old, "q")

    assert [(entry["queue"], entry["count"]) for entry in history] == [("q", 1), ("a", 3), ("b", 1)]
    assert "count" not in old[0]
