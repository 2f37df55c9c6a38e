"""`headrace queue`, `headrace exchange`, `headrace binding`: list, declare, delete."""

from __future__ import annotations

from collections.abc import Sequence

import click

from headrace.cli.support.broker_options import broker_options, connected, durable_option
from headrace.cli.support.name_values import arguments_of, arguments_option
from headrace.cli.support.options import flag
from headrace.cli.support.output import (
    Column,
    counted,
    escaped,
    json_option,
    print_result,
    show,
)
from headrace.client.settings import Settings


def _list(group: click.Group, columns: Sequence[Column], text: str) -> None:
    """`list` of a group: the rows that the broker has of that kind."""
    kind = f"{group.name}s"

    @group.command("list", help=text)
    @json_option
    @broker_options
    def command(address: Settings) -> int:
        with connected(address) as channel:
            rows = list(channel.rows(kind))
        return show(columns, rows, nothing=f"no {kind}")


# -- queues ----------------------------------------------------------------------------------------


@click.group()
def queue() -> None:
    """List, declare and delete queues."""


_list(
    queue,
    (
        Column("name", "queue"),
        Column("messages", "ready", is_number=True),
        Column("messages_unacknowledged", "unacked", is_number=True),
        Column("consumers", "consumers", is_number=True),
        Column("durable", "durable"),
        Column("arguments", "arguments"),
    ),
    "List the queues of the vhost with their messages and consumers.",
)


@queue.command("declare")
@click.argument("name")
@durable_option
@flag("--auto-delete", "Delete it when its last consumer is cancelled.")
@arguments_option("For example x-max-length=1000")
@json_option
@broker_options
def declare_queue(
    address: Settings, name: str, durable: bool, auto_delete: bool, arguments: tuple[str, ...]
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
    return print_result(text, found._asdict())


@queue.command("delete")
@click.argument("name")
@flag("--if-empty", "Refuse if it has messages.")
@flag("--if-unused", "Refuse if it has consumers.")
@json_option
@broker_options
def delete_queue(address: Settings, name: str, if_empty: bool, if_unused: bool) -> int:
    """Delete the queue NAME and the messages in it."""
    with connected(address) as channel:
        count = channel.queue_delete(name, if_empty=if_empty, if_unused=if_unused)
    text = f"deleted queue {escaped(name)} and {counted(count, 'message')} in it"
    return print_result(text, {"name": name, "messages": count})


queue.add_command(declare_queue, "add")


# -- exchanges -------------------------------------------------------------------------------------


@click.group()
def exchange() -> None:
    """List, declare and delete exchanges."""


_list(
    exchange,
    (
        Column("name", "exchange", empty="(default)"),
        Column("type", "type"),
        Column("durable", "durable"),
        Column("auto_delete", "auto-delete"),
        Column("internal", "internal"),
        Column("arguments", "arguments"),
    ),
    "List the exchanges of the vhost. The one without a name is the default exchange.",
)


@exchange.command("declare")
@click.argument("name")
@click.argument("kind", metavar="TYPE")
@durable_option
@flag("--auto-delete", "Delete it when its last binding is removed.")
@flag("--internal", "Only other exchanges may publish to it.")
@arguments_option("For example alternate-exchange=others")
@json_option
@broker_options
def declare_exchange(
    address: Settings,
    name: str,
    kind: str,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    arguments: tuple[str, ...],
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
    return print_result(text, {"name": name, "type": kind})


@exchange.command("delete")
@click.argument("name")
@flag("--if-unused", "Refuse if it has bindings.")
@json_option
@broker_options
def delete_exchange(address: Settings, name: str, if_unused: bool) -> int:
    """Delete the exchange NAME and its bindings."""
    with connected(address) as channel:
        channel.exchange_delete(name, if_unused=if_unused)
    return print_result(f"deleted exchange {escaped(name)}", {"name": name})


exchange.add_command(declare_exchange, "add")


# -- bindings --------------------------------------------------------------------------------------

_arguments = arguments_option("For headers exchanges, for example x-match=any")
_to_exchange = flag("--to-exchange", "DESTINATION is an exchange.")


@click.group()
def binding() -> None:
    """List, declare and delete bindings."""


_list(
    binding,
    (
        Column("source", "exchange"),
        Column("key", "key"),
        Column("destination_type", "to"),
        Column("destination", "name"),
        Column("arguments", "arguments"),
    ),
    "Show the bindings of the vhost.",
)


@binding.command("declare")
@click.argument("source", metavar="EXCHANGE")
@click.argument("destination", metavar="DESTINATION")
@click.argument("key", default="")
@_to_exchange
@_arguments
@json_option
@broker_options
def bind(
    address: Settings,
    source: str,
    destination: str,
    key: str,
    to_exchange: bool,
    arguments: tuple[str, ...],
) -> int:
    """Bind the queue DESTINATION to EXCHANGE with KEY (default: empty)."""
    given = arguments_of(arguments)
    with connected(address) as channel:
        declare = channel.exchange_bind if to_exchange else channel.queue_bind
        declare(destination, source, key, given)
    return _report("bound", destination, source, key, to_exchange=to_exchange)


@binding.command("delete")
@click.argument("source", metavar="EXCHANGE")
@click.argument("destination", metavar="DESTINATION")
@click.argument("key", required=False)
@_to_exchange
@_arguments
@json_option
@broker_options
def unbind(
    address: Settings,
    source: str,
    destination: str,
    key: str | None,
    to_exchange: bool,
    arguments: tuple[str, ...],
) -> int:
    """Remove bindings of EXCHANGE to DESTINATION.

    The one with KEY and the arguments, or without KEY all of them.
    """
    given = arguments_of(arguments)
    if given and key is None:
        raise click.UsageError("--argument needs a KEY; write an empty key as ''")
    with connected(address) as channel:
        delete = channel.exchange_unbind if to_exchange else channel.queue_unbind
        delete(destination, source, key, given)
    return _report("unbound", destination, source, key, to_exchange=to_exchange)


def _report(verb: str, destination: str, source: str, key: str | None, *, to_exchange: bool) -> int:
    kind = "exchange" if to_exchange else "queue"
    way = "to" if verb == "bound" else "from"
    text = f"{verb} {kind} {escaped(destination)} {way} exchange {escaped(source)}"
    shown = f"{text}, key {escaped(key)}" if key else text
    return print_result(shown, {"source": source, "destination": destination, "key": key})


binding.add_command(bind, "add")
