"""`headrace connection`: list, close."""

from __future__ import annotations

import click

from headrace.cli.support.http_api import ManagementClient, http_options
from headrace.cli.support.output import Column, escaped, print_result, show

COLUMNS = (
    Column("name", "connection"),
    Column("user", "user"),
    Column("vhost", "vhost"),
    Column("state", "state"),
    Column("channels", "channels", is_number=True),
    Column("protocol", "protocol"),
    Column("user_provided_name", "called"),
)


@click.group()
def connection() -> None:
    """List and close connections."""


@connection.command("list")
@http_options
def list_connections(client: ManagementClient) -> int:
    """Show the connections that the user may see."""
    fields = [column.field for column in COLUMNS]
    rows = [{name: row.get(name) for name in fields} for row in client.get("connections")]
    return show(COLUMNS, rows, nothing="no connections")


@connection.command()
@click.argument("name")
@click.option("--reason", default="closed by an operator", help="Reason sent to the client.")
@http_options
def close(client: ManagementClient, name: str, reason: str) -> int:
    """Close the connection NAME, as `list` shows it."""
    return end_connection(client, name, reason)


def end_connection(client: ManagementClient, name: str, reason: str) -> int:
    """Close a connection; the reason travels in an HTTP header, so it is ASCII text."""
    shown = "".join(char if 32 <= ord(char) < 127 else "?" for char in reason)
    client.request("DELETE", ("connections", name), headers={"x-reason": shown})
    return print_result(f"closed connection {escaped(name)}", {"name": name})


connection.add_command(close, "delete")
