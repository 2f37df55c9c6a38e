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
from headrace.cli.support.output import Column, escaped, print_result, show

NEW_PASSWORD_VARIABLE = "HEADRACE_NEW_PASSWORD"
TAGS = ("administrator", "monitoring", "policymaker", "management", "impersonator")
COLUMNS = (Column("name", "user"), Column("tags", "tags"), Column("limits", "limits"))


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


def _report(client: ManagementClient, name: str, text: str, as_json: bool) -> int:
    """Report the change; as JSON the user, without the hash."""
    if not as_json:
        return print_result(text, {}, as_json=False)
    row = client.get("users", name)
    fields = {key: row[key] for key in ("name", "tags", "limits")}
    return print_result(text, fields, as_json=True)


_new_password_option = click.option(
    "--new-password-file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help=f"Read the new password from FILE (- is standard input). [{NEW_PASSWORD_VARIABLE}, or "
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
    """Create the user NAME. It has no access to any vhost until `headrace permission set`."""
    body = {"password": _new_password(new_password_file), "tags": _tags(tags)}
    client.request("PUT", ("users", name), body)
    _remark_on(_tags(tags))
    return _report(client, name, f"added user {escaped(name)}", as_json)


@user.command()
@click.argument("name")
@json_option
@http_options
def delete(client: ManagementClient, name: str, as_json: bool) -> int:
    """Delete the user NAME and close its connections."""
    client.request("DELETE", ("users", name))
    return print_result(f"deleted user {escaped(name)}", {"name": name}, as_json=as_json)


@user.command("set-password")
@click.argument("name")
@_new_password_option
@json_option
@http_options
def set_password(
    client: ManagementClient, name: str, new_password_file: Path | None, as_json: bool
) -> int:
    """Change the password of the user NAME."""
    tags = client.get("users", name)["tags"]
    body = {"password": _new_password(new_password_file), "tags": tags}
    client.request("PUT", ("users", name), body)
    return _report(client, name, f"user {escaped(name)} has a new password", as_json)


@user.command("set-tags")
@click.argument("name")
@click.argument("tags", nargs=-1)
@json_option
@http_options
def set_tags(client: ManagementClient, name: str, tags: tuple[str, ...], as_json: bool) -> int:
    """Replace the tags of the user NAME with TAGS.

    Without TAGS all are removed.
    """
    client.get("users", name)
    chosen = [tag for part in tags for tag in _tags(part)]
    client.request("PUT", ("users", name), {"tags": chosen})
    _remark_on(chosen)
    shown = escaped(" ".join(chosen)) or "no tags"
    return _report(client, name, f"user {escaped(name)}: {shown}", as_json)


@user.command("set-limits")
@click.argument("name")
@click.option(
    "--max-connections", type=int, help="Maximum number of connections; negative: no limit."
)
@click.option("--max-channels", type=int, help="Maximum number of channels; negative: no limit.")
@json_option
@http_options
def set_limits(
    client: ManagementClient,
    name: str,
    max_connections: int | None,
    max_channels: int | None,
    as_json: bool,
) -> int:
    """Set the limits of the user NAME.

    Open connections and channels stay open.
    """
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
    help="Read the secret from FILE (- is standard input). [a random one is created and printed]",
)
@click.option("--clear", is_flag=True, help="Remove the secret.")
@json_option
@http_options
def set_secret(
    client: ManagementClient, name: str, secret_file: Path | None, clear: bool, as_json: bool
) -> int:
    """Set the secret with which RocketMQ clients sign requests.

    NAME is their access key.
    """
    where = ("users", name, "rocketmq-secret")
    if clear:
        client.request("DELETE", where)
        return print_result(
            f"user {escaped(name)} has no secret", {"access_key": name}, as_json=as_json
        )
    body = {} if secret_file is None else {"secret": read_secret(secret_file, "--secret-file")}
    reply = client.request("PUT", where, body)
    shown = f"access key {escaped(name)}"
    if "secret" in reply:
        shown += f"\nsecret     {reply['secret']}"
    return print_result(shown, reply, as_json=as_json)


user.add_command(set_tags, "set")
