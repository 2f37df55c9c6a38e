"""The command line as a whole: help, version, exit codes, one line per error."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import click
import pytest

from headrace import __version__
from headrace.cli import main as cli
from headrace.cli import rabbitmqctl
from headrace.errors import BrokerError, ConfigError, NotFound

Install = Callable[[object], None]


@pytest.fixture
def command_that(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a subcommand `probe` that raises or returns what it is given."""

    def install(outcome: object) -> None:
        @click.command()
        def probe() -> object:
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        module = ModuleType("headrace.cli.probe")
        module.probe = probe  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(cli, "COMMANDS", {"probe": "probe"})

    return install


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"headrace {__version__}\n"


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_exists_and_explains_itself(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([name, "--help"]) == 0
    assert f"Usage: headrace {name}" in capsys.readouterr().out


def every_command() -> Iterator[tuple[list[str], click.Command]]:
    for name in cli.COMMANDS:
        command = cli.headrace.get_command(click.Context(cli.headrace), name)
        assert command is not None
        yield [name], command
        if isinstance(command, click.Group):
            yield from (([name, part], one) for part, one in command.commands.items())


def test_every_help_has_an_example_of_that_very_command(capsys: pytest.CaptureFixture[str]) -> None:
    for path, _ in every_command():
        assert cli.main([*path, "--help"]) == 0
        text = " ".join(capsys.readouterr().out.split()) + " "
        assert f"Example: headrace {' '.join(path)} " in text, path


def test_lists_of_commands_are_not_cut_off(capsys: pytest.CaptureFixture[str]) -> None:
    """Each line of `Commands:` is the whole first sentence, in a terminal of 80 columns."""
    groups = [path for path, one in every_command() if isinstance(one, click.Group)]
    for path in [[], *groups]:
        assert cli.main([*path, "--help"]) == 0
        listed = capsys.readouterr().out.partition("Commands:")[2].partition("\n\n")[0]
        assert [line for line in listed.splitlines() if line.endswith("...")] == []


@pytest.mark.parametrize(
    ("outcome", "code", "line"),
    [
        (None, 0, ""),
        (0, 0, ""),
        (1, 1, ""),
        (ConfigError("amqp_port: is not a port"), 2, "headrace: amqp_port: is not a port\n"),
        (NotFound("no queue 'q'"), 1, "headrace: no queue 'q'\n"),
        (BrokerError("two\nlines"), 1, "headrace: two lines\n"),
        (KeyboardInterrupt(), 1, "headrace: interrupted\n"),
    ],
)
def test_the_outcome_decides_exit_code_and_message(
    outcome: object,
    code: int,
    line: str,
    command_that: Install,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command_that(outcome)

    assert cli.main(["probe"]) == code
    assert capsys.readouterr().err.lstrip("\n") == line


def test_a_bug_is_not_disguised_as_a_failure(command_that: Install) -> None:
    command_that(ZeroDivisionError())

    with pytest.raises(ZeroDivisionError):
        cli.main(["probe"])


@pytest.mark.parametrize("args", [[], ["nonsense"], ["--nonsense"], ["serve", "--nonsense"]])
def test_wrong_usage_exits_with_2(args: list[str], command_that: Install) -> None:
    if args == []:
        command_that(None)

    assert cli.main(args) == 2


def test_serving_imports_nothing_that_only_other_commands_need() -> None:
    script = "import sys, headrace.cli.run.serve, headrace.cli.main; print(*sys.modules)"
    path = ":".join(sys.path)

    loaded = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )

    heavy = {
        "rich",
        "asyncio",
        "uvloop",
        "tomllib",
        "headrace.cli.run.bench",
        "headrace.cli.run.demo",
    }
    assert heavy.isdisjoint(loaded.stdout.split())


@pytest.mark.parametrize("verb", [*rabbitmqctl.VERBS, *rabbitmqctl.OWN])
def test_every_verb_of_rabbitmqctl_leads_to_a_command(verb: str) -> None:
    assert isinstance(rabbitmqctl.find(verb), click.Command)
    assert cli.headrace.get_command(click.Context(cli.headrace), verb) is rabbitmqctl.find(verb)


@pytest.mark.parametrize(
    ("typed", "meant"), [("quue", "queue"), ("list_quues", "list_queues"), ("pubish", "publish")]
)
def test_a_misspelt_command_is_asked_about(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([typed]) == 2
    assert f"No such command '{typed}'. Did you mean '{meant}'?" in capsys.readouterr().err


def test_a_word_unlike_any_command_gets_no_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["xyzzy"]) == 2
    assert "Did you mean" not in capsys.readouterr().err
