"""The `headrace` command: finds the subcommand, turns errors into one line and an exit code.

Exit codes: 0 done, 1 failed, 2 usage. Subcommands are imported when they are called, so that
`headrace serve` never pays for what only `headrace bench` needs.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from headrace import __version__
from headrace.cli.support import examples
from headrace.cli.support.output import DONE, FAILED, USAGE, escaped
from headrace.errors import BrokerError, ConfigError

# The subcommands, in the order of the help. Each is the click command of that name in
# headrace.cli.<module>.
COMMANDS = {
    "serve": "run.serve",
    "demo": "run.demo",
    "top": "inspect.top",
    "doctor": "inspect.doctor",
    "explain": "inspect.explain",
    "migrate": "inspect.migrate",
    "publish": "messages.publish",
    "consume": "messages.consume",
    "get": "messages.consume",
    "purge": "messages.consume",
    "export": "messages.export",
    "queue": "manage.topology",
    "exchange": "manage.topology",
    "binding": "manage.topology",
    "topic": "topics.topic",
    "group": "topics.group",
    "pin": "topics.pin",
    "vhost": "manage.access",
    "user": "manage.access",
    "permission": "manage.access",
    "policy": "manage.policy",
    "connection": "manage.connection",
    "definitions": "manage.definitions",
    "pipeline": "spark.pipeline",
    "archive": "spark.archive",
    "sql": "spark.sql",
    "replay": "spark.replay",
    "report": "spark.report",
    "bench": "run.bench",
    "verify": "run.verify",
    "fsck": "storage.data_directory",
    "compact": "storage.data_directory",
    "backup": "storage.data_directory",
    "restore": "storage.data_directory",
    "share": "storage.share",
    "node": "storage.share",
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            guess = "" if args[0].startswith("-") else _meant(args[0])
            if not guess:
                raise
            raise click.UsageError(f"{error.message} {guess}", ctx) from None

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            if "_" not in cmd_name:
                return None
            from headrace.cli import rabbitmqctl

            return rabbitmqctl.find(cmd_name)
        command = getattr(import_module(f"headrace.cli.{COMMANDS[cmd_name]}"), cmd_name)
        assert isinstance(command, click.Command)
        examples.add(command, cmd_name)
        return command


def _meant(word: str) -> str:
    """Suggest a command for a misspelt one; click cannot suggest commands that are not imported."""
    from difflib import get_close_matches

    from headrace.cli import rabbitmqctl

    close = get_close_matches(word, (*COMMANDS, *rabbitmqctl.VERBS, *rabbitmqctl.OWN), n=1)
    return f"Did you mean '{close[0]}'?" if close else ""


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="rabbitmqctl's verbs are understood too: list_queues, add_user, set_permissions, ...",
)
@click.version_option(__version__, prog_name="headrace", message="%(prog)s %(version)s")
def headrace() -> None:
    """A message broker that RabbitMQ clients use unchanged."""


def main(args: Sequence[str] | None = None) -> int:
    """Run one command line (default: that of the process) and return the exit code."""
    if args is None:
        args = hide_passwords()
    try:
        result = headrace.main(args, prog_name="headrace", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return _fail("interrupted", FAILED)
    except ConfigError as error:
        return _fail(str(error), USAGE)
    except BrokerError as error:
        return _fail(str(error), FAILED)
    except BrokenPipeError:
        return _reader_left()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise  # a bug
        return _fail(f"the output could not be written: {error.strerror}", FAILED)
    return result if isinstance(result, int) else DONE


def _reader_left() -> int:
    """The reader closed our output (`headrace consume ... | head`): exit without an error."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the last flush
    return FAILED


def _fail(reason: str, code: int) -> int:
    click.echo(f"headrace: {_one_line(reason)}", err=True)
    return code


def _one_line(text: str) -> str:
    """Errors may quote names from outside: control characters in them are escaped."""
    joined = " ".join(text.split())
    return joined if joined.isprintable() else escaped(joined)


VARIABLE = "HEADRACE_HIDDEN_COMMAND_LINE"
_PASSWORD = re.compile(r"(://[^/@:\s]*:)[^@\s]+(?=@)")


def shown(words: Sequence[str]) -> list[str]:
    """The arguments of a command line with stars for passwords."""
    return [_PASSWORD.sub(r"\1***", word) for word in words]


def hide_passwords() -> list[str] | None:
    """The arguments, when they were passed in the environment; None: use sys.argv.

    Does not return if it restarts the process.
    """
    given = os.environ.pop(VARIABLE, None)
    if given is not None:
        words: list[str] = json.loads(given)
        return words
    said = sys.argv[1:]
    hidden = shown(said)
    before = sys.orig_argv[: len(sys.orig_argv) - len(said)]
    if hidden == said or not sys.executable or sys.orig_argv != [*before, *said]:
        return None
    with contextlib.suppress(OSError):  # it is a precaution: without it the command still works
        os.execve(sys.executable, [*before, *hidden], {**os.environ, VARIABLE: json.dumps(said)})
    return None
