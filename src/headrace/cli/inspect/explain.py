"""`headrace explain`: what an error means and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from headrace import errors
from headrace.cli.inspect.advice import ADVICE, TEXTS
from headrace.cli.support.output import DONE
from headrace.errors import BrokerError, ChannelError, CommandFailed, FatalError, row_of
from headrace.wire.amqp.error_codes import INTERNAL_ERROR, REPLY_CODES

_LINK = re.compile(r"\[([^]]+)\]\(([^)]+)\)")


@click.command()
@click.argument("error", nargs=-1, required=True, metavar="ERROR")
def explain(error: tuple[str, ...]) -> int:
    """Explain ERROR, for example 406.

    ERROR is a reply code, a name such as NOT_FOUND, or a whole message.
    """
    text = " ".join(error)
    exact = [one for one in TEXTS if one[1] in text]
    kinds = [] if exact else list(_matching(text))
    if not kinds and not exact:
        known = ", ".join(map(str, sorted({code for code, _ in REPLY_CODES.values()})))
        raise CommandFailed(f"unknown error {text!r}; known codes: {known}")
    for _, part, cause, remedy in exact:
        _print(part, cause, remedy)
    said: set[int] = set()
    for kind in kinds:
        code, name = row_of(REPLY_CODES, kind, INTERNAL_ERROR)
        if code not in said:
            said.add(code)
            closes = "channel" if issubclass(kind, ChannelError) else "connection"
            click.echo(click.style(f"{code} {name} closes the {closes}", bold=True))
            for _, part, cause, remedy in (one for one in TEXTS if one[0] == code):
                _print(f"... {part} ...", cause, remedy)
        _print(kind.__name__, *ADVICE[kind.__name__])
    return DONE


def _matching(text: str) -> Iterator[type[BrokerError]]:
    """Error classes by code, AMQP name or class name, as they occur in the text."""
    words = set(re.findall(r"\w+", text.upper()))
    for name in ADVICE:
        kind = getattr(errors, name)
        code, reply = row_of(REPLY_CODES, kind, INTERNAL_ERROR)
        if {str(code), reply, name.upper()} & words and issubclass(kind, ChannelError | FatalError):
            yield kind


def _print(title: str, cause: str, remedy: str) -> None:
    click.echo(f"{title}\n  cause:  {_plain(cause)}\n  remedy: {_plain(remedy)}")


def _plain(text: str) -> str:
    return _LINK.sub(lambda match: f"{match[1]} (docs/{match[2]})", text)
