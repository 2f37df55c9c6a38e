"""`headrace demo`: start a broker, show what it does, check every claim, stop it."""

from __future__ import annotations

import signal
import time
from types import FrameType

import click

from headrace import __version__
from headrace.cli.support.options import flag
from headrace.cli.support.signals import handled_signals

_FAILED = 1
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_NEXT = """
Next:
   headrace serve                   run a broker, page on port 15672
   headrace demo --keep             this demo, with the broker left running
   docs/getting-started.md          first messages from your own program
   docs/migrate-from-rabbitmq.md    take over definitions from RabbitMQ"""


@click.command()
@flag("--keep", "Leave the broker running at the end and print its URL.")
@flag("--quick", "Skip the chapters with MariaDB and Spark, which take longer.")
def demo(keep: bool, quick: bool) -> int:
    """Show what the broker does, with a small order shop.

    Takes about half a minute, longer on a busy machine; with --quick a few seconds. Starts a
    private broker on free ports and stops it at the end.
    Every claim it prints is checked; the exit code is 0 only if all of them held.
    """
    with handled_signals(_interrupt, *_SIGNALS):
        return _run(keep=keep, quick=quick)


def _run(*, keep: bool, quick: bool) -> int:
    from headrace.demo.broker import DemoBroker
    from headrace.demo.output import DemoOutput
    from headrace.demo.run import run_chapters

    begun = time.monotonic()
    output = DemoOutput()
    broker = DemoBroker()
    stays = False
    try:
        ready = f"ready after {time.monotonic() - begun:.2f} s: {broker.url}"
        click.echo(f"Headrace {__version__}: what the broker does, shown with a small order shop.")
        click.echo("Each line with a check mark is a claim that was tested just now.")
        click.echo(f"   broker {ready}")
        click.echo(f"   native protocol:          {broker.native_url}")
        click.echo(f"   RocketMQ name server:     {broker.namesrv_addr}")
        click.echo(f"   management page:          {broker.page_url}")
        run_chapters(output, broker, quick=quick)
        stays = keep
    finally:
        clean = stays or broker.end()
    if not keep:
        output.heading("Shutdown")
        output.check("the broker stopped with exit status 0", clean)
    output.end(time.monotonic() - begun)
    if stays:
        click.echo(f"The broker is still running: {broker.url}")
        click.echo(f"Its page: {broker.page_url} (user guest, password guest)")
        click.echo(f"List its queues: headrace queue list --url {broker.native_url}")
        click.echo(f"Stop it with: kill {broker.pid}   (its files: {broker.directory})")
    else:
        click.echo(_NEXT)
    return _FAILED if output.failures else 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    for each in _SIGNALS:  # a second one would leave behind what the first one stops
        signal.signal(each, signal.SIG_IGN)
    raise click.Abort
