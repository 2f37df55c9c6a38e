"""The broker dies at each named moment of its storage, in the middle of a load."""

from __future__ import annotations

import signal

import pytest

from headrace.store.failpoints import NAMES
from headrace.testing.broker_process import BrokerProcess
from headrace.verify.crash_test import CrashTest, Load

# Reached not under load, but while the broker starts or stops.
AT_START = {"recovery.cut", "metadata.migrate", "metadata.migrated"}
AT_STOP = {"close.synced"}
SHARED = {name for name in NAMES if name.startswith("shared.")}  # tests/integration/shared
UNDER_LOAD = [name for name in NAMES if name not in AT_START | AT_STOP | SHARED]
EVERY_DAY = {"journal.written", "checkpoint.renamed", "compaction.synced"}
BUSY_SECONDS = 20.0  # no failpoint took longer to be reached

MOMENTS = [
    pytest.param(name, passage, marks=() if often else (pytest.mark.chaos,))
    for name in UNDER_LOAD
    for passage in (1, 3, 10)
    for often in [name in EVERY_DAY and passage == 3]
]


@pytest.mark.parametrize(("name", "passage"), MOMENTS)
def test_a_death_under_load_loses_nothing(
    node: BrokerProcess, seed: int, name: str, passage: int
) -> None:
    test = CrashTest(node, seed)
    if not name.startswith("metadata."):  # only the first start has something to declare
        test.round(0.5)

    hurt = test.round(BUSY_SECONDS, HEADRACE_FAILPOINT=f"{name}:{passage}")
    test.round(0.3)

    verdict = test.conclude()
    assert verdict.is_good, str(verdict)
    assert hurt.died_by_itself, f"{name} was not passed {passage} times"


@pytest.mark.chaos
def test_a_death_while_recovering_loses_nothing(node: BrokerProcess, seed: int) -> None:
    test = CrashTest(node, seed)
    for _ in range(5):
        test.round(0.5)
        node.launch(HEADRACE_FAILPOINT="recovery.cut")

        assert node.wait(10) == -signal.SIGKILL

    verdict = test.conclude()
    assert verdict.is_good, str(verdict)


def test_a_death_while_stopping_loses_nothing(node: BrokerProcess, seed: int) -> None:
    test = CrashTest(node, seed)
    node.start(HEADRACE_FAILPOINT="close.synced")
    load = Load(node, test.ledger, test.chance)
    load.run(0.5)

    assert node.stop() == -signal.SIGKILL

    load.finish()
    verdict = test.conclude()
    assert verdict.is_good, str(verdict)
