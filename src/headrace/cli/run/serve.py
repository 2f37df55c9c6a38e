"""`headrace serve`: run a broker in the foreground. Its flags are the settings of config.py."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

import click

from headrace import config
from headrace.errors import ConfigError

_EPILOG = (
    "Every flag is also a key of the --config file (TOML) and an environment variable "
    f"{config.ENV_PREFIX}*; "
    "flags override variables, variables override the file."
)


def _run(config_file: str | None, **flags: object) -> int:
    flags = {name: None if value == () else value for name, value in flags.items()}
    chosen = config_file or os.environ.get(config.ENV_PREFIX + "CONFIG")
    settings = config.load(Path(chosen) if chosen else None, environ=os.environ, flags=flags)

    try:  # after the settings: a bad flag is reported at once
        from headrace.server.app import run

        notes = limitations()
    except ModuleNotFoundError as error:
        raise ConfigError(f"cannot start: the package '{error.name}' is not installed") from None
    for line in notes:
        click.echo(f"note: {line}", err=True)
    return run(settings)


def limitations() -> list[str]:
    """What does not work on this machine, and what to install."""
    from headrace.server.http.page import DIST

    found = []
    if not (DIST / "index.html").exists():
        found.append("no management page: install Node.js 18 or newer and run `make console`")
    if find_spec("pyarrow") is None or find_spec("numpy") is None:
        found.append("Spark cannot read from this broker: pip install 'headrace[spark]'")
    elif shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        found.append(
            "no Java, so no pipelines, archive, sql, replay: install openjdk-17-jre-headless"
        )
    return found


def _flag(option: config.Option) -> click.Option:
    # Values stay text here: config.load reads those of all sources, with the same messages.
    help_text = f"{option.help} [{option.default_text}]"
    if option.is_switch:
        on = str(option.flag)
        return click.Option([f"{on}/--no-{on[2:]}"], default=None, help=help_text)
    if option.is_list:
        return click.Option(
            [str(option.flag)], metavar=option.kind.metavar, help=help_text, multiple=True
        )
    return click.Option([str(option.flag)], metavar=option.kind.metavar, help=help_text)


def _flags() -> list[click.Parameter]:
    file = click.Option(
        ["--config", "config_file"], metavar="FILE", help="TOML file with settings. [not set]"
    )
    return [file, *(_flag(option) for option in config.options().values() if option.flag)]


serve = click.Command(
    "serve",
    callback=_run,
    params=_flags(),
    help="Run the broker until SIGTERM or Ctrl-C.",
    epilog=_EPILOG,
)
