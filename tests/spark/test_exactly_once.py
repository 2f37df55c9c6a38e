"""Streams, with everything killed that can be: every message once in the sink."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from headrace.testing import wait_for
from support.spark_lab.cluster import Cluster, started
from support.spark_lab.lab import Driver, Lab

MakeLab = Callable[..., Lab]
BATCH = 400.0  # seconds within which something must have come, on a busy machine


@pytest.fixture
def make_lab(tmp_path: Path) -> Iterator[MakeLab]:
    labs: list[Lab] = []

    def make(**options: str) -> Lab:
        labs.append(Lab(tmp_path, **options))
        return labs[-1]

    yield make
    for lab in labs:
        lab.server.stop()


def some_time(driver: Driver, seconds: float) -> None:
    """A random moment comes, unless the driver ends before."""
    with suppress(subprocess.TimeoutExpired):
        driver.process.wait(seconds)


def progress(lab: Lab, driver: Driver, wanted: int) -> None:
    """Until that much is in the sink. Nothing that is killed beside it may end the driver."""
    wait_for(lambda: len(lab.received()) >= wanted or not driver.is_alive, BATCH, 0.05)
    assert driver.is_alive, lab.log()


def kill_executor(cluster: Cluster, chance: random.Random) -> None:
    victim = chance.choice(wait_for(cluster.executors, timeout=BATCH))
    os.kill(victim, signal.SIGKILL)


def accident(lab: Lab, driver: Driver, chance: random.Random, kill: Callable[[], None]) -> None:
    """In the middle of a batch."""
    lab.grow(chance.randrange(700, 900))
    some_time(driver, chance.uniform(0, 1))
    kill()
    lab.grow(chance.randrange(700, 900))


def run(
    lab: Lab,
    *,
    driver_kills: int,
    broker_kills: int,
    seed: int,
    executor_kills: int = 0,
    cluster: Cluster | None = None,
) -> None:
    """Kill at random moments; the source grows, the number of tasks changes. Then finish."""
    chance = random.Random(seed)
    lab.grow(1000)
    rounds = range(driver_kills)
    with_executor = set(chance.sample(rounds, executor_kills))
    with_broker = set(chance.sample(rounds, broker_kills))
    for number in rounds:
        before = len(lab.received())
        with lab.driver("run", chance.randrange(90, 400)) as driver:
            assert driver.wait_until_started(), lab.log()
            if number % 3 == 2 and number not in with_executor | with_broker:
                some_time(driver, chance.uniform(0, 10))  # perhaps before its first batch
                driver.kill()
                continue
            lab.grow(chance.randrange(300, 900))
            step = min(700, lab.sent - before) if lab.shape == "copy" else 8
            progress(lab, driver, before + chance.randrange(step) + 1)
            if number in with_executor:  # the query has to get over it by itself
                assert cluster is not None
                before = len(lab.received())
                accident(lab, driver, chance, partial(kill_executor, cluster, chance))
                progress(lab, driver, before + 1)
            if number in with_broker:  # what was staged is gone: it may end, and begin again
                accident(lab, driver, chance, lab.server.kill)
            some_time(driver, chance.uniform(0, 1.5))  # into the middle of a later batch
            driver.kill()
    lab.grow(500)
    with lab.driver("finish", 170) as driver:
        assert driver.process.wait(300) == 0, lab.log()
    lab.check()


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_two_kills_of_the_driver_and_one_of_the_broker(make_lab: MakeLab) -> None:
    run(make_lab(), driver_kills=2, broker_kills=1, seed=7)


@pytest.mark.spark
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("route", "shape"),
    [
        ("queue-delta", "copy"),
        ("topic-topic", "copy"),
        ("mysql-mysql", "copy"),
        ("queue-topic", "counts"),
        ("mysql-mysql", "counts"),
    ],
)
def test_ten_kills_of_the_driver_five_of_an_executor_two_of_the_broker(
    make_lab: MakeLab, tmp_path: Path, route: str, shape: str
) -> None:
    """Compacted, under retention, with tasks that run twice. KILLS=4,2,1 does a part of them."""
    seed = int(os.environ.get("CHAOS_SEED", "11"))
    kills = [int(one) for one in os.environ.get("KILLS", "10,5,2").split(",")]
    with started(tmp_path) as cluster:
        lab = make_lab(route=route, shape=shape, master=cluster.url)
        driver, executor, broker = kills
        run(
            lab,
            driver_kills=driver,
            executor_kills=executor,
            broker_kills=broker,
            seed=seed,
            cluster=cluster,
        )
        lab.server.check_cleaned()
