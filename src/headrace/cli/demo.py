"""`headrace demo`: start a broker, show what it does, check every claim, stop it."""

from __future__ import annotations

import signal
import time
from importlib.util import find_spec
from types import FrameType

import click

from headrace import __version__

_FAILED = 1


@click.command()
@click.option("--keep", is_flag=True, help="Leave the broker running at the end and print its URL.")
def demo(keep: bool) -> int:
    """Show what the broker does, in under half a minute, with a small order shop.

    Starts a broker of its own on a free port and stops it at the end. Every claim it prints is
    checked; the exit code is 0 only if all of them held.
    """
    if find_spec("pika") is None:
        click.echo("headrace: the demonstration needs pika: pip install pika", err=True)
        return _FAILED
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _tell(keep=keep)
    finally:
        signal.signal(signal.SIGTERM, before)


def _tell(*, keep: bool) -> int:
    from headrace.demo.broker import DemoBroker
    from headrace.demo.run import tell
    from headrace.demo.story import Story

    begun = time.monotonic()
    story = Story()
    broker = DemoBroker()
    stays = False
    try:
        ready = f"ready after {time.monotonic() - begun:.2f} s: {broker.url}"
        click.echo(f"Headrace {__version__}: the day of a small order shop")
        click.echo(f"   broker {ready}")
        tell(story, broker)
        stays = keep
    finally:
        clean = stays or broker.stop()
    if not keep:
        story.heading("The end of the day")
        story.check("the broker stopped when it was asked to", clean)
    story.end(time.monotonic() - begun)
    if stays:
        click.echo(f"The broker is still running: {broker.url}")
        click.echo(f"Stop it with: kill {broker.pid}   (its files: {broker.directory})")
    return _FAILED if story.failures else 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise click.Abort  # as Ctrl-C does: whoever started the broker stops it on the way out
