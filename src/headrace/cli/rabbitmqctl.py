"""rabbitmqctl's verbs: `headrace list_queues` is `headrace queue list`, and so on.

For users and scripts that know them. They are not listed in --help, and do not take passwords on
the command line, which every user of the machine can read.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

from headrace.cli.main import COMMANDS
from headrace.cli.manage.access import grant
from headrace.cli.manage.connection import end_connection
from headrace.cli.support.http_api import ManagementClient, http_options, vhost_option

# Those whose words come in the same order as ours.
VERBS: Final[dict[str, tuple[str, ...]]] = {
    "list_queues": ("queue", "list"),
    "delete_queue": ("queue", "delete"),
    "purge_queue": ("purge",),
    "list_exchanges": ("exchange", "list"),
    "list_bindings": ("binding", "list"),
    "list_connections": ("connection", "list"),
    "list_vhosts": ("vhost", "list"),
    "add_vhost": ("vhost", "add"),
    "delete_vhost": ("vhost", "delete"),
    "list_users": ("user", "list"),
    "add_user": ("user", "add"),
    "delete_user": ("user", "delete"),
    "change_password": ("user", "set-password"),
    "set_user_tags": ("user", "set-tags"),
    "list_permissions": ("permission", "list"),
    "clear_permissions": ("permission", "clear"),
    "list_policies": ("policy", "list"),
    "set_policy": ("policy", "set"),
    "clear_policy": ("policy", "clear"),
    "export_definitions": ("definitions", "export"),
    "import_definitions": ("definitions", "import"),
}


@click.command()
@click.argument("user")
@click.argument("patterns", nargs=3, metavar="CONFIGURE WRITE READ")
@vhost_option
@http_options
def set_permissions(
    client: ManagementClient, user: str, patterns: tuple[str, str, str], vhost: str
) -> int:
    """Grant USER access to the vhost, with three patterns in rabbitmqctl's order."""
    named = dict(zip(("configure", "write", "read"), patterns, strict=True))
    return grant(client, user, vhost, named)


@click.command()
@click.argument("name")
@click.argument("explanation")
@http_options
def close_connection(client: ManagementClient, name: str, explanation: str) -> int:
    """Close the connection NAME; EXPLANATION is sent to the client."""
    return end_connection(client, name, explanation)


OWN: Final[dict[str, click.Command]] = {
    "set_permissions": set_permissions,
    "close_connection": close_connection,
}


def find(verb: str) -> click.Command | None:
    """The command of a rabbitmqctl verb; None if it is not supported."""
    if verb in OWN:
        return OWN[verb]
    path = VERBS.get(verb)
    if path is None:
        return None
    command = getattr(import_module(f"headrace.cli.{COMMANDS[path[0]]}"), path[0])
    for name in path[1:]:
        command = command.commands[name]
    assert isinstance(command, click.Command)
    return command
