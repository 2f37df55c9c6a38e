"""`headrace explain` and the table behind it."""

from __future__ import annotations

import pytest

from headrace import errors
from headrace.cli.inspect.explain import ADVICE
from headrace.cli.main import main


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["406"], "exists with other attributes"),
        (["not_found"], "declare it first"),
        (["NotAllowed"], "unknown vhost"),
        (['(406, "PRECONDITION_FAILED - unknown delivery tag 3")'], "acknowledge each delivery"),
        (["320"], "closes the connection"),
    ],
)
def test_explains(words: list[str], part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *words]) == 0
    printed = capsys.readouterr().out
    assert part in printed
    assert "](" not in printed  # links are written out


def test_an_unknown_code_lists_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "999"]) == 1
    assert "406" in capsys.readouterr().err


def test_every_reported_error_has_advice() -> None:
    kinds = (errors.ChannelError, errors.FatalError)
    reported = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, kinds) and value not in kinds
    }
    assert reported == set(ADVICE)
