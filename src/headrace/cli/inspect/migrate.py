"""`headrace migrate check`: what becomes of RabbitMQ's definitions."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

from headrace.cli.support.output import (
    DONE,
    FAILED,
    counted,
    escaped,
    json_option,
    print_json,
    wants_json,
)
from headrace.errors import BrokerError, ConfigError

Json = Mapping[str, Any]
Finding = tuple[str, str]
"""`refused` or `differs`, and a sentence."""

_TYPES = ("direct", "fanout", "topic", "headers", "x-delayed-message", "x-topic")
_KINDS = ("vhosts", "users", "permissions", "policies", "exchanges", "queues", "bindings")


@click.group()
def migrate() -> None:
    """Move from RabbitMQ to Headrace."""


@migrate.command("check")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
def check(file: Path) -> int:
    """Check whether Headrace can take over the definitions in FILE.

    FILE is the output of `rabbitmqctl export_definitions` or of the management page. It is also
    imported into a private broker that is removed afterwards. Exit code 1: something is refused.
    """
    try:
        data = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise ConfigError(f"{escaped(str(file))} is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{escaped(str(file))}: expected a JSON object")
    try:
        findings = list(examine(data))
    except (KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{escaped(str(file))}: malformed entry: {error!r}") from None
    if not any(kind == "refused" for kind, _ in findings) and (problem := _import(file)):
        findings.append(("refused", problem))
    refused = sum(kind == "refused" for kind, _ in findings)
    counts = {kind: len(data.get(kind, ())) for kind in _KINDS}
    if wants_json():
        rows = [{"kind": kind, "text": text} for kind, text in findings]
        print_json({"counts": counts, "findings": rows, "importable": not refused})
    else:
        click.echo(", ".join(f"{count} {kind}" for kind, count in counts.items() if count))
        for kind, text in findings:
            click.echo(f"{kind}: {escaped(text)}")
        click.echo(
            f"{counted(refused, 'object')} cannot be imported"
            if refused
            else "everything can be imported: headrace definitions import FILE"
        )
    return FAILED if refused else DONE


def examine(data: Json) -> Iterator[Finding]:
    """What is refused, and what is accepted and works differently."""
    for kind, rule in _RULES.items():
        for entry in data.get(kind, ()):
            yield from rule(entry)


def _queue(queue: Json) -> Iterator[Finding]:
    kind = queue.get("arguments", {}).get("x-queue-type", queue.get("type", "classic"))
    if kind == "stream":
        yield "refused", f"queue {queue['name']} is a stream: use a topic"
    elif kind == "quorum":
        yield "differs", f"queue {queue['name']} is a quorum queue: it has one copy"


def _exchange(exchange: Json) -> Iterator[Finding]:
    if exchange["type"] not in _TYPES:
        yield "refused", f"exchange {exchange['name']} has the unknown type {exchange['type']}"


def _policy(policy: Json) -> Iterator[Finding]:
    keys = sorted(key for key in policy["definition"] if key.startswith(("ha-", "federation")))
    if keys:
        yield "differs", f"policy {policy['name']}: no effect of {', '.join(keys)}"


def _parameter(parameter: Json) -> Iterator[Finding]:
    if parameter["component"] in ("shovel", "federation", "federation-upstream"):
        yield "differs", f"{parameter['component']} {parameter['name']} has no effect"


def _user(user: Json) -> Iterator[Finding]:
    if user.get("hashing_algorithm") == "rabbit_password_hashing_md5":
        yield "refused", f"user {user['name']} has an MD5 password hash: set a new password first"


_RULES: Final[Mapping[str, Callable[[Json], Iterator[Finding]]]] = {
    "queues": _queue,
    "exchanges": _exchange,
    "policies": _policy,
    "parameters": _parameter,
    "users": _user,
}


def _import(file: Path) -> str:
    """Import into a private broker; returns the error, or nothing."""
    from headrace.server.embedded import Broker

    with tempfile.TemporaryDirectory(prefix="headrace-migrate-") as place:
        try:
            with Broker(Path(place) / "data", load_definitions=file):
                return ""
        except BrokerError as error:
            return str(error)
