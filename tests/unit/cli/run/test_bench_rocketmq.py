"""`headrace bench rocketmq`: what can be chosen, and what its figures mean."""

from __future__ import annotations

import pytest

from headrace.bench.compare.ratio import RatioResult
from headrace.bench.compare.rocketmq import CASES, NEEDS_PEER
from headrace.cli.main import main


def test_the_cases_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "rocketmq", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(CASES)
    assert {name for name in CASES if name.startswith("sdk-")} == NEEDS_PEER


def test_an_unknown_case_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "rocketmq", "--case", "nonsense"]) == 2
    assert "unknown case 'nonsense'; available: cpu-send-1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("first", "second", "wanted", "good"),
    [(4, 2, "<= 2", True), (5, 2, "<= 2", False), (6, 2, ">= 3", True), (5, 2, ">= 3", False),
     (5, 0, ">= 3", False)],
)  # fmt: skip
def test_a_ratio_is_judged_by_what_is_wanted(
    first: float, second: float, wanted: str, good: bool
) -> None:
    assert RatioResult("c", first, second, wanted, "u", "a").is_good is good
