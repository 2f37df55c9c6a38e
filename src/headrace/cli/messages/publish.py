"""`headrace publish`: messages from an argument, a file or standard input, each confirmed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import click

from headrace.cli.support.broker_options import broker_options, connected, explain
from headrace.cli.support.name_values import headers_of, properties_of
from headrace.cli.support.options import file_option, flag, repeatable
from headrace.cli.support.output import counted, escaped, json_option, print_result, progress_bar
from headrace.cli.support.sender import PublishTarget, Sender, lines_of, repeated
from headrace.client import HeadraceError
from headrace.client.settings import Settings
from headrace.errors import CommandFailed, ConfigError

_PERSISTENT = 2


@click.command(short_help="Publish messages, each confirmed.")
@click.argument("body", required=False)
@click.option(
    "-q", "--queue", metavar="NAME", help="To this queue; it is declared if it does not exist."
)
@click.option("-e", "--exchange", metavar="NAME", help="To this exchange. [the default exchange]")
@click.option("-k", "--key", metavar="KEY", help="Routing key. [empty]")
@file_option("-f", "--file", text="Take the body from FILE; - is standard input.")
@flag("--lines", "One message per line of the input.")
@click.option(
    "--count", type=click.IntRange(min=1), help="Publish the message this many times. [1]"
)
@flag("--persistent", "Keep it when the broker restarts.")
@click.option("--priority", type=click.IntRange(0, 255), help="For queues with x-max-priority.")
@click.option(
    "--expiration", metavar="MS", type=click.IntRange(min=0), help="Time to live in milliseconds."
)
@repeatable(
    "--property",
    "properties",
    "NAME=TEXT",
    "Another property, content_type for example; repeatable.",
)
@repeatable(
    "--header", "headers", "NAME=TEXT", "A header; NAME:=JSON for numbers and more; repeatable."
)
@flag("--no-create", "Fail if the queue does not exist.")
@flag("--unrouted-ok", "Do not fail if a message is unroutable.")
@json_option
@broker_options
def publish(
    address: Settings,
    body: str | None,
    queue: str | None,
    exchange: str | None,
    key: str | None,
    file: Path | None,
    lines: bool,
    count: int | None,
    persistent: bool,
    priority: int | None,
    expiration: int | None,
    properties: tuple[str, ...],
    headers: tuple[str, ...],
    no_create: bool,
    unrouted_ok: bool,
) -> int:
    """Publish BODY, or what --file or standard input has, and wait for the confirm.

    `headrace publish -q hello 'good morning'` is all it takes. The exit code is 0 when every
    message was confirmed and reached a queue.
    """
    destination = _destination(queue, exchange, key, create=not no_create)
    given: dict[str, object] = properties_of(properties)
    if headers:
        given["headers"] = headers_of(headers)
    if persistent:
        given["delivery_mode"] = _PERSISTENT
    if priority is not None:
        given["priority"] = priority
    if expiration is not None:
        given["expiration"] = str(expiration)
    with ExitStack() as stack:
        chunks = _chunks(stack, body, file, lines=lines, count=count)
        total = None if lines else count or 1
        sender = _send(address, destination, given, chunks, total)
    return _report(sender, unrouted_ok=unrouted_ok)


def _destination(
    queue: str | None, exchange: str | None, key: str | None, *, create: bool
) -> PublishTarget:
    if queue is not None:
        if exchange is not None or key is not None:
            raise click.UsageError("--queue cannot be combined with --exchange or --key")
        if not queue:
            raise click.UsageError("--queue needs a name")
        return PublishTarget("", queue, queue if create else None)
    if exchange is None and key is None:
        raise click.UsageError(
            "missing destination: pass --queue NAME, or --exchange NAME and --key KEY"
        )
    return PublishTarget(exchange or "", key or "")


# -- where the bodies come from --------------------------------------------------------------------


def _chunks(
    stack: ExitStack, body: str | None, file: Path | None, *, lines: bool, count: int | None
) -> Iterator[list[bytes]]:
    if body is not None and file is not None:
        raise click.UsageError("choose one of BODY and --file")
    if not lines:
        found = os.fsencode(body) if body is not None else _input(stack, file).read()
        return repeated(found, count or 1)
    if body is not None or count is not None:
        raise click.UsageError("--lines takes its messages from --file or standard input only")
    return lines_of(_input(stack, file))


def _input(stack: ExitStack, file: Path | None) -> BinaryIO:
    if file is not None and str(file) != "-":
        try:
            return stack.enter_context(file.open("rb"))
        except OSError as error:
            reason = f"cannot read {escaped(str(file))}: {error.strerror}"
            raise ConfigError(f"--file: {reason}") from None
    if sys.stdin is None or (file is None and sys.stdin.isatty()):
        raise click.UsageError("nothing to publish: give BODY, --file FILE, or --file - to type it")
    return sys.stdin.buffer


# -- sending ---------------------------------------------------------------------------------------


def _send(
    address: Settings,
    destination: PublishTarget,
    properties: dict[str, object],
    chunks: Iterator[list[bytes]],
    total: int | None,
) -> Sender:
    with connected(address) as channel:
        sender = Sender(channel, destination, properties, _tell_made)
        try:
            with progress_bar("publishing", "confirmed", wanted=total != 1) as progress:
                for chunk in chunks:
                    sender.send(chunk)
                    progress(sender.confirmed, total)
                sender.finish()
        except HeadraceError as error:
            if total == 1:
                raise
            before = f"confirmed before: {counted(sender.confirmed, 'message')}"
            raise CommandFailed(f"{explain(error, address)} ({before})") from error
        except KeyboardInterrupt:
            sender.finish()
            click.echo(f"confirmed: {counted(sender.confirmed, 'message')}", err=True)
            raise click.Abort from None
    return sender


def _tell_made(queue: str) -> None:
    click.echo(f"there was no queue {escaped(queue)}: declared it (durable)", err=True)


def _report(sender: Sender, *, unrouted_ok: bool) -> int:
    figures = {"confirmed": sender.confirmed, "unrouted": sender.unrouted}
    done = print_result(f"published {counted(sender.confirmed, 'message')}", figures)
    if sender.unrouted and not unrouted_ok:
        raise CommandFailed(
            f"{sender.unrouted:,} of them unroutable and dropped: no binding matches; "
            "`headrace binding list` shows the bindings (--unrouted-ok: accept this)"
        )
    return done
