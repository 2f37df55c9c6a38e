"""The retry policy: how often, how long, and which errors."""

from __future__ import annotations

import pytest

from headrace.retry import RetryPolicy


class Flaky:
    def __init__(self, failures: int, error: type[Exception] = OSError) -> None:
        self.calls = 0
        self._failures = failures
        self._error = error

    def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self._failures:
            raise self._error(f"attempt {self.calls}")
        return "done"


def is_os_error(error: Exception) -> bool:
    return isinstance(error, OSError)


def test_a_call_is_repeated_until_it_works() -> None:
    work, slept = Flaky(3), list[float]()
    assert RetryPolicy(attempts=5).run(work, is_os_error, slept.append) == "done"
    assert (work.calls, len(slept)) == (4, 3)


def test_the_last_error_is_raised_when_the_attempts_are_used_up() -> None:
    work = Flaky(9)
    with pytest.raises(OSError, match="attempt 3"):
        RetryPolicy(attempts=3).run(work, is_os_error, lambda pause: None)
    assert work.calls == 3


def test_errors_that_are_not_retryable_are_raised_at_once() -> None:
    work = Flaky(1, ValueError)
    with pytest.raises(ValueError, match="attempt 1"):
        RetryPolicy().run(work, is_os_error, lambda pause: None)
    assert work.calls == 1


def test_pauses_double_up_to_the_longest() -> None:
    policy = RetryPolicy(attempts=6, first_pause_s=1.0, max_pause_s=4.0, jitter=0.0)
    assert list(policy.pauses()) == [1.0, 2.0, 4.0, 4.0, 4.0]


def test_jitter_only_shortens_pauses() -> None:
    policy = RetryPolicy(attempts=200, first_pause_s=1.0, max_pause_s=1.0, jitter=0.5)
    assert all(0.5 <= pause <= 1.0 for pause in policy.pauses())


def test_no_pause_reaches_beyond_the_deadline() -> None:
    policy = RetryPolicy(deadline_s=0.5, first_pause_s=1.0, jitter=0.0)
    assert list(policy.pauses()) == []
