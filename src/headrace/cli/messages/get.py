"""`headrace get`: take the first messages of a queue, or look at them."""

from __future__ import annotations

import click

from headrace.cli.support.broker_options import Address, broker_options, connected
from headrace.cli.support.message_output import choose, format_options, write
from headrace.cli.support.output import DONE, FAILED, escaped


@click.command(short_help="Take a message of a queue, or look at it.")
@click.argument("queue")
@click.option(
    "-n", "--count", default=1, type=click.IntRange(min=1), help="Maximum number of messages. [1]"
)
@click.option("--requeue", is_flag=True, help="Requeue them after printing.")
@format_options
@broker_options
def get(
    address: Address, queue: str, count: int, requeue: bool, as_json: bool, raw: bool, lines: bool
) -> int:
    """Print the first message of QUEUE and acknowledge it; with --requeue it stays.

    The exit code is 1 when the queue is empty. Requeued messages are marked as
    redelivered, and a delivery limit of the queue counts them.
    """
    render = choose(as_json=as_json, raw=raw, lines=lines)
    found = 0
    with connected(address) as channel:
        while found < count and (delivery := channel.basic_get(queue)) is not None:
            found += 1
            write([render(delivery)])
            if not requeue:
                delivery.ack()
        # Closing the channel puts back what was not acknowledged, all at once and in order.
    if found == 0:
        click.echo(f"headrace: queue '{escaped(queue)}' is empty", err=True)
    return DONE if found else FAILED
