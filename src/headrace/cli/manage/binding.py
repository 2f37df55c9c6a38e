"""`headrace binding`: list, declare, delete."""

from __future__ import annotations

import click

from headrace.cli.support.broker_options import Address, broker_options, connected, json_option
from headrace.cli.support.name_values import arguments_of, arguments_option
from headrace.cli.support.output import Column, escaped, print_result, show

COLUMNS = (
    Column("source", "exchange"),
    Column("key", "key"),
    Column("destination_type", "to"),
    Column("destination", "name"),
    Column("arguments", "arguments"),
)
_arguments = arguments_option("For headers exchanges, for example x-match=any")
_to_exchange = click.option("--to-exchange", is_flag=True, help="DESTINATION is an exchange.")


@click.group()
def binding() -> None:
    """List, declare and delete bindings."""


@binding.command("list")
@json_option
@broker_options
def list_bindings(address: Address, as_json: bool) -> int:
    """Show the bindings of the vhost."""
    with connected(address) as channel:
        rows = list(channel.rows("bindings"))
    return show(COLUMNS, rows, as_json=as_json, nothing="no bindings")


@binding.command()
@click.argument("source", metavar="EXCHANGE")
@click.argument("destination", metavar="DESTINATION")
@click.argument("key", default="")
@_to_exchange
@_arguments
@json_option
@broker_options
def declare(
    address: Address,
    source: str,
    destination: str,
    key: str,
    to_exchange: bool,
    arguments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Bind the queue DESTINATION to EXCHANGE with KEY (default: empty)."""
    given = arguments_of(arguments)
    with connected(address) as channel:
        bind = channel.exchange_bind if to_exchange else channel.queue_bind
        bind(destination, source, key, given)
    text = _sentence("bound", destination, source, key, to_exchange=to_exchange)
    return print_result(
        text, {"source": source, "destination": destination, "key": key}, as_json=as_json
    )


@binding.command()
@click.argument("source", metavar="EXCHANGE")
@click.argument("destination", metavar="DESTINATION")
@click.argument("key", required=False)
@_to_exchange
@_arguments
@json_option
@broker_options
def delete(
    address: Address,
    source: str,
    destination: str,
    key: str | None,
    to_exchange: bool,
    arguments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Remove bindings of EXCHANGE to DESTINATION.

    The one with KEY and the arguments, or without KEY all of them.
    """
    given = arguments_of(arguments)
    if given and key is None:
        raise click.UsageError("--argument needs a KEY; write an empty key as ''")
    with connected(address) as channel:
        unbind = channel.exchange_unbind if to_exchange else channel.queue_unbind
        unbind(destination, source, key, given)
    text = _sentence("unbound", destination, source, key, to_exchange=to_exchange)
    return print_result(
        text, {"source": source, "destination": destination, "key": key}, as_json=as_json
    )


def _sentence(
    verb: str, destination: str, source: str, key: str | None, *, to_exchange: bool
) -> str:
    kind = "exchange" if to_exchange else "queue"
    way = "to" if verb == "bound" else "from"
    text = f"{verb} {kind} {escaped(destination)} {way} exchange {escaped(source)}"
    return f"{text}, key {escaped(key)}" if key else text


binding.add_command(declare, "add")
