"""`headrace demo`: start a broker, show what it does, check every claim, stop it."""

from __future__ import annotations

import signal
import time
from types import FrameType

import click

from headrace import __version__

_FAILED = 1


@click.command()
@click.option("--keep", is_flag=True, help="Leave the broker running at the end and print its URL.")
@click.option("--quick", is_flag=True, help="Leave out MariaDB and Spark, which take a while.")
def demo(keep: bool, quick: bool) -> int:
    """Show what the broker does, in under two minutes, with a small order shop.

    Starts a broker of its own on free ports and stops it at the end. Every claim it prints is
    checked; the exit code is 0 only if all of them held.
    """
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _tell(keep=keep, quick=quick)
    finally:
        signal.signal(signal.SIGTERM, before)


def _tell(*, keep: bool, quick: bool) -> int:
    from headrace.demo.broker import DemoBroker
    from headrace.demo.output import DemoOutput
    from headrace.demo.run import tell

    begun = time.monotonic()
    story = DemoOutput()
    broker = DemoBroker()
    stays = False
    try:
        ready = f"ready after {time.monotonic() - begun:.2f} s: {broker.url}"
        click.echo(f"Headrace {__version__}: the day of a small order shop")
        click.echo(f"   broker {ready}")
        click.echo(f"   our own protocol:         {broker.native_url}")
        click.echo(f"   RocketMQ's name server:   {broker.namesrv_addr}")
        click.echo(f"   the page:                 {broker.page_url}")
        tell(story, broker, quick=quick)
        stays = keep
    finally:
        clean = stays or broker.stop()
    if not keep:
        story.heading("The end of the day")
        story.check("the broker stopped when it was asked to", clean)
    story.end(time.monotonic() - begun)
    if stays:
        click.echo(f"The broker is still running: {broker.url}")
        click.echo(f"Its page: {broker.page_url} (user guest, password guest)")
        click.echo(f"Look at it: headrace queue list --url {broker.native_url}")
        click.echo(f"Stop it with: kill {broker.pid}   (its files: {broker.directory})")
    return _FAILED if story.failures else 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise click.Abort  # as Ctrl-C does: whoever started the broker stops it on the way out
