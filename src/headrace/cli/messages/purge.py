"""`headrace purge`: delete the ready messages of a queue, after a confirmation."""

from __future__ import annotations

import sys

import click

from headrace.cli.support.broker_options import Address, broker_options, connected
from headrace.cli.support.options import yes_option
from headrace.cli.support.output import FAILED, counted, escaped, json_option, print_result
from headrace.client import Channel, NotFound


@click.command()
@click.argument("queue")
@yes_option
@json_option
@broker_options
def purge(address: Address, queue: str, yes: bool) -> int:
    """Delete all ready messages of QUEUE. Unacknowledged messages stay."""
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("not a terminal: pass --yes to confirm")
    with connected(address) as channel:
        if not yes and not _agrees(channel, queue):
            click.echo("nothing was deleted", err=True)
            return FAILED
        count = channel.queue_purge(queue)
    text = f"dropped {counted(count, 'message')} of queue {escaped(queue)}"
    return print_result(text, {"queue": queue, "purged": count})


def _agrees(channel: Channel, queue: str) -> bool:
    waiting = next(
        (row["messages"] for row in channel.rows("queues") if row["name"] == queue), None
    )
    if waiting is None:
        raise NotFound(f"no queue '{queue}' in vhost '{channel.connection.settings.vhost}'")
    question = f"Drop the {waiting:,} messages that wait in queue {escaped(queue)}?"
    return click.confirm(question, err=True)
