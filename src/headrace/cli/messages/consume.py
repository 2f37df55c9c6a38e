"""`headrace consume`, `get` and `purge`: take messages out of a queue."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from types import FrameType

import click

from headrace.cli.support.broker_options import broker_options, connected
from headrace.cli.support.message_output import Render, choose, format_options, write
from headrace.cli.support.options import flag, yes_option
from headrace.cli.support.output import (
    DONE,
    FAILED,
    counted,
    escaped,
    json_option,
    print_result,
    progress_bar,
)
from headrace.cli.support.signals import handled_signals
from headrace.client import AlreadySettled, Channel, Delivery, NotFound
from headrace.client.deliveries import DeliveryStream
from headrace.client.settings import Settings
from headrace.errors import ConfigError

_PREFETCH = 2000
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@click.command()
@click.argument("queue")
@click.option(
    "-n", "--count", type=click.IntRange(min=1), help="Stop after this many messages. [no limit]"
)
@click.option("-F", "--follow", is_flag=True, help="Wait for more, until Ctrl-C.")
@click.option(
    "--idle",
    default=0.5,
    type=click.FloatRange(min=0.05),
    metavar="SECONDS",
    help="Without --follow: stop after this many seconds without a message. [0.5]",
)
@click.option(
    "--prefetch",
    default=_PREFETCH,
    type=click.IntRange(1, 65535),
    help=f"Unacknowledged messages at a time (prefetch). [{_PREFETCH}]",
)
@flag("--auto-ack", "Acknowledge before printing: no duplicates, but messages may be lost.")
@format_options
@broker_options
def consume(
    address: Settings,
    queue: str,
    count: int | None,
    follow: bool,
    idle: float,
    prefetch: int,
    auto_ack: bool,
    as_json: bool,
    raw: bool,
    lines: bool,
) -> int:
    """Print the messages of QUEUE. Each is acknowledged after it was printed.

    Stops when the queue is empty, after --count messages, or at Ctrl-C. What was not printed stays
    in the queue.
    """
    render = choose(as_json=as_json, raw=raw, lines=lines)
    with connected(address, reconnect=follow) as channel:
        size = min(prefetch, count or prefetch)
        channel.basic_qos(size)
        stream = channel.deliveries(queue, idle_timeout=None if follow else idle)
        taking = _Printer(render, count, size, auto_ack=auto_ack)
        elsewhere = not sys.stdout.isatty()  # on a terminal, messages are their own progress
        with (
            _orderly_stop(lambda: stream.end(None)) as stopped,
            progress_bar("consuming", "messages", wanted=elsewhere) as progress,
        ):
            _take(stream, taking, stopped, progress)
    if stopped and not follow:
        click.echo(f"headrace: interrupted after {counted(taking.printed, 'message')}", err=True)
        return FAILED
    return DONE


class _Printer:
    """Prints batches and acknowledges them.

    The broker sends ``prefetch`` messages more than are acknowledged. So that it never sends more
    than are wanted, the last ones are acknowledged when all have arrived.
    """

    def __init__(
        self,
        render: Render,
        count: int | None,
        prefetch: int,
        *,
        auto_ack: bool,
    ) -> None:
        self.printed = 0
        self.count = count
        self._render = render
        self._auto_ack = auto_ack
        self._free = None if count is None else count - prefetch
        self._held: list[Delivery] = []

    @property
    def is_done(self) -> bool:
        return self.count is not None and self.printed >= self.count

    def take(self, batch: list[Delivery]) -> None:
        if self.count is not None:
            batch = batch[: self.count - self.printed]
        if self._auto_ack:
            self._settle(batch)
            write(map(self._render, batch))
        else:
            write(map(self._render, batch))
            self._settle(batch)
        self.printed += len(batch)

    def _settle(self, batch: list[Delivery]) -> None:
        free = len(batch) if self._free is None else min(self._free, len(batch))
        if self._free is not None:
            self._free -= free
            self._held += batch[free:]
        for delivery in batch[:free]:
            delivery.ack()

    def settle_rest(self) -> None:
        """Everything that was printed; nothing else is sent afterwards."""
        held, self._held = self._held, []
        for delivery in held:
            with suppress(AlreadySettled):  # of a connection that was lost meanwhile
                delivery.ack()


def _take(
    stream: DeliveryStream,
    taking: _Printer,
    stopped: list[int],
    progress: Callable[[int, int | None], None],
) -> None:
    with closing(stream.batches()) as batches:
        for batch in batches:
            taking.take(batch)
            progress(taking.printed, taking.count)
            if taking.is_done or stopped:
                stream.close()  # before the last acks: for each of them the broker would send more
                break
        taking.settle_rest()  # before the loop is left, which requeues unsettled messages


@contextmanager
def _orderly_stop(wake: Callable[[], None]) -> Iterator[list[int]]:
    """A first Ctrl-C (or SIGTERM) is noted, so that no batch is cut short; a second one breaks."""
    stopped: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        stopped.append(number)
        wake()

    with handled_signals(note, *_SIGNALS, once=True):
        yield stopped


@click.command(short_help="Take, browse or reject messages of a queue.")
@click.argument("queue")
@click.option(
    "-n", "--count", default=1, type=click.IntRange(min=1), help="Maximum number of messages. [1]"
)
@flag("--requeue", "Requeue them after printing.")
@flag("--reject", "Dead-letter them, or drop them without an exchange.")
@format_options
@broker_options
def get(
    address: Settings,
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


@click.command()
@click.argument("queue")
@yes_option
@json_option
@broker_options
def purge(address: Settings, queue: str, yes: bool) -> int:
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
