"""Messages and readers of topics on the command line."""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click

from headrace.cli.support.escaping import escaped, escaped_body
from headrace.cli.support.message_output import write
from headrace.cli.support.output import print_json
from headrace.cli.support.sender import lines_of
from headrace.errors import ConfigError
from headrace.store.topics.engine import GroupInfo
from headrace.topics import Message


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
    return {
        "group": group.group,
        "token": group.token,
        "members": list(group.members),
        "messages": sum(lag.messages for lag in group.lag),
        "claimed": sum(lag.claimed for lag in group.lag),
        "retrying": sum(lag.retrying for lag in group.lag),
        "dead": sum(lag.dead for lag in group.lag),
    }
