"""Makes jobs fail, so that there are dead letters: python make_failures.py [COUNT].

Always the same ones: some are rejected by their worker, others wait until they expire. Both go to
the queue `jobs.dead`. One in a hundred has a body that is no job at all.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from headrace.client import Channel, ConnectionFactory

KINDS = ("mail", "resize", "invoice")
NOT_A_JOB = b"<job/>"


class Job(NamedTuple):
    """``fate``: done, rejected or expired."""

    body: bytes
    fate: str


def jobs(count: int, seed: int = 9) -> Iterator[Job]:
    """A pure function of its arguments."""
    chance = random.Random(seed)
    for number in range(count):
        fate = chance.choices(("done", "rejected", "expired"), (6, 3, 1))[0]
        kind = chance.choice(KINDS)
        if number % 100 == 99:
            yield Job(NOT_A_JOB, "rejected")
        else:
            yield Job(json.dumps({"job": number, "kind": kind}).encode(), fate)


def declare(channel: Channel) -> None:
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "jobs.dead"}
    channel.queue_declare("jobs.dead", durable=True)
    channel.queue_declare("jobs", durable=True, arguments=dead)
    channel.queue_declare("jobs.waiting", durable=True, arguments=dead)


def fail(channel: Channel, made: Iterable[Job]) -> int:
    """Publishes the jobs and works on them; returns how many dead letters there will be."""
    declare(channel)
    wanted = list(made)
    for job in wanted:
        if job.fate == "expired":  # no consumer reads this queue
            properties = {"delivery_mode": 2, "expiration": "1"}
            channel.basic_publish("", "jobs.waiting", properties, job.body)
            continue
        channel.basic_publish("", "jobs", {"delivery_mode": 2}, job.body)
        taken = channel.basic_get("jobs", auto_ack=False)
        assert taken is not None
        if job.fate == "done":
            taken.ack()
        else:
            taken.nack(requeue=False)
    return sum(job.fate != "done" for job in wanted)


def connect(url: str) -> ConnectionFactory:
    parts = urlsplit(url)
    return ConnectionFactory(
        parts.hostname or "127.0.0.1",
        parts.port or 9090,
        unquote(parts.username or "guest"),
        unquote(parts.password or "guest"),
        unquote(parts.path[1:]) or "/",
    )


if __name__ == "__main__":
    amount = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    broker = os.environ.get("HEADRACE_URL", "headrace://guest:guest@127.0.0.1:9090/")
    with connect(broker).new_connection() as connection:
        letters = fail(connection.create_channel(), jobs(amount))
    sys.stdout.write(f"{amount} jobs, {letters} dead letters\n")
