"""A shared broker on Galera: nodes and databases die under load, nothing confirmed is lost.

`SHARED_ROUNDS=N` repeats the faults; the random order is that of CHAOS_SEED.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest

from headrace.testing import wait_for
from support.galera import Galera, run_galera
from support.nodes import Node, Nodes, nodes
from support.shared_ledger import SharedLedger

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]
ROUNDS = int(os.environ.get("SHARED_ROUNDS", "2"))


@pytest.fixture(scope="module")
def galera() -> Iterator[Galera]:
    with run_galera() as running:
        yield running


@pytest.fixture
def shared(tmp_path: Path, galera: Galera) -> Iterator[Nodes]:
    database = f"shared_{uuid4().hex[:8]}"
    with galera.nodes[0].connect(None) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {database}")
    with nodes(tmp_path, galera.url(database), "abc", lease=5) as made:
        for node in made.all:
            node.start()
        made.active()
        yield made


def restart(node: Node) -> None:
    """As a supervisor does."""
    if node.process is None or node.process.poll() is not None:
        node.start()


def kill_active(shared: Nodes, galera: Galera, random: Random) -> None:
    shared.active().kill()


def stop_active(shared: Nodes, galera: Galera, random: Random) -> None:
    shared.active().stop()


def hang_active(shared: Nodes, galera: Galera, random: Random) -> None:
    node = shared.active()
    node.send(signal.SIGSTOP)
    wait_for(lambda: any(one.is_active for one in shared.all if one is not node), timeout=60)
    node.send(signal.SIGCONT)
    node.wait()


def kill_standby(shared: Nodes, galera: Galera, random: Random) -> None:
    active = shared.active()
    random.choice([node for node in shared.all if node is not active]).kill()


def kill_database(shared: Nodes, galera: Galera, random: Random) -> None:
    galera.nodes[0].kill()
    time.sleep(8)
    galera.nodes[0].start()
    galera.wait()


def cut_off_database(shared: Nodes, galera: Galera, random: Random) -> None:
    galera.isolate(0, is_cut_off=True)
    time.sleep(8)
    galera.isolate(0, is_cut_off=False)
    galera.wait()


def kill_both(shared: Nodes, galera: Galera, random: Random) -> None:
    shared.active().kill()
    kill_database(shared, galera, random)


Fault = Callable[[Nodes, Galera, Random], None]
FAULTS: list[Fault] = [
    kill_active, stop_active, hang_active, kill_standby, kill_database, cut_off_database, kill_both,
]  # fmt: skip


def test_nothing_confirmed_is_lost(shared: Nodes, galera: Galera, seed: int) -> None:
    random = Random(seed)
    ledger = SharedLedger(shared)
    gaps: dict[str, float] = {}
    with ledger.load(publishers=3, consumers=2):
        for _ in range(ROUNDS):
            for fault in random.sample(FAULTS, len(FAULTS)):
                time.sleep(3)
                before = len(ledger.gaps)
                fault(shared, galera, random)
                shared.active()
                wait_for(lambda before=before: len(ledger.gaps) > before + 100, timeout=60)  # type: ignore[misc]
                name = fault.__name__
                gaps[name] = max(gaps.get(name, 0), max(ledger.gaps[before:]))
                for node in shared.all:
                    restart(node)
    shared.active()
    ledger.drain()
    sys.stdout.write(
        f"confirmed {len(ledger.confirmed)}, lost {len(ledger.lost())}, unflagged duplicates "
        f"{len(ledger.unflagged())}, longest gaps {gaps}\n"
    )
    assert (ledger.lost(), ledger.ghosts()) == (set(), set())
    assert len(ledger.unflagged()) <= ROUNDS * len(FAULTS)  # one of each zombie
