"""kill -9 under a mixed load: what was confirmed is there, once, in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.testing.broker_process import BrokerProcess
from headrace.verify import crash_test


def test_nothing_confirmed_is_lost_when_the_broker_is_killed(
    node: BrokerProcess, seed: int
) -> None:
    verdict = crash_test.run(node, rounds=4, seconds=0.6, seed=seed)

    assert verdict.is_good, str(verdict)
    assert verdict.confirmed > 100


@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize("segment_size", ["64KiB", "32MiB"])
def test_nothing_confirmed_is_lost_in_fifty_kills(
    tmp_path: Path, seed: int, segment_size: str
) -> None:
    node = BrokerProcess(tmp_path, "--segment-size", segment_size)
    verdict = crash_test.run(node, rounds=50, seconds=1, seed=seed)

    assert verdict.is_good, str(verdict)
