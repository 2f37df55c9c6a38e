"""The `headrace` command: finds the subcommand, turns errors into one line and an exit code.

Exit codes: 0 done, 1 failed, 2 usage. Subcommands are imported when they are called, so that
`headrace serve` never pays for what only `headrace bench` needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import click

from headrace import __version__
from headrace.errors import BrokerError, ConfigError

DONE, FAILED, USAGE = 0, 1, 2

# The subcommands, in the order of the help. Each is the click command of that name in
# headrace.cli.<name>.
COMMANDS = ("serve", "demo", "bench", "verify", "fsck", "compact", "backup", "restore")


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(f"headrace.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="headrace", message="%(prog)s %(version)s")
def headrace() -> None:
    """A message broker that RabbitMQ clients use unchanged."""


def main(args: Sequence[str] | None = None) -> int:
    """Run one command line (default: that of the process) and return the exit code."""
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
    return result if isinstance(result, int) else DONE


def _fail(reason: str, code: int) -> int:
    click.echo(f"headrace: {' '.join(reason.split())}", err=True)
    return code
