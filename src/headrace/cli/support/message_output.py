"""Messages on stdout: readable lines, JSON lines, or their bodies as they are."""

from __future__ import annotations

import json
import os
import select
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import Any

import click

from headrace.cli.support.options import flag
from headrace.cli.support.output import escaped, escaped_body, json_safe
from headrace.client import Delivery

Render = Callable[[Delivery], bytes]

_SHOWN = 2000  # characters of a body on a terminal

# Shown elsewhere in the object; with delivery_mode they are what every delivery has.
_ELSEWHERE = ("message_id", "routing_key")
_ALWAYS = len(_ELSEWHERE) + 1
_quote = json.encoder.encode_basestring

_FORMATS = (
    click.option("--json", "as_json", is_flag=True, help="One JSON object per line."),
    flag("--raw", "Only the bodies, unchanged, without separators."),
    flag("--lines", "Only the bodies, each followed by a newline."),
)


def format_options(function: Callable[..., int]) -> Callable[..., int]:
    """Adds --json, --raw and --lines."""
    for option in reversed(_FORMATS):
        function = option(function)
    return function


def choose(*, as_json: bool, raw: bool, lines: bool) -> Render:
    """How messages are written."""
    if as_json + raw + lines > 1:
        raise click.UsageError("choose one of --json, --raw and --lines")
    if as_json:
        return as_json_line
    if raw:
        return lambda delivery: delivery.body
    if lines:
        return lambda delivery: delivery.body + b"\n"
    return as_terminal_line if sys.stdout.isatty() else as_fields


def write(chunks: Iterable[bytes]) -> None:
    """Write all chunks and flush: what was written reaches the reader.

    With PYTHONUNBUFFERED, as in many containers, a write may be partial, or take nothing if
    another program has made the terminal non-blocking.
    """
    output = sys.stdout.buffer
    left = memoryview(b"".join(chunks))
    while left:
        written: int | None = output.write(left)
        if written is None:
            select.select([], [output], [])
        left = left[written or 0 :]
    output.flush()


# -- one message ---------------------------------------------------------------------------------


def as_fields(delivery: Delivery) -> bytes:
    """Message id, exchange, routing key, whether it is delivered again, body; tabs between."""
    again = "again" if delivery.redelivered else ""
    start = (
        escaped(delivery.message_id),
        escaped(delivery.exchange),
        escaped(delivery.routing_key),
    )
    return "\t".join((*start, again, escaped_body(delivery.body) + "\n")).encode()


def as_terminal_line(delivery: Delivery) -> bytes:
    """For people: routing key, body, a mark when it comes again."""
    body = escaped_body(delivery.body[: 4 * _SHOWN])
    if len(body) > _SHOWN or len(delivery.body) > 4 * _SHOWN:
        body = f"{body[:_SHOWN]}... ({len(delivery.body):,} bytes)"
    again = _styled("  (again)", dim=True) if delivery.redelivered else ""
    key = _styled(escaped(delivery.routing_key), fg="cyan")
    return f"{key}  {body}{again}\n".encode("utf-8", "replace")


def _styled(text: str, **style: Any) -> str:  # noqa: ANN401 - those of click
    """Colours, unless NO_COLOR is set (no-color.org)."""
    return text if os.environ.get("NO_COLOR") else click.style(text, **style)


def as_json_line(delivery: Delivery) -> bytes:
    """`body` is text; `body_base64` takes its place when the bytes are not UTF-8.

    Put together by hand, because a queue may hold a million: an encoder for the whole object
    takes three times as long.
    """
    known = delivery.property_map
    if len(known) == _ALWAYS:
        properties = f'{{"delivery_mode": {known["delivery_mode"]}}}'
    else:
        properties = _dump({name: one for name, one in known.items() if name not in _ELSEWHERE})
    try:
        body = f'"body": {_quote(delivery.body.decode())}'
    except UnicodeDecodeError:
        body = f'"body_base64": "{b64encode(delivery.body).decode()}"'
    line = (
        f'{{"queue": {_quote(delivery.queue)}, "exchange": {_quote(delivery.exchange)}, '
        f'"routing_key": {_quote(delivery.routing_key)}, '
        f'"message_id": {_quote(delivery.message_id)}, '
        f'"redelivered": {"true" if delivery.redelivered else "false"}, '
        f'"properties": {properties}, {body}}}\n'
    )
    return json_safe(line).encode()


def _dump(document: object) -> str:
    try:
        return _encode(document)
    except ValueError:  # a number that JSON does not have
        return _encode(_without_odd_numbers(document))


def _plain(value: object) -> object:
    """Header values that JSON does not have."""
    if isinstance(value, bytes):
        return {"base64": b64encode(value).decode()}
    return str(value)


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_plain).encode


def _without_odd_numbers(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_odd_numbers(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_odd_numbers(one) for one in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value
