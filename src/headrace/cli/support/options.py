"""Kinds of options that many commands have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])


def flag(name: str, text: str) -> Callable[[Command], Command]:
    return click.option(name, is_flag=True, help=text)


def file_option(*names: str, text: str) -> Callable[[Command], Command]:
    """The path of a file, which need not exist."""
    return click.option(*names, metavar="FILE", type=click.Path(path_type=Path), help=text)


def number_option(
    name: str, default: float, least: float, text: str
) -> Callable[[Command], Command]:
    """A number, whole if its default is; the default is shown."""
    is_whole = isinstance(default, int)
    kind = click.IntRange(int(least)) if is_whole else click.FloatRange(least)
    return click.option(name, default=default, type=kind, show_default=True, help=text)


def repeatable(name: str, parameter: str, metavar: str, text: str) -> Callable[[Command], Command]:
    return click.option(name, parameter, multiple=True, metavar=metavar, help=text)


yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
