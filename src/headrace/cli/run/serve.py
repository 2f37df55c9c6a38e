"""`headrace serve`: run a broker in the foreground. Its flags are the settings of config.py."""

from __future__ import annotations

import os
from pathlib import Path

import click

from headrace import config

_EPILOG = (
    "Every flag is also a key of the --config file (TOML) and an environment variable "
    f"{config.ENV_PREFIX}*; "
    "flags override variables, variables override the file."
)


def _run(config_file: str | None, **flags: object) -> int:
    flags = {name: None if value == () else value for name, value in flags.items()}
    chosen = config_file or os.environ.get(config.ENV_PREFIX + "CONFIG")
    settings = config.load(Path(chosen) if chosen else None, environ=os.environ, flags=flags)

    from headrace.server.app import run  # after the settings: a bad flag is reported at once

    return run(settings)


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
