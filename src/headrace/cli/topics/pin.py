"""`headrace pin`: messages kept for external readers such as Spark queries."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from headrace.bulk.client import BulkConnection, Pin
from headrace.cli.support.broker_options import broker_options, explained
from headrace.cli.support.options import yes_option
from headrace.cli.support.output import DONE, Column, escaped, json_option, show
from headrace.cli.support.topic_store import confirmed
from headrace.client.settings import Settings
from headrace.errors import CommandFailed

COLUMNS = (
    Column("query", "query"),
    Column("kind", "of"),
    Column("name", "name"),
    Column("messages", "behind", is_number=True),
    Column("max_bytes", "may hold", is_number=True),
    Column("state", "state"),
    Column("updated", "updated"),
)


@click.group()
def pin() -> None:
    """Pins: messages kept for readers such as Spark queries."""


@pin.command("list")
@json_option
@broker_options
def list_pins(address: Settings) -> int:
    """List the pins and the lag of their readers."""
    with explained(address), BulkConnection(address) as connection:
        rows = [_row(one) for one in connection.pins()]
    return show(COLUMNS, rows, nothing="no pins")


@pin.command()
@click.argument("query")
@yes_option
@broker_options
def delete(address: Settings, query: str, yes: bool) -> int:
    """Delete the pin of QUERY. If the query returns, messages may have been removed."""
    with explained(address), BulkConnection(address) as connection:
        found = [one for one in connection.pins() if one.query == query]
        if not found:
            raise CommandFailed(f"no pin for '{escaped(query)}'; `headrace pin list` lists them")
        names = ", ".join(f"{one.kind} {escaped(one.name)}" for one in found)
        confirmed(f"Hold nothing of {names} for {escaped(query)} any more?", yes)
        connection.unpin(query)
    click.echo(f"released {names}")
    return DONE


def _row(one: Pin) -> dict[str, object]:
    updated = datetime.fromtimestamp(one.updated_at / 1000, UTC)
    return {
        "query": one.query,
        "kind": one.kind,
        "name": one.name,
        "messages": one.messages,
        "max_bytes": one.max_bytes,
        "state": "lost" if one.lost else "held",
        "updated": updated.isoformat(sep=" ", timespec="seconds"),
    }
