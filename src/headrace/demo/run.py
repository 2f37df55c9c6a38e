"""Runs the chapters against one broker; a chapter that fails does not stop the next."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.client import HeadraceError
from headrace.demo.broker import DemoBroker
from headrace.demo.chapters.client_recovery import unattended
from headrace.demo.chapters.console import page
from headrace.demo.chapters.first_messages import has_pika, three_ways
from headrace.demo.chapters.pipeline import pipeline
from headrace.demo.chapters.rocketmq import rocketmq_group
from headrace.demo.chapters.topics import in_a_database, in_the_broker
from headrace.demo.database import DemoDatabase
from headrace.demo.output import DemoOutput
from headrace.errors import BrokerError
from headrace.rocketmq import RocketMQError

WITH_PIKA = has_pika()
QUICK = (unattended, in_the_broker, rocketmq_group, page)
SLOW = (in_a_database, pipeline)  # they start other programs
if WITH_PIKA:
    from headrace.demo.chapters.with_pika import CHAPTERS, crash
    from headrace.demo.clients import ClientError, Clients


def run_chapters(output: DemoOutput, broker: DemoBroker, *, quick: bool = False) -> None:
    """Each chapter is a function; the first line of its docstring is its heading."""
    with _chapter(output, str(three_ways.__doc__)):
        three_ways(output, broker)
    if WITH_PIKA:
        _run_pika_chapters(output, broker)
    for chapter in QUICK:
        with _chapter(output, str(chapter.__doc__)):
            chapter(output, broker)
    if not quick:
        with DemoDatabase() as database:
            for slow in SLOW:
                with _chapter(output, str(slow.__doc__)):
                    slow(output, broker, database)
    if not WITH_PIKA:
        output.heading("Skipped")
        output.remark(
            "Twelve chapters need pika, which is not installed: routing, work queues, confirms, "
            "priorities, dead letters, delays and more. Install it: pip install pika"
        )


def _run_pika_chapters(output: DemoOutput, broker: DemoBroker) -> None:
    for chapter in CHAPTERS:
        with _chapter(output, str(chapter.__doc__)), Clients(broker.url) as clients:
            chapter(output, clients)
    with _chapter(output, str(crash.__doc__)):
        crash(output, broker)


@contextmanager
def _chapter(output: DemoOutput, heading: str) -> Iterator[None]:
    output.heading(heading)
    failures = (
        HeadraceError,
        BrokerError,
        RocketMQError,
        OSError,
        subprocess.SubprocessError,
        *((ClientError,) if WITH_PIKA else ()),
    )
    try:
        yield
    except failures as error:
        output.check(f"the chapter ended with {type(error).__name__}", False, error)
