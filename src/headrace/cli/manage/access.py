"""`headrace vhost`, `headrace user` and `headrace permission`: who may do what, and where."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import click

from headrace.cli.support.broker_options import read_secret
from headrace.cli.support.http_api import ManagementClient, http_options, vhost_option
from headrace.cli.support.options import Command, file_option, flag, yes_option
from headrace.cli.support.output import FAILED, Column, escaped, print_result, show, wants_json

NEW_PASSWORD_VARIABLE = "HEADRACE_NEW_PASSWORD"
TAGS = ("administrator", "monitoring", "policymaker", "management", "impersonator")
USERS = (Column("name", "user"), Column("tags", "tags"), Column("limits", "limits"))
VHOSTS = (
    Column("name", "vhost"),
    Column("messages_ready", "ready", is_number=True),
    Column("messages_unacknowledged", "unacked", is_number=True),
    Column("description", "description"),
)
PERMISSIONS = (
    Column("user", "user"),
    Column("vhost", "vhost"),
    Column("configure", "configure", empty="(nothing)"),
    Column("write", "write", empty="(nothing)"),
    Column("read", "read", empty="(nothing)"),
)


# -- vhosts ----------------------------------------------------------------------------------------


@click.group()
def vhost() -> None:
    """List, add and delete vhosts."""


@vhost.command("list")
@http_options
def list_vhosts(client: ManagementClient) -> int:
    """Show the vhosts that the user may see."""
    fields = [column.field for column in VHOSTS]
    rows = [{name: row.get(name) for name in fields} for row in client.get("vhosts")]
    return show(VHOSTS, rows, nothing="no vhosts")


@vhost.command("add")
@click.argument("name")
@click.option("--description", default=None, help="Description of the vhost.")
@http_options
def add_vhost(client: ManagementClient, name: str, description: str | None) -> int:
    """Create the vhost NAME.

    Its creator gets full permissions in it.
    """
    body = {} if description is None else {"description": description}
    client.request("PUT", ("vhosts", name), body)
    fields = {"name": name, "description": client.get("vhosts", name)["description"]}
    return print_result(f"added vhost {escaped(name)}", fields)


@vhost.command("delete")
@click.argument("name")
@yes_option
@http_options
def delete_vhost(client: ManagementClient, name: str, yes: bool) -> int:
    """Delete the vhost NAME with every queue and message in it."""
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("not a terminal: pass --yes to confirm")
    question = f"Delete vhost {escaped(name)} and everything in it?"
    if not yes and not click.confirm(question, err=True):
        click.echo("nothing was deleted", err=True)
        return FAILED
    client.request("DELETE", ("vhosts", name))
    return print_result(f"deleted vhost {escaped(name)}", {"name": name})


vhost.add_command(add_vhost, "set")


# -- users -----------------------------------------------------------------------------------------


def _tags(text: str) -> list[str]:
    return [tag.strip() for tag in text.split(",") if tag.strip()]


def _remark_on(tags: list[str]) -> None:
    """Any word may be a tag, as in RabbitMQ; an unknown one is most often a typing error."""
    for tag in tags:
        if tag not in TAGS:
            click.echo(
                f"the tag {escaped(tag)} has no effect; tags with an effect: {', '.join(TAGS)}",
                err=True,
            )


def _new_password(file: Path | None) -> str:
    """Never from the command line, which every user of the machine can read."""
    if file is not None:
        return read_secret(file, "--new-password-file")
    given = os.environ.get(NEW_PASSWORD_VARIABLE)
    if given:
        return given
    if not sys.stdin.isatty():
        raise click.UsageError(
            "not a terminal: pass the new password with --new-password-file (- is standard input) "
            f"or {NEW_PASSWORD_VARIABLE}"
        )
    password: str = click.prompt("New password", hide_input=True, confirmation_prompt=True)
    return password


def _report(client: ManagementClient, name: str, text: str) -> int:
    """Report the change; as JSON the user, without the hash."""
    row = client.get("users", name) if wants_json() else {}
    return print_result(text, {key: row.get(key) for key in ("name", "tags", "limits")})


_new_password_option = file_option(
    "--new-password-file",
    text=f"Read the new password from FILE (- is standard input). [{NEW_PASSWORD_VARIABLE}, or "
    "asked for]",
)


@click.group()
def user() -> None:
    """List, add and change users."""


@user.command("list")
@http_options
def list_users(client: ManagementClient) -> int:
    """Show the users, without their passwords."""
    rows = [
        {"name": row["name"], "tags": " ".join(row["tags"]), "limits": row["limits"]}
        for row in client.get("users")
    ]
    return show(USERS, rows, nothing="no users")


@user.command("add")
@click.argument("name")
@click.option("--tags", default="", help="administrator, monitoring, policymaker, management.")
@_new_password_option
@http_options
def add_user(client: ManagementClient, name: str, tags: str, new_password_file: Path | None) -> int:
    """Create the user NAME. It has no access to any vhost until `headrace permission set`."""
    body = {"password": _new_password(new_password_file), "tags": _tags(tags)}
    client.request("PUT", ("users", name), body)
    _remark_on(_tags(tags))
    return _report(client, name, f"added user {escaped(name)}")


@user.command("delete")
@click.argument("name")
@http_options
def delete_user(client: ManagementClient, name: str) -> int:
    """Delete the user NAME and close its connections."""
    client.request("DELETE", ("users", name))
    return print_result(f"deleted user {escaped(name)}", {"name": name})


@user.command("set-password")
@click.argument("name")
@_new_password_option
@http_options
def set_password(client: ManagementClient, name: str, new_password_file: Path | None) -> int:
    """Change the password of the user NAME."""
    tags = client.get("users", name)["tags"]
    body = {"password": _new_password(new_password_file), "tags": tags}
    client.request("PUT", ("users", name), body)
    return _report(client, name, f"user {escaped(name)} has a new password")


@user.command("set-tags")
@click.argument("name")
@click.argument("tags", nargs=-1)
@http_options
def set_tags(client: ManagementClient, name: str, tags: tuple[str, ...]) -> int:
    """Replace the tags of the user NAME with TAGS.

    Without TAGS all are removed.
    """
    client.get("users", name)
    chosen = [tag for part in tags for tag in _tags(part)]
    client.request("PUT", ("users", name), {"tags": chosen})
    _remark_on(chosen)
    shown = escaped(" ".join(chosen)) or "no tags"
    return _report(client, name, f"user {escaped(name)}: {shown}")


@user.command("set-secret")
@click.argument("name")
@file_option(
    "--secret-file",
    text="Read the secret from FILE (- is standard input). [a random one is created and printed]",
)
@flag("--clear", "Remove the secret.")
@http_options
def set_secret(client: ManagementClient, name: str, secret_file: Path | None, clear: bool) -> int:
    """Set the secret with which RocketMQ clients sign requests.

    NAME is their access key.
    """
    where = ("users", name, "rocketmq-secret")
    if clear:
        client.request("DELETE", where)
        return print_result(f"user {escaped(name)} has no secret", {"access_key": name})
    body = {} if secret_file is None else {"secret": read_secret(secret_file, "--secret-file")}
    reply = client.request("PUT", where, body)
    shown = f"access key {escaped(name)}"
    if "secret" in reply:
        shown += f"\nsecret     {reply['secret']}"
    return print_result(shown, reply)


user.add_command(set_tags, "set")


# -- limits ----------------------------------------------------------------------------------------


def _limits_command(group: click.Group, other: str, text: str) -> None:
    """`set-limits` of vhosts or users: of their connections, and of ``other``."""

    @group.command("set-limits", help=text)
    @click.argument("name")
    @_limit_option("connections")
    @_limit_option(other)
    @http_options
    def set_limits(client: ManagementClient, name: str, **limits: int | None) -> int:
        path = (f"{group.name}-limits", name)
        for parameter, value in limits.items():
            limit = parameter.replace("_", "-")
            if value is not None and value < 0:
                client.request("DELETE", (*path, limit))
            elif value is not None:
                client.request("PUT", (*path, limit), {"value": value})
        left = {key: one for row in client.get(*path) for key, one in row["value"].items()}
        shown = ", ".join(f"{key} {one}" for key, one in left.items()) or "no limits"
        return print_result(f"{escaped(name)}: {shown}", {"name": name, "limits": left})


def _limit_option(of: str) -> Callable[[Command], Command]:
    text = f"Maximum number of {of}; negative: no limit."
    return click.option(f"--max-{of}", type=int, help=text)


_limits_command(
    vhost, "queues", "Set the limits of the vhost NAME.\n\nExisting connections and queues stay."
)
_limits_command(
    user, "channels", "Set the limits of the user NAME.\n\nOpen connections and channels stay open."
)


# -- permissions -----------------------------------------------------------------------------------


@click.group()
def permission() -> None:
    """List, set and clear what users may do in vhosts."""


@permission.command("list")
@http_options
def list_permissions(client: ManagementClient) -> int:
    """Show the permissions of all users in all vhosts."""
    return show(PERMISSIONS, client.get("permissions"), nothing="no permissions")


@permission.command("set")
@click.argument("user")
@click.option("--configure", default=".*", help="Pattern of names to declare and delete. [.*]")
@click.option("--write", default=".*", help="Pattern of names to publish and bind to. [.*]")
@click.option("--read", default=".*", help="Pattern of names to consume and bind from. [.*]")
@vhost_option
@http_options
def set_permissions(
    client: ManagementClient, user: str, configure: str, write: str, read: str, vhost: str
) -> int:
    """Grant USER access to the vhost; an empty pattern allows nothing."""
    patterns = {"configure": configure, "write": write, "read": read}
    return grant(client, user, vhost, patterns)


def grant(client: ManagementClient, user: str, vhost: str, patterns: dict[str, str]) -> int:
    client.request("PUT", ("permissions", vhost, user), patterns)
    text = f"user {escaped(user)} may use vhost {escaped(vhost)}"
    return print_result(text, {"user": user, "vhost": vhost, **patterns})


@permission.command("clear")
@click.argument("user")
@vhost_option
@http_options
def clear_permissions(client: ManagementClient, user: str, vhost: str) -> int:
    """Revoke the access of USER to the vhost.

    Open connections there are closed.
    """
    client.request("DELETE", ("permissions", vhost, user))
    text = f"user {escaped(user)} may not enter vhost {escaped(vhost)} any more"
    return print_result(text, {"user": user, "vhost": vhost})


permission.add_command(set_permissions, "add")
permission.add_command(clear_permissions, "delete")
