"""Appends clicks of imaginary users to the topic `clicks`: python make_clicks.py [COUNT].

Always the same ones. The last is by user "end", a day later, so that every visit has an end.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import headrace.topics

PAGES = ("/", "/search", "/shoes", "/hats", "/basket", "/pay")
USERS = 25
BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)


def clicks(count: int, seed: int = 5) -> Iterator[dict[str, str]]:
    """A pure function of its arguments."""
    chance = random.Random(seed)
    away = {f"user-{n}": BEGIN + timedelta(seconds=chance.uniform(0, 3600)) for n in range(USERS)}
    for _ in range(count - 1):
        user = min(away, key=lambda name: away[name])
        yield {"user": user, "page": chance.choice(PAGES), "at": away[user].isoformat()}
        breaks = chance.random() < 0.1
        minutes = chance.uniform(15, 90) if breaks else chance.uniform(0, 6)
        away[user] += timedelta(minutes=minutes)
    last = max(away.values()) + timedelta(days=1)
    yield {"user": "end", "page": "/", "at": last.isoformat()}


def append(url: str, made: Iterable[dict[str, str]], topic: str = "clicks") -> int:
    """Each user's clicks stay in their order; returns how many there were."""
    with headrace.topics.open(url) as store:
        store.create(topic, queues=2)
        messages = [
            headrace.topics.NewMessage(json.dumps(one).encode(), ref_key=one["user"])
            for one in made
        ]
        return len(store.producer(topic, token="appid-shop").append_many(messages))


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    broker = os.environ.get("HEADRACE_URL", "headrace://guest:guest@127.0.0.1:9090/")
    sys.stdout.write(f"appended {append(broker, clicks(wanted))} clicks\n")
