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
@click.option(
    "--quick", is_flag=True, help="Skip the chapters with MariaDB and Spark, which take longer."
)
def demo(keep: bool, quick: bool) -> int:
    """Show what the broker does, in under two minutes, with a small order shop.

    Starts a private broker on free ports and stops it at the end. Every claim it prints is
    checked; the exit code is 0 only if all of them held.
    """
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _run(keep=keep, quick=quick)
    finally:
        signal.signal(signal.SIGTERM, before)


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
        click.echo(f"Headrace {__version__}: the day of a small order shop")
        click.echo(f"   broker {ready}")
        click.echo(f"   our own protocol:         {broker.native_url}")
        click.echo(f"   RocketMQ's name server:   {broker.namesrv_addr}")
        click.echo(f"   the page:                 {broker.page_url}")
        run_chapters(output, broker, quick=quick)
        stays = keep
    finally:
        clean = stays or broker.stop()
    if not keep:
        output.heading("The end of the day")
        output.check("the broker stopped when it was asked to", clean)
    output.end(time.monotonic() - begun)
    if stays:
        click.echo(f"The broker is still running: {broker.url}")
        click.echo(f"Its page: {broker.page_url} (user guest, password guest)")
        click.echo(f"Look at it: headrace queue list --url {broker.native_url}")
        click.echo(f"Stop it with: kill {broker.pid}   (its files: {broker.directory})")
    return _FAILED if output.failures else 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise click.Abort  # as Ctrl-C does: the broker is stopped on the way out
