"""`headrace bench client` and `topics`: what can be chosen, what figures mean, that cases run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.bench.compare import topics
from headrace.bench.compare.client import CASES
from headrace.bench.compare.ratio import RatioResult
from headrace.cli.main import main
from headrace.cli.run.bench_compare import RatioRun


@pytest.mark.parametrize(("command", "cases"), [("client", CASES), ("topics", topics.CASES)])
def test_the_cases_are_listed(
    command: str, cases: Mapping[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", command, "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(cases)
    assert not any("partial" in line for line in lines)


def test_an_unknown_case_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "client", "--case", "nonsense"]) == 2
    assert "unknown case 'nonsense'; available: publish, consume" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ours", "pika", "wanted", "good"),
    [
        (50, 10, ">= 5", True),
        (49, 10, ">= 5", False),
        (1, 10, "shown", True),
        (5, 0, ">= 4", False),
    ],
)
def test_a_ratio_is_judged_by_what_is_wanted(
    ours: float, pika: float, wanted: str, good: bool
) -> None:
    assert RatioResult("c", ours, pika, wanted, "u", "a").is_good is good


def test_figures_are_printed_for_a_page_of_documentation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = RatioResult("append-1", 5550.4, 5000, ">= 0.75", "messages/s", "by 1 / INSERT")
    given = RatioRun((), 1.0, None, list_only=False, as_markdown=True)
    assert given.judge([one], {"a": "ours", "b": "other"}, "what") == 0
    assert capsys.readouterr().out.splitlines() == [
        "| case | ours | other | unit | ratio | wanted | what |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| append-1 | 5,550 | 5,000 | messages/s | 1.11 | >= 0.75 | by 1 / INSERT |",
    ]


def test_every_case_measures_both_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short run: what the figures are worth is for a longer one to say."""
    monkeypatch.setattr("headrace.bench.compare.client.ROUNDS", 1)
    file = tmp_path / "figures.json"
    main(["bench", "client", "--seconds", "0.2", "--dir", str(tmp_path), "--json", str(file)])

    rows = json.loads(file.read_text())
    assert [row["case"] for row in rows] == list(CASES)
    assert all(row["ours"] > 0 and row["pika"] > 0 for row in rows)
    assert {row["case"]: row["wanted"] for row in rows if row["wanted"] != "shown"} == {
        "publish": ">= 5",
        "consume": ">= 4",
    }
    assert list(tmp_path.iterdir()) == [file]  # the broker's directory is gone
