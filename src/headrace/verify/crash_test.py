"""The crash test: load, kill, restart, again and again; then every promise is looked up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from headrace.testing.broker_process import BrokerProcess, ProcessError
from headrace.verify import topology as t
from headrace.verify.ledger import Ledger, PublishOutcome, Verdict
from headrace.verify.load import Load, drain

REPEATED = 0.5  # share of unanswered messages that publishers send again


@dataclass(frozen=True, slots=True)
class CrashRound:
    """One life of the broker, as it was when it had ended."""

    number: int
    sent: int
    confirmed: int
    died_by_itself: bool


class CrashTest:
    """Rounds on one data directory. All chance comes from one seed."""

    def __init__(self, node: BrokerProcess, seed: int, *, size: int = 600) -> None:
        self.node = node
        self.chance = Random(seed)
        self.ledger = Ledger(t.HOMES, t.UNORDERED)
        self.rounds: list[CrashRound] = []
        self._size = size

    def round(self, seconds: float, **env: str) -> CrashRound:
        """Start the broker, load it for about ``seconds``, kill it unless it has ended."""
        try:
            self.node.start(**env)
        except ProcessError:
            if "HEADRACE_FAILPOINT" not in env:
                raise
            return self._note(died=True)
        load = Load(self.node, self.ledger, self.chance, size=self._size)
        load.repeat_unanswered(REPEATED)
        alive = load.run(seconds * self.chance.uniform(0.7, 1.3))
        self.node.kill()
        load.finish()
        return self._note(died=not alive)

    def _note(self, *, died: bool) -> CrashRound:
        sent = self.ledger.sent.values()
        confirmed = sum(one.outcome is PublishOutcome.CONFIRMED for one in sent)
        self.rounds.append(CrashRound(len(self.rounds) + 1, len(sent), confirmed, died))
        return self.rounds[-1]

    def conclude(self) -> Verdict:
        """Start it once more, consume everything, stop it in order, and judge."""
        self.node.start()
        drain(self.node, self.ledger, self.chance)
        self.node.stop()
        return self.ledger.judge()


def run(
    node: BrokerProcess,
    *,
    rounds: int,
    seconds: float,
    seed: int,
    on_round: Callable[[CrashRound], None] = lambda one: None,
) -> Verdict:
    """A whole test; ``on_round`` is called after every round."""
    test = CrashTest(node, seed)
    with node:
        for _ in range(rounds):
            on_round(test.round(seconds))
        return test.conclude()
