"""`headrace get`: take, browse or reject the first messages of a queue."""

from __future__ import annotations

import click

from headrace.cli.support.broker_options import Address, broker_options, connected
from headrace.cli.support.message_output import choose, format_options, write
from headrace.cli.support.output import DONE, FAILED, escaped
from headrace.errors import ConfigError


@click.command(short_help="Take, browse or reject messages of a queue.")
@click.argument("queue")
@click.option(
    "-n", "--count", default=1, type=click.IntRange(min=1), help="Maximum number of messages. [1]"
)
@click.option("--requeue", is_flag=True, help="Requeue them after printing.")
@click.option("--reject", is_flag=True, help="Dead-letter them, or drop them without an exchange.")
@format_options
@broker_options
def get(
    address: Address,
    queue: str,
    count: int,
    requeue: bool,
    reject: bool,
    as_json: bool,
    raw: bool,
    lines: bool,
) -> int:
    """Print the first message of QUEUE and acknowledge it.

    With --requeue it stays in the queue. With --reject it is rejected, as by a consumer that
    cannot process it: it goes to the dead-letter exchange of the queue.

    The exit code is 1 when the queue is empty. Requeued messages are marked as
    redelivered, and a delivery limit of the queue counts them.
    """
    if requeue and reject:
        raise ConfigError("--requeue and --reject exclude each other")
    render = choose(as_json=as_json, raw=raw, lines=lines)
    found = 0
    with connected(address) as channel:
        while found < count and (delivery := channel.basic_get(queue)) is not None:
            found += 1
            write([render(delivery)])
            if reject:
                delivery.nack(requeue=False)
            elif not requeue:
                delivery.ack()
        # Closing the channel requeues what was not acknowledged, all at once and in order.
    if found == 0:
        click.echo(f"headrace: queue '{escaped(queue)}' is empty", err=True)
    return DONE if found else FAILED
