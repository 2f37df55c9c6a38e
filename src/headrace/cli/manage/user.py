"""`headrace user`: list, add, delete, set-password, set-tags, set-secret."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from headrace.cli.support.broker_options import json_option
from headrace.cli.support.http_api import (
    ManagementClient,
    change_limits,
    http_options,
    read_secret,
)
from headrace.cli.support.output import Column, escaped, show, tell

NEW_PASSWORD_VARIABLE = "HEADRACE_NEW_PASSWORD"
TAGS = ("administrator", "monitoring", "policymaker", "management", "impersonator")
COLUMNS = (Column("name", "user"), Column("tags", "tags"), Column("limits", "limits"))


def _tags(text: str) -> list[str]:
    return [tag.strip() for tag in text.split(",") if tag.strip()]


def _remark_on(tags: list[str]) -> None:
    """Any word may be a tag, as in RabbitMQ; one that gives no rights is most often a slip."""
    for tag in tags:
        if tag not in TAGS:
            click.echo(
                f"the tag {escaped(tag)} means nothing to the broker; those that do are "
                f"{', '.join(TAGS)}",
                err=True,
            )


def _new_password(file: Path | None) -> str:
    """Never from the command line, which everybody on the machine can read."""
    if file is not None:
        return read_secret(file, "--new-password-file")
    given = os.environ.get(NEW_PASSWORD_VARIABLE)
    if given:
        return given
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"there is nobody to ask for the new password: use --new-password-file, - is standard "
            f"input, or {NEW_PASSWORD_VARIABLE}"
        )
    password: str = click.prompt("New password", hide_input=True, confirmation_prompt=True)
    return password


def _told(client: ManagementClient, name: str, text: str, as_json: bool) -> int:
    """What was done; as JSON the user, without the hash."""
    if not as_json:
        return tell(text, {}, as_json=False)
    row = client.get("users", name)
    fields = {key: row[key] for key in ("name", "tags", "limits")}
    return tell(text, fields, as_json=True)


_new_password_option = click.option(
    "--new-password-file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help=f"Read the new password from FILE, - is standard input. [{NEW_PASSWORD_VARIABLE}, or "
    "asked for]",
)


@click.group()
def user() -> None:
    """List, add and change users."""


@user.command("list")
@json_option
@http_options
def list_users(client: ManagementClient, as_json: bool) -> int:
    """Show the users, without their passwords."""
    rows = [
        {"name": row["name"], "tags": " ".join(row["tags"]), "limits": row["limits"]}
        for row in client.get("users")
    ]
    return show(COLUMNS, rows, as_json=as_json, nothing="no users")


@user.command()
@click.argument("name")
@click.option("--tags", default="", help="administrator, monitoring, policymaker, management.")
@_new_password_option
@json_option
@http_options
def add(
    client: ManagementClient, name: str, tags: str, new_password_file: Path | None, as_json: bool
) -> int:
    """Make the user NAME. It may enter no vhost before `headrace permission set`."""
    body = {"password": _new_password(new_password_file), "tags": _tags(tags)}
    client.request("PUT", ("users", name), body)
    _remark_on(_tags(tags))
    return _told(client, name, f"user {escaped(name)} is there", as_json)


@user.command()
@click.argument("name")
@json_option
@http_options
def delete(client: ManagementClient, name: str, as_json: bool) -> int:
    """Delete the user NAME and close its connections."""
    client.request("DELETE", ("users", name))
    return tell(f"deleted user {escaped(name)}", {"name": name}, as_json=as_json)


@user.command("set-password")
@click.argument("name")
@_new_password_option
@json_option
@http_options
def set_password(
    client: ManagementClient, name: str, new_password_file: Path | None, as_json: bool
) -> int:
    """Give the user NAME another password."""
    tags = client.get("users", name)["tags"]
    body = {"password": _new_password(new_password_file), "tags": tags}
    client.request("PUT", ("users", name), body)
    return _told(client, name, f"user {escaped(name)} has a new password", as_json)


@user.command("set-tags")
@click.argument("name")
@click.argument("tags", nargs=-1)
@json_option
@http_options
def set_tags(client: ManagementClient, name: str, tags: tuple[str, ...], as_json: bool) -> int:
    """Give the user NAME exactly these TAGS; none takes all away."""
    client.get("users", name)
    chosen = [tag for part in tags for tag in _tags(part)]
    client.request("PUT", ("users", name), {"tags": chosen})
    _remark_on(chosen)
    shown = escaped(" ".join(chosen)) or "no tags"
    return _told(client, name, f"user {escaped(name)}: {shown}", as_json)


@user.command("set-limits")
@click.argument("name")
@click.option("--max-connections", type=int, help="Connections at a time; negative: no limit.")
@click.option("--max-channels", type=int, help="Channels of all of them; negative: no limit.")
@json_option
@http_options
def set_limits(
    client: ManagementClient,
    name: str,
    max_connections: int | None,
    max_channels: int | None,
    as_json: bool,
) -> int:
    """Limit what the user NAME may open; what is open already stays."""
    return change_limits(
        client,
        ("user-limits", name),
        {"max-connections": max_connections, "max-channels": max_channels},
        as_json=as_json,
    )


@user.command("set-secret")
@click.argument("name")
@click.option(
    "--secret-file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Read the secret from FILE, - is standard input. [one is made and shown]",
)
@click.option("--clear", is_flag=True, help="Take the secret away.")
@json_option
@http_options
def set_secret(
    client: ManagementClient, name: str, secret_file: Path | None, clear: bool, as_json: bool
) -> int:
    """Give the user NAME a secret with which RocketMQ clients sign; NAME is their access key."""
    where = ("users", name, "rocketmq-secret")
    if clear:
        client.request("DELETE", where)
        return tell(f"user {escaped(name)} has no secret", {"access_key": name}, as_json=as_json)
    body = {} if secret_file is None else {"secret": read_secret(secret_file, "--secret-file")}
    told = client.request("PUT", where, body)
    shown = f"access key {escaped(name)}"
    if "secret" in told:
        shown += f"\nsecret     {told['secret']}"
    return tell(shown, told, as_json=as_json)


user.add_command(set_tags, "set")
