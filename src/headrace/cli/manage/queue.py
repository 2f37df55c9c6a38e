"""`headrace queue`: list, declare, delete."""

from __future__ import annotations

import click

from headrace.cli.support.broker_options import (
    Address,
    broker_options,
    connected,
    durable_option,
    json_option,
)
from headrace.cli.support.name_values import arguments_of, arguments_option
from headrace.cli.support.output import Column, counted, escaped, print_result, show

COLUMNS = (
    Column("name", "queue"),
    Column("messages", "ready", is_number=True),
    Column("messages_unacknowledged", "unacked", is_number=True),
    Column("consumers", "consumers", is_number=True),
    Column("durable", "durable"),
    Column("arguments", "arguments"),
)


@click.group()
def queue() -> None:
    """List, declare and delete queues."""


@queue.command("list")
@json_option
@broker_options
def list_queues(address: Address, as_json: bool) -> int:
    """List the queues of the vhost with their messages and consumers."""
    with connected(address) as channel:
        rows = list(channel.rows("queues"))
    return show(COLUMNS, rows, as_json=as_json, nothing="no queues")


@queue.command()
@click.argument("name")
@durable_option
@click.option("--auto-delete", is_flag=True, help="Delete it when its last consumer is cancelled.")
@arguments_option("For example x-max-length=1000")
@json_option
@broker_options
def declare(
    address: Address,
    name: str,
    durable: bool,
    auto_delete: bool,
    arguments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Declare the queue NAME. Succeeds if it exists with the same attributes."""
    if not name:
        raise click.UsageError("the queue name must not be empty")
    given = arguments_of(arguments)
    with connected(address) as channel:
        found = channel.queue_declare(
            name, durable=durable, auto_delete=auto_delete, arguments=given
        )
    messages = counted(found.messages, "message")
    text = f"declared queue {escaped(found.name)}, with {messages}"
    return print_result(text, found._asdict(), as_json=as_json)


@queue.command()
@click.argument("name")
@click.option("--if-empty", is_flag=True, help="Refuse if it has messages.")
@click.option("--if-unused", is_flag=True, help="Refuse if it has consumers.")
@json_option
@broker_options
def delete(address: Address, name: str, if_empty: bool, if_unused: bool, as_json: bool) -> int:
    """Delete the queue NAME and the messages in it."""
    with connected(address) as channel:
        count = channel.queue_delete(name, if_empty=if_empty, if_unused=if_unused)
    text = f"deleted queue {escaped(name)} and {counted(count, 'message')} in it"
    return print_result(text, {"name": name, "messages": count}, as_json=as_json)


queue.add_command(declare, "add")
