"""The command line of `headrace bench`, without measuring anything."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from headrace.bench.cases import CASES
from headrace.cli.run.bench import bench


def test_list_shows_the_chosen_cases_and_measures_nothing() -> None:
    result = CliRunner().invoke(bench, ["--list", "--case", "durable"])

    listed = [line.split()[1] for line in result.output.splitlines()]
    assert listed == [case.name for case in CASES.values() if case.group == "durable"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--case", "warp"], "unknown case 'warp'"),
        (["--against", "nonsense"], "not HOST:PORT"),
        (["--no-headrace", "--no-rabbitmq"], "nothing to measure"),
        (["--rounds", "0"], "rounds"),
    ],
)
def test_wrong_usage_is_explained(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(bench, arguments)

    assert result.exit_code == 2
    assert said in result.output
