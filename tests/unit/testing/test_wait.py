"""Patience: what wait_for returns, and what it says when it gives up."""

from __future__ import annotations

import pytest

from headrace.testing import wait_for


def test_first_true_value_is_returned() -> None:
    values = iter([0, "", None, "there", "too late"])

    assert wait_for(lambda: next(values), interval=0) == "there"


def test_condition_that_is_true_at_once_is_asked_once() -> None:
    values = iter([1])

    assert wait_for(lambda: next(values), timeout=0) == 1


def test_the_condition_is_checked_once_more_at_the_deadline() -> None:
    values = iter([False, True])

    assert wait_for(lambda: next(values), timeout=0) is True


def test_a_timeout_reports_the_message_and_the_last_value() -> None:
    with pytest.raises(AssertionError, match=r"^no order: still \[\] after 0 s$"):
        wait_for(list, timeout=0, message="no order")


def test_a_timeout_without_a_message_reports_the_name_of_the_condition() -> None:
    def order_is_there() -> bool:
        return False

    with pytest.raises(AssertionError, match=r"^order_is_there: still False after 0 s$"):
        wait_for(order_is_there, timeout=0)


def test_error_of_the_condition_is_passed_on() -> None:
    with pytest.raises(ZeroDivisionError):
        wait_for(lambda: 1 // 0)
