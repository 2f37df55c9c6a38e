"""What commands about topics have in common: where the topics are, in a database or a broker."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path

import click

from headrace.cli.address import PASSWORD_VARIABLE, SHAPE, URL_VARIABLE, find_address
from headrace.cli.connecting import explain
from headrace.client import ConnectionFactory, HeadraceError
from headrace.errors import CommandFailed, ConfigError
from headrace.topics import Store
from headrace.topics import open as open_store
from headrace.topics.remote import RemoteEngine

STORE_VARIABLE = "HEADRACE_STORE"
_OPTIONS = (
    click.option(
        "--store",
        metavar="URL",
        help="mysql://user:password@host:port/database: without a broker. "
        f"[{STORE_VARIABLE}, where a password is safer]",
    ),
    click.option("--url", metavar="URL", help=f"A broker: {SHAPE} [{URL_VARIABLE}]"),
    click.option(
        "--password-file",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help=f"Read the broker's password from FILE. [{PASSWORD_VARIABLE}]",
    ),
)


def store_options(function: Callable[..., int]) -> Callable[..., int]:
    """Adds --store, --url and --password-file; the function gets a Store as its first argument,
    which is closed after it."""

    @functools.wraps(function)
    def with_store(
        store: str | None, url: str | None, password_file: Path | None, **rest: object
    ) -> int:
        with _open(store, url, password_file) as opened:
            return function(opened, **rest)

    for option in reversed(_OPTIONS):
        with_store = option(with_store)
    return with_store


def _open(store: str | None, url: str | None, password_file: Path | None) -> Store:
    if store is not None and url is not None:
        raise click.UsageError("choose one of --store and --url")
    if store is None and url is None:
        store = os.environ.get(STORE_VARIABLE) or None
    if store is not None:
        if not store.startswith("mysql:"):
            raise ConfigError("--store: wanted mysql://user:password@host:port/database")
        return open_store(store)
    address = find_address(url, password_file, os.environ)
    try:
        connection = ConnectionFactory(
            address.host, address.port, address.user, address.password, address.vhost
        ).new_connection()
    except HeadraceError as error:
        raise CommandFailed(explain(error, address)) from error
    return Store(RemoteEngine(connection))


def confirmed(question: str, yes: bool) -> None:
    """Ask before something that cannot be undone; without a terminal --yes is needed."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Say --yes to do it without being asked")
    click.confirm(question, abort=True)
