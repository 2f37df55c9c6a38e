"""`headrace permission`: list, set, clear."""

from __future__ import annotations

import click

from headrace.cli.support.broker_options import json_option
from headrace.cli.support.http_api import ManagementClient, http_options, vhost_option
from headrace.cli.support.output import Column, escaped, print_result, show

COLUMNS = (
    Column("user", "user"),
    Column("vhost", "vhost"),
    Column("configure", "configure", empty="(nothing)"),
    Column("write", "write", empty="(nothing)"),
    Column("read", "read", empty="(nothing)"),
)


@click.group()
def permission() -> None:
    """List, set and clear what users may do in vhosts."""


@permission.command("list")
@json_option
@http_options
def list_permissions(client: ManagementClient, as_json: bool) -> int:
    """Show the permissions of all users in all vhosts."""
    return show(COLUMNS, client.get("permissions"), as_json=as_json, nothing="no permissions")


@permission.command("set")
@click.argument("user")
@click.option("--configure", default=".*", help="Pattern of names to declare and delete. [.*]")
@click.option("--write", default=".*", help="Pattern of names to publish and bind to. [.*]")
@click.option("--read", default=".*", help="Pattern of names to consume and bind from. [.*]")
@vhost_option
@json_option
@http_options
def set_permissions(
    client: ManagementClient,
    user: str,
    configure: str,
    write: str,
    read: str,
    vhost: str,
    as_json: bool,
) -> int:
    """Grant USER access to the vhost; an empty pattern allows nothing."""
    patterns = {"configure": configure, "write": write, "read": read}
    return grant(client, user, vhost, patterns, as_json=as_json)


def grant(
    client: ManagementClient, user: str, vhost: str, patterns: dict[str, str], *, as_json: bool
) -> int:
    client.request("PUT", ("permissions", vhost, user), patterns)
    text = f"user {escaped(user)} may use vhost {escaped(vhost)}"
    return print_result(text, {"user": user, "vhost": vhost, **patterns}, as_json=as_json)


@permission.command()
@click.argument("user")
@vhost_option
@json_option
@http_options
def clear(client: ManagementClient, user: str, vhost: str, as_json: bool) -> int:
    """Revoke the access of USER to the vhost.

    Open connections there are closed.
    """
    client.request("DELETE", ("permissions", vhost, user))
    text = f"user {escaped(user)} may not enter vhost {escaped(vhost)} any more"
    return print_result(text, {"user": user, "vhost": vhost}, as_json=as_json)


permission.add_command(set_permissions, "add")
permission.add_command(clear, "delete")
