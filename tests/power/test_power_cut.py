"""Power cuts: what was confirmed stays, what was settled is gone, a move happens whole or not.

Each guard is shown to be needed: with one sync taken out, some seed must break a promise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from headrace.store.log.group_commit import CommitJob
from headrace.store.log.segment_scan import SegmentScan
from support.storage.workload import Mutation, Workload

SEEDS = 60
MANY_SEEDS = 500
PATIENCE = 400  # seeds, until a missing sync must have shown

MUTATIONS: dict[str, Mutation] = {
    "the log is not synced": lambda operation, name, cold: (
        operation == "sync" and name.endswith(".log") and not cold
    ),
    "cold segments are not synced": lambda operation, name, cold: (
        operation == "sync" and name.endswith(".log") and cold
    ),
    "the name of a segment is not synced": lambda operation, name, cold: (
        operation == "sync_directory" and name.endswith(".log")
    ),
    "the checkpoint is not synced": lambda operation, name, cold: (
        operation == "sync" and name.startswith("checkpoint")
    ),
    "what recovery found is not synced": lambda operation, name, cold: operation == "recovery",
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Every torn tail is told; here there are thousands."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def broken_seed(seeds: range, mutation: Mutation | None) -> int | None:
    for seed in seeds:
        try:
            Workload(seed, mutation).run()
        except Exception:
            return seed
    return None


@pytest.mark.parametrize("seed", range(SEEDS))
def test_promises_are_kept_over_power_cuts(seed: int) -> None:
    Workload(seed).run()


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(SEEDS, SEEDS + MANY_SEEDS))
def test_promises_are_kept_over_many_power_cuts(seed: int) -> None:
    Workload(seed).run()


def test_readers_of_what_no_sync_covers_see_offsets_given_twice() -> None:
    """The rule of readers is needed: when every commit counts as a sync, an offset goes back."""

    class Hasty(Workload):
        def _done(self, job: CommitJob) -> None:
            super()._done(job)
            job.sync = True  # the log takes it for one

    with pytest.raises(AssertionError, match="went back"):
        for seed in range(PATIENCE):
            Hasty(seed).run()


def test_without_the_rule_of_sectors_a_power_cut_would_look_like_damage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SegmentScan, "_is_torn", lambda scan, low, high: False)

    assert broken_seed(range(SEEDS), None) is not None


@pytest.mark.parametrize("what", MUTATIONS)
def test_a_missing_sync_breaks_a_promise(
    what: str, record_property: Callable[[str, object], None]
) -> None:
    seed = broken_seed(range(PATIENCE), MUTATIONS[what])

    assert seed is not None, f"{what}, and {PATIENCE} seeds did not notice"
    record_property("broken_seed", seed)
