"""A shared broker: nodes and databases die under load, nothing confirmed is lost.

`SHARED_FAULTS=N` faults on each engine, in an order of CHAOS_SEED; `SHARED_REPORT=FILE` adds a line
for each of them, and one for each ledger.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest

from headrace.testing import wait_for
from support.galera import Galera, run_galera
from support.mariadb import MariaDb
from support.nodes import Node, Nodes, nodes
from support.shared_ledger import SharedLedger

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(3600),
    # What clients leave behind when their connection ends is no verdict.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]
FAULTS = int(os.environ.get("SHARED_FAULTS", "10"))
LEASE = 5.0
FAKE_TIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")


@dataclass
class Site:
    """Three nodes, and their database: one server, or a cluster."""

    shared: Nodes
    galera: Galera | None
    servers: list[MariaDb]
    random: Random

    def standby(self) -> Node:
        active = self.shared.active()
        return self.random.choice([node for node in self.shared.all if node is not active])

    def restart_database(self, seconds: float) -> None:
        """Kill the server that is written to, and start it again after some time."""
        self.servers[0].kill()
        time.sleep(seconds)
        self.servers[0].start()
        if self.galera is not None:
            self.galera.wait()


@pytest.fixture(scope="module")
def galera() -> Iterator[Galera]:
    with run_galera() as running:
        yield running


@pytest.fixture(params=["mariadb", "galera"])
def site(request: pytest.FixtureRequest, tmp_path: Path, seed: int) -> Iterator[Site]:
    database = f"shared_{uuid4().hex[:8]}"
    cluster: Galera | None = None
    if request.param == "galera":
        cluster = request.getfixturevalue("galera")
        servers, url = cluster.nodes, cluster.url(database)
    else:
        servers = [request.getfixturevalue("mariadb_server")]
        url = servers[0].url(database)
    servers[0].create_database(database)
    with nodes(tmp_path, url, "abc", lease=LEASE) as made:
        for node in made.all:
            node.start()
        made.active()
        yield Site(made, cluster, servers, Random(seed))


def kill_active(site: Site) -> None:
    site.shared.active().kill()


def stop_active(site: Site) -> None:
    site.shared.active().stop()


def hang_active(site: Site) -> None:
    _hang(site, site.shared.active())


def _hang(site: Site, node: Node) -> None:
    """Until another serves."""
    node.send(signal.SIGSTOP)
    _wait_for_another(site, node)
    node.send(signal.SIGCONT)
    node.wait()


def _wait_for_another(site: Site, node: Node) -> None:
    others = [one for one in site.shared.all if one is not node]
    wait_for(lambda: any(one.is_active for one in others), timeout=60)


def _make_active(site: Site, **env: str) -> Node:
    """Another node, with that environment, and the others standing by."""
    node = site.standby()
    node.kill()
    node.start(**env)
    _wait_until_watching(node)
    others = [one for one in site.shared.all if one is not node]
    for other in others:
        other.kill()
    wait_for(lambda: node.is_active, timeout=60)
    for other in others:
        other.start()
        _wait_until_watching(other)
    return node


def _wait_until_watching(node: Node) -> None:
    wait_for(lambda: "standing by" in node.log()[node.began :], timeout=30)


def hang_inside_a_commit(site: Site) -> None:
    node = _make_active(site, HEADRACE_FAILPOINT="shared.commit:400:STOP")
    _wait_for_another(site, node)
    node.send(signal.SIGCONT)
    node.wait()


def kill_inside_a_commit(site: Site) -> None:
    _wait_for_another(site, _make_active(site, HEADRACE_FAILPOINT="shared.updated:400"))


def kill_standby(site: Site) -> None:
    site.standby().kill()


def hang_standby(site: Site) -> None:
    node = site.standby()
    node.send(signal.SIGSTOP)
    time.sleep(LEASE + 2)
    node.send(signal.SIGCONT)


def skew_clocks(site: Site) -> None:
    """A node whose clock is 30 s ahead takes over, then one whose clock is 30 s behind."""
    for offset in ("+30s", "-30s"):
        env = {"FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        _make_active(site, LD_PRELOAD=str(FAKE_TIME), **env)


def kill_database(site: Site) -> None:
    site.restart_database(8 if site.galera else 1)


def stop_database(site: Site) -> None:
    process = site.servers[0].process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    time.sleep(8)
    process.send_signal(signal.SIGCONT)


def cut_off_database(site: Site) -> None:
    assert site.galera is not None
    site.galera.isolate(0, is_cut_off=True)
    time.sleep(8)
    site.galera.isolate(0, is_cut_off=False)
    site.galera.wait()


def kill_both(site: Site) -> None:
    site.shared.active().kill()
    kill_database(site)


Fault = Callable[[Site], None]
KINDS: list[Fault] = [
    kill_active, stop_active, hang_active, hang_inside_a_commit, kill_inside_a_commit,
    kill_standby, hang_standby, kill_database, stop_database, kill_both, cut_off_database,
    skew_clocks,
]  # fmt: skip


def restart(node: Node) -> None:
    """As a supervisor does."""
    if node.process is None or node.process.poll() is not None:
        node.start()


def report(**line: object) -> None:
    text = json.dumps(line)
    print(text, flush=True)  # noqa: T201
    if path := os.environ.get("SHARED_REPORT"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(text + "\n")


def test_nothing_confirmed_is_lost(site: Site) -> None:
    kinds = [one for one in KINDS if one is not cut_off_database or site.galera is not None]
    if not FAKE_TIME.exists():
        kinds.remove(skew_clocks)
    if wanted := os.environ.get("SHARED_KINDS"):
        kinds = [one for one in kinds if one.__name__ in wanted.split(",")]
    site.random.shuffle(kinds)
    engine = "galera" if site.galera else "mariadb"
    ledger = SharedLedger(site.shared)
    with ledger.load():
        time.sleep(3)
        for kind in islice(cycle(kinds), FAULTS):
            ledger.take_longest_gap()
            before = len(ledger.confirmed)
            kind(site)
            site.shared.active()
            wait_for(lambda before=before: len(ledger.confirmed) > before + 500, timeout=60)  # type: ignore[misc]
            for node in site.shared.all:
                restart(node)
            time.sleep(3)
            report(engine=engine, fault=kind.__name__, gap=round(ledger.take_longest_gap(), 2),
                   confirmed=len(ledger.confirmed) - before)  # fmt: skip
    site.shared.active()
    ledger.drain()
    report(engine=engine, faults=FAULTS, confirmed=len(ledger.confirmed), lost=len(ledger.lost()),
           ghosts=len(ledger.ghosts()), unflagged=len(ledger.unflagged()),
           by_client=ledger.confirms)  # fmt: skip
    assert (ledger.lost(), ledger.ghosts()) == (set(), set())
    assert len(ledger.unflagged()) <= FAULTS  # one of each zombie
