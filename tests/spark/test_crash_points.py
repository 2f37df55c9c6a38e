"""A crash at any point of any batch, with a model of Spark's engine: every message once."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.spark_lab.lab import BrokerServer, DatabaseServer, Server
from support.spark_lab.micro_batches import Engine


@pytest.fixture(params=["queue", "topic", "mysql"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    kind = request.param
    made: Server = DatabaseServer(tmp_path) if kind == "mysql" else BrokerServer(tmp_path, kind)
    yield made
    made.stop()


class World:
    """The source grows, consumers take what the query has not read, the server is killed."""

    def __init__(self, server: Server, chance: random.Random) -> None:
        self.server = server
        self.chance = chance
        self.sent = 0
        self.kills = 2

    def grow(self, count: int) -> None:
        self.server.grow(range(self.sent, self.sent + count))
        self.sent += count

    def __call__(self) -> None:
        dice = self.chance.random()
        if dice < 0.1:
            self.grow(self.chance.randrange(1, 60))
        elif self.kills and dice > 0.995:
            self.kills -= 1
            self.server.kill()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("crashes", [15, pytest.param(300, marks=pytest.mark.spark)])
@pytest.mark.parametrize("start", ["latest", pytest.param("earliest", marks=pytest.mark.spark)])
def test_a_crash_at_any_point(server: Server, start: str, crashes: int) -> None:
    chance = random.Random(os.environ.get("CHAOS_SEED", f"{start} {type(server).__name__}"))
    world = World(server, chance)
    world.grow(50)
    kind = server.kind if isinstance(server, BrokerServer) else "topic"
    reading = {"url": server.url, kind: "in", "startingOffsets": start}
    engine = Engine(reading, {"url": server.url, "topic": "out"}, chance)
    if start == "latest":  # begun, and killed at once: from here on everything counts
        engine.risk, engine.meanwhile = 0.5, lambda: world.grow(3)
        while not engine.offsets:
            engine.run(1)
    elif isinstance(server, BrokerServer):
        engine.run(1)
        server.is_pinned = True  # now consumers may be faster than the query
    engine.risk, engine.meanwhile = 0.12, world
    while engine.crashes < crashes:
        world.grow(20)
        engine.run(20)
        assert len(engine.errors) <= 2, (
            engine.errors
        )  # one for each time that the server was killed
    while world.kills:
        world.kills -= 1
        server.kill()
    engine.risk, engine.meanwhile = 0.0, lambda: None
    assert engine.run(10_000), engine.errors
    found = Counter(server.received())
    first = min(map(int, found)) if start == "latest" else 0
    assert found == Counter(b"%d" % n for n in range(first, world.sent))
    if isinstance(server, BrokerServer):  # ids of databases may have holes
        begun, ended = places(engine.began), places(engine.offsets[-1])
        assert len(found) == sum(ended.values()) - sum(begun.values())


def places(offset: dict[str, Any]) -> dict[str, int]:
    found: dict[str, int] = offset["sources"]["in"]["next"]
    return found
