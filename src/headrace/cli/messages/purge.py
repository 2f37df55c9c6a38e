"""`headrace purge`: drop the messages that wait in a queue, after a question."""

from __future__ import annotations

import sys

import click

from headrace.cli.support.broker_options import Address, broker_options, connected, json_option
from headrace.cli.support.output import FAILED, counted, escaped, tell
from headrace.client import Channel, NotFound


@click.command()
@click.argument("queue")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@broker_options
def purge(address: Address, queue: str, yes: bool, as_json: bool) -> int:
    """Drop all messages that wait in QUEUE. Those delivered and not acknowledged stay."""
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("there is nobody to ask: say --yes to drop the messages")
    with connected(address) as channel:
        if not yes and not _agrees(channel, queue):
            click.echo("nothing was dropped", err=True)
            return FAILED
        count = channel.queue_purge(queue)
    text = f"dropped {counted(count, 'message')} of queue {escaped(queue)}"
    return tell(text, {"queue": queue, "purged": count}, as_json=as_json)


def _agrees(channel: Channel, queue: str) -> bool:
    waiting = next(
        (row["messages"] for row in channel.rows("queues") if row["name"] == queue), None
    )
    if waiting is None:
        raise NotFound(f"no queue '{queue}' in vhost '{channel.connection.settings.vhost}'")
    question = f"Drop the {waiting:,} messages that wait in queue {escaped(queue)}?"
    return click.confirm(question, err=True)
