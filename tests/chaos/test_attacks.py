"""Every attack of ``attacks``: the broker lives, its memory is bounded, a bystander is served."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.attacks import Attack, load
from support.attacks.measure import Outcome, measure

ATTACKS = load()
QUIET_P99_MS = 5.0  # of the control run: only then is time on the clock asserted

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A run without an attack: how busy the machine is without us."""
    return measure(ATTACKS[0], tmp_path_factory.mktemp("control"))


@pytest.mark.parametrize("attack", ATTACKS[1:], ids=lambda attack: attack.name)
def test_a_bystander_is_served_during(attack: Attack, tmp_path: Path, control: Outcome) -> None:
    outcome = measure(attack, tmp_path)

    assert outcome.lives, f"the broker ended or does not answer: {outcome}"
    assert outcome.grown < attack.memory_mib, outcome
    assert outcome.loop_p99 < attack.p99_ms, outcome
    if control.p99 < QUIET_P99_MS:
        assert outcome.p99 < attack.p99_ms, outcome
