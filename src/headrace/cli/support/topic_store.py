"""Options of the topic commands: a broker, or a database."""

from __future__ import annotations

import functools
import os
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click

from headrace.cli.support.broker_options import (
    PASSWORD_VARIABLE,
    URL_VARIABLE,
    explained,
    find_address,
)
from headrace.cli.support.message_output import write
from headrace.cli.support.options import file_option
from headrace.cli.support.output import escaped, escaped_body, print_json
from headrace.cli.support.sender import lines_of
from headrace.client import Connection
from headrace.errors import CommandFailed, ConfigError, NoSuchTopic
from headrace.store.topics.types import GroupInfo
from headrace.topics import Message, Store
from headrace.topics import open as open_store
from headrace.topics.remote_engine import RemoteEngine
from headrace.urls import SHAPE

STORE_VARIABLE = "HEADRACE_STORE"


def store_options(function: Callable[..., int]) -> Callable[..., int]:
    """Adds --store, --url, --vhost and --password-file; the function gets a Store as its first
    argument, which is closed after it."""

    @click.option(
        "--store",
        metavar="URL",
        help="mysql://user:password@host:port/database: without a broker. "
        f"[{STORE_VARIABLE}, where a password is safer]",
    )
    @click.option("--url", metavar="URL", help=f"A broker: {SHAPE} [{URL_VARIABLE}]")
    @click.option(
        "-p", "--vhost", metavar="NAME", help="The broker's vhost. [the path of the URL, or /]"
    )
    @file_option(
        "--password-file", text=f"Read the broker's password from FILE. [{PASSWORD_VARIABLE}]"
    )
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
                raise CommandFailed(f"{error}; `headrace topic list` lists them") from error

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
            raise ConfigError("--store: expected mysql://user:password@host:port/database")
        return open_store(store)
    address = find_address(url, password_file, os.environ, vhost)
    with explained(address):
        return Store(RemoteEngine(Connection(address)))


def confirmed(question: str, yes: bool) -> None:
    """Ask for confirmation; without a terminal --yes is required."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Not a terminal: pass --yes to confirm")
    if not click.confirm(question, err=True):
        raise CommandFailed("nothing was done")


def lines_in(file: Path | None) -> Iterator[list[bytes]]:
    """The lines of a file or of standard input, in portions."""
    if file is not None and str(file) != "-":
        try:
            with file.open("rb") as stream:
                yield from lines_of(stream)
        except OSError as error:
            reason = f"cannot read {escaped(str(file))}: {error.strerror}"
            raise ConfigError(f"--file: {reason}") from None
        return
    if file is None and sys.stdin.isatty():
        raise click.UsageError("nothing to append: give BODY, --file FILE, or --file - to type it")
    yield from lines_of(sys.stdin.buffer)


def printer(*, as_json: bool, lines: bool) -> Callable[[Iterable[Message]], None]:
    """How messages are written."""
    if as_json and lines:
        raise click.UsageError("choose one of --json and --lines")
    if as_json:
        return _print_json
    return _print_bodies if lines else _print_fields


def _print_json(messages: Iterable[Message]) -> None:
    for one in messages:
        document: dict[str, object] = {
            "id": one.id,
            "priority": one.priority,
            "created_at": one.created_at.isoformat(),
            "token": one.token,
            "ref_key": one.ref_key,
            "tags": one.tags,
            "source_ip": one.source_ip,
            "attempts": one.attempts,
            "properties": dict(one.properties),
        }
        try:
            document["body"] = one.body.decode()
        except UnicodeDecodeError:
            document["body_base64"] = b64encode(one.body).decode()
        print_json(document)


def _print_bodies(messages: Iterable[Message]) -> None:
    write(one.body + b"\n" for one in messages)


def _print_fields(messages: Iterable[Message]) -> None:
    """Priority, id, key, body; tabs between."""
    lines = []
    for one in messages:
        start = (one.priority, str(one.id), escaped(one.ref_key or ""))
        lines.append("\t".join((*start, escaped_body(one.body))) + "\n")
    write(line.encode("utf-8", "replace") for line in lines)


def fields_of(group: GroupInfo) -> dict[str, object]:
    """A group or single consumer as a row."""
    counts = ("messages", "claimed", "retrying", "dead")
    return {
        "group": group.group,
        "token": group.token,
        "members": list(group.members),
        **{name: sum(getattr(lag, name) for lag in group.lag) for name in counts},
    }
