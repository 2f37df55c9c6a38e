"""`headrace vhost`: list, add, delete."""

from __future__ import annotations

import sys

import click

from headrace.cli.support.broker_options import json_option
from headrace.cli.support.http_api import ManagementClient, change_limits, http_options
from headrace.cli.support.output import FAILED, Column, escaped, print_result, show

COLUMNS = (
    Column("name", "vhost"),
    Column("messages_ready", "ready", is_number=True),
    Column("messages_unacknowledged", "unacked", is_number=True),
    Column("description", "description"),
)


@click.group()
def vhost() -> None:
    """List, add and delete vhosts."""


@vhost.command("list")
@json_option
@http_options
def list_vhosts(client: ManagementClient, as_json: bool) -> int:
    """Show the vhosts that the user may see."""
    fields = [column.field for column in COLUMNS]
    rows = [{name: row.get(name) for name in fields} for row in client.get("vhosts")]
    return show(COLUMNS, rows, as_json=as_json, nothing="no vhosts")


@vhost.command()
@click.argument("name")
@click.option("--description", default=None, help="Description of the vhost.")
@json_option
@http_options
def add(client: ManagementClient, name: str, description: str | None, as_json: bool) -> int:
    """Create the vhost NAME.

    Its creator gets full permissions in it.
    """
    body = {} if description is None else {"description": description}
    client.request("PUT", ("vhosts", name), body)
    fields = {"name": name, "description": client.get("vhosts", name)["description"]}
    return print_result(f"added vhost {escaped(name)}", fields, as_json=as_json)


@vhost.command()
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
@http_options
def delete(client: ManagementClient, name: str, yes: bool, as_json: bool) -> int:
    """Delete the vhost NAME with every queue and message in it."""
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("not a terminal: pass --yes to confirm")
    question = f"Delete vhost {escaped(name)} and everything in it?"
    if not yes and not click.confirm(question, err=True):
        click.echo("nothing was deleted", err=True)
        return FAILED
    client.request("DELETE", ("vhosts", name))
    return print_result(f"deleted vhost {escaped(name)}", {"name": name}, as_json=as_json)


@vhost.command("set-limits")
@click.argument("name")
@click.option(
    "--max-connections", type=int, help="Maximum number of connections; negative: no limit."
)
@click.option("--max-queues", type=int, help="Maximum number of queues; negative: no limit.")
@json_option
@http_options
def set_limits(
    client: ManagementClient,
    name: str,
    max_connections: int | None,
    max_queues: int | None,
    as_json: bool,
) -> int:
    """Set the limits of the vhost NAME.

    Existing connections and queues stay.
    """
    return change_limits(
        client,
        ("vhost-limits", name),
        {"max-connections": max_connections, "max-queues": max_queues},
        as_json=as_json,
    )


vhost.add_command(add, "set")
