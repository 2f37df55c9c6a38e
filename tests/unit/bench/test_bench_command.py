"""The command line of `headrace bench`, without measuring anything."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from headrace.bench.cases import CASES
from headrace.bench.target import AmqpAddress
from headrace.cli.run.bench import _address, bench


def test_list_shows_the_chosen_cases_and_measures_nothing() -> None:
    result = CliRunner().invoke(bench, ["--list", "--case", "durable"])

    listed = [line.split()[1] for line in result.output.splitlines()]
    assert listed == [case.name for case in CASES.values() if case.group == "durable"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--case", "warp"], "unknown case 'warp'"),
        (["--against", "nonsense"], "expected HOST:PORT"),
        (["--against", "host:port"], "expected HOST:PORT"),
        (["amqps://host"], "expected amqp://"),
        (["--no-headrace", "--no-rabbitmq"], "nothing to measure"),
        (["--rounds", "0"], "rounds"),
    ],
)
def test_wrong_usage_is_explained(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(bench, arguments)

    assert result.exit_code == 2
    assert said in result.output


def test_a_first_word_with_a_scheme_is_the_address() -> None:
    address = _address("amqp://ada:s%2Fx@broker.example/shop")
    assert address == AmqpAddress("broker.example", 5672, "ada", "s/x", "shop")
    result = CliRunner().invoke(bench, ["amqp://127.0.0.1:1/", "--list", "--case", "latency"])
    assert result.exit_code == 0
    assert "latency" in result.output
