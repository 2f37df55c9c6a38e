"""Epochs: up to where an offset means the same message as it did."""

from __future__ import annotations

import pytest

from headrace.model.log_epochs import MAX_EPOCHS, current_epoch, end_of_epoch, with_epoch

TWICE = [(1000, 50), (2000, 80)]


@pytest.mark.parametrize(
    ("number", "end"),
    [
        (0, 50),
        (1000, 80),
        (2000, None),
        (1500, 50),  # of another copy, restored between the two
        (3000, 50),  # of another copy, restored later
    ],
)
def test_where_an_epoch_ends(number: int, end: int | None) -> None:
    assert end_of_epoch(TWICE, number) == end


def test_a_log_that_was_never_restored() -> None:
    assert current_epoch([]) == 0
    assert end_of_epoch([], 0) is None
    assert end_of_epoch([], 1000) == 0


def test_many_epochs_are_merged_from_the_oldest_on() -> None:
    epochs: list[tuple[int, int]] = []
    for number in range(1, MAX_EPOCHS + 11):
        epochs = with_epoch(epochs, number, number * 10)

    assert len(epochs) == MAX_EPOCHS
    assert current_epoch(epochs) == MAX_EPOCHS + 10
    assert end_of_epoch(epochs, 0) == 10
    assert [end_of_epoch(epochs, number) for number in (1, 5, 9)] == [10] * 3  # merged: careful
    assert end_of_epoch(epochs, 20) == 210
