"""What commands about topics have in common: where the topics are, in a database or a broker."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from dataclasses import astuple, replace
from pathlib import Path

import click

from headrace.cli.support.address import PASSWORD_VARIABLE, SHAPE, URL_VARIABLE, find_address
from headrace.cli.support.broker_options import explain
from headrace.client import ConnectionFactory, HeadraceError
from headrace.errors import CommandFailed, ConfigError, NoSuchTopic
from headrace.topics import Store
from headrace.topics import open as open_store
from headrace.topics.remote_engine import RemoteEngine

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
        "-p", "--vhost", metavar="NAME", help="The broker's vhost. [the path of the URL, or /]"
    ),
    click.option(
        "--password-file",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help=f"Read the broker's password from FILE. [{PASSWORD_VARIABLE}]",
    ),
)


def store_options(function: Callable[..., int]) -> Callable[..., int]:
    """Adds --store, --url, --vhost and --password-file; the function gets a Store as its first
    argument, which is closed after it."""

    @functools.wraps(function)
    def with_store(
        store: str | None,
        url: str | None,
        vhost: str | None,
        password_file: Path | None,
        **rest: object,
    ) -> int:
        with _open(store, url, vhost, password_file) as opened:
            try:
                return function(opened, **rest)
            except NoSuchTopic as error:
                raise CommandFailed(
                    f"{error}; `headrace topic list` shows those there are"
                ) from error

    for option in reversed(_OPTIONS):
        with_store = option(with_store)
    return with_store


def _open(
    store: str | None, url: str | None, vhost: str | None, password_file: Path | None
) -> Store:
    if store is not None and (url is not None or vhost is not None):
        raise click.UsageError("choose one of --store and --url (with --vhost)")
    if store is None and url is None and vhost is None:
        store = os.environ.get(STORE_VARIABLE) or None
    if store is not None:
        if not store.startswith("mysql:"):
            raise ConfigError("--store: wanted mysql://user:password@host:port/database")
        return open_store(store)
    address = find_address(url, password_file, os.environ)
    if vhost is not None:
        address = replace(address, vhost=vhost)
    try:
        connection = ConnectionFactory(*astuple(address)).new_connection()
    except HeadraceError as error:
        raise CommandFailed(explain(error, address)) from error
    return Store(RemoteEngine(connection))


def confirmed(question: str, yes: bool) -> None:
    """Ask before something that cannot be undone; without a terminal --yes is needed."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Say --yes to do it without being asked")
    if not click.confirm(question, err=True):
        raise CommandFailed("nothing was done")
