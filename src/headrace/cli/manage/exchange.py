"""`headrace exchange`: list, declare, delete."""

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
from headrace.cli.support.output import Column, escaped, print_result, show

COLUMNS = (
    Column("name", "exchange", empty="(default)"),
    Column("type", "type"),
    Column("durable", "durable"),
    Column("auto_delete", "auto-delete"),
    Column("internal", "internal"),
    Column("arguments", "arguments"),
)


@click.group()
def exchange() -> None:
    """List, declare and delete exchanges."""


@exchange.command("list")
@json_option
@broker_options
def list_exchanges(address: Address, as_json: bool) -> int:
    """List the exchanges of the vhost. The one without a name is the default exchange."""
    with connected(address) as channel:
        rows = list(channel.rows("exchanges"))
    return show(COLUMNS, rows, as_json=as_json, nothing="no exchanges")


@exchange.command()
@click.argument("name")
@click.argument("kind", metavar="TYPE")
@durable_option
@click.option("--auto-delete", is_flag=True, help="Delete it when its last binding is removed.")
@click.option("--internal", is_flag=True, help="Only other exchanges may publish to it.")
@arguments_option("For example alternate-exchange=others")
@json_option
@broker_options
def declare(
    address: Address,
    name: str,
    kind: str,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    arguments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Declare the exchange NAME of type TYPE.

    Types are direct, fanout, topic, headers and x-delayed-message. Succeeds if it exists with the
    same attributes.
    """
    given = arguments_of(arguments)
    with connected(address) as channel:
        channel.exchange_declare(
            name,
            kind,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=given,
        )
    text = f"declared {escaped(kind)} exchange {escaped(name)}"
    return print_result(text, {"name": name, "type": kind}, as_json=as_json)


@exchange.command()
@click.argument("name")
@click.option("--if-unused", is_flag=True, help="Refuse if it has bindings.")
@json_option
@broker_options
def delete(address: Address, name: str, if_unused: bool, as_json: bool) -> int:
    """Delete the exchange NAME and its bindings."""
    with connected(address) as channel:
        channel.exchange_delete(name, if_unused=if_unused)
    return print_result(f"deleted exchange {escaped(name)}", {"name": name}, as_json=as_json)


exchange.add_command(declare, "add")
