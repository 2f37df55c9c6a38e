"""Every command has an example in its help, and the example can be parsed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click
import pytest

from headrace.cli.main import headrace
from headrace.cli.support import examples


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(click.Context(group)):
        one = group.get_command(click.Context(group), name)
        assert one is not None
        yield f"{path}{name}", one
        if isinstance(one, click.Group):
            yield from commands(one, f"{path}{name} ")


@pytest.mark.parametrize(("path", "command"), list(commands(headrace)), ids=str)
def test_help_has_an_example(path: str, command: click.Command) -> None:
    assert examples.of(path) is not None, f"add a line to {examples.__file__}"
    assert "Example:" in command.get_help(click.Context(command))


@pytest.mark.parametrize("line", examples.LINES.splitlines())
def test_an_example_can_be_parsed(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(line)[1:]
    command: click.Command = headrace
    context = click.Context(command)
    while isinstance(command, click.Group) and words and not words[0].count("://"):
        found = command.get_command(context, words.pop(0))
        assert found is not None, line
        command = found
    monkeypatch.setattr(click.Path, "convert", lambda self, value, param, ctx: value)
    monkeypatch.setattr(click.File, "convert", lambda self, value, param, ctx: value)
    command.make_context("headrace", words)
