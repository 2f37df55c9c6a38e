"""Options and connection of commands that talk to a broker; errors with advice."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click

from headrace.cli.support.options import Command, file_option
from headrace.cli.support.output import escaped
from headrace.client import (
    Channel,
    Connection,
    ConnectionClosed,
    HeadraceError,
    LoginRefused,
    NotAllowed,
    NotFound,
    PreconditionFailed,
    RequestTimeout,
)
from headrace.client.errors import ProtocolViolation
from headrace.client.settings import Settings
from headrace.errors import CommandFailed, ConfigError
from headrace.urls import SHAPE, BrokerUrl, parse_broker_url

durable_option = click.option(
    "--durable/--transient", default=True, help="Whether it survives a restart. [durable]"
)


URL_VARIABLE = "HEADRACE_URL"
PASSWORD_VARIABLE = "HEADRACE_PASSWORD"
password_option = file_option(
    "--password-file", text=f"Read the password from FILE. [{PASSWORD_VARIABLE}]"
)


def url_option(shape: str, variable: str) -> Callable[[Command], Command]:
    text = f"{shape} [{variable}, or guest on this machine]"
    return click.option("--url", metavar="URL", help=text)


def broker_options(function: Callable[..., int]) -> Callable[..., int]:
    """Adds --url, --vhost and --password-file; the function gets `Settings` first."""

    @url_option(SHAPE, URL_VARIABLE)
    @password_option
    @click.option("-p", "--vhost", metavar="NAME", help="The vhost. [the path of the URL, or /]")
    @functools.wraps(function)
    def with_address(
        url: str | None, password_file: Path | None, vhost: str | None, **rest: object
    ) -> int:
        return function(find_address(url, password_file, os.environ, vhost), **rest)

    return with_address


@contextmanager
def connected(address: Settings, *, reconnect: bool = False) -> Iterator[Channel]:
    """A channel to the broker. Errors of the client become CommandFailed, with advice."""
    chosen = replace(address, reconnect=reconnect)
    try:
        with explained(address), Connection(chosen) as connection:
            yield connection.create_channel()
    except UnicodeEncodeError:
        raise ConfigError("a name, key or property is not valid UTF-8") from None


@contextmanager
def explained(address: Settings) -> Iterator[None]:
    """Errors of the client become CommandFailed, with advice."""
    try:
        yield
    except HeadraceError as error:
        raise CommandFailed(explain(error, address)) from error


def _other_reasons(address: Settings) -> str:
    """Other reasons to refuse a correct password; the broker's log has the real one."""
    locked = "a user is locked out for a while after several wrong passwords"
    if address.user == "guest":
        return f"guest may log in from the broker's own machine only, and {locked}"
    return locked


def explain(error: HeadraceError, address: Settings) -> str:
    """What happened and what to do, in one line."""
    text, where = error.text, escaped(address.where)
    if isinstance(error, LoginRefused):
        return (
            f"the broker at {where} refused user '{address.user}': check name and password "
            f"(--url, --password-file, {PASSWORD_VARIABLE}); {_other_reasons(address)}"
        )
    if isinstance(error, ConnectionClosed) and text.startswith("cannot connect"):
        reason = text.rpartition(": ")[2]
        return (
            f"no broker at {where} ({reason}): start one with `headrace serve`, "
            f"or choose another with --url or {URL_VARIABLE}"
        )
    if isinstance(error, RequestTimeout):
        return (
            f"{where}: {text}, so the outcome is unknown; see the broker's log: "
            "an alarm blocks publishers. Or it is not a native port (default 9090)"
        )
    if isinstance(error, ConnectionClosed | ProtocolViolation):
        return (
            f"{where}: {text}; unconfirmed messages may or may not have been stored. If "
            "this happens at once, it may not be a native port (default 9090)"
        )
    return text + _advice(error)


def _advice(error: HeadraceError) -> str:
    if isinstance(error, NotFound):
        for kind in ("queue", "exchange", "binding"):
            if f"no {kind}" in error.text or f"no such {kind}" in error.text:
                return f"; `headrace {kind} list` lists them"
    if isinstance(error, NotAllowed) and "vhost" in error.text:
        return "; the vhost is the path of the URL, by default /"
    if "invalid exchange type" in error.text:
        return "; allowed: direct, fanout, topic, headers, x-delayed-message"
    if isinstance(error, PreconditionFailed) and "inequivalent" in error.text:
        return (
            "; it exists with other attributes: delete it first, or declare it with the same ones"
        )
    return ""


def find_address(
    url: str | None,
    password_file: Path | None,
    environ: Mapping[str, str],
    vhost: str | None = None,
) -> Settings:
    """The address from flags and environment; ConfigError if it is not valid.

    The password comes from the first of: the file, the URL, HEADRACE_PASSWORD, `guest`.
    """
    source = "--url"
    if url is None:
        url, source = environ.get(URL_VARIABLE), URL_VARIABLE
    found = _parsed(url, source) if url else BrokerUrl()
    if password_file is not None:
        password = read_secret(password_file, "--password-file")
    elif found.password is not None:
        password = found.password
    else:
        password = environ.get(PASSWORD_VARIABLE, "guest")
    chosen = found.vhost if vhost is None else vhost
    return Settings(found.host, found.port, found.user, password, chosen)


def _parsed(url: str, source: str) -> BrokerUrl:
    try:
        found = parse_broker_url(url)
    except ValueError as error:
        raise ConfigError(f"{source}: {error}") from None
    if found.tls:
        raise ConfigError(f"{source}: commands connect without TLS; expected {SHAPE}")
    return found


def read_secret(file: Path, flag: str) -> str:
    """The text of a file without the end of its line; `-` is a line of standard input."""
    try:
        text = sys.stdin.readline() if str(file) == "-" else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{flag}: cannot read {escaped(str(file))}: {reason}") from None
    return text.rstrip("\r\n")
