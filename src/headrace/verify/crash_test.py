"""The crash test: load, kill, restart, again and again; then every promise is looked up."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Protocol

from headrace.testing.amqp_connection import (
    ConnectionLost,
    NoAnswer,
    RawConnection,
    ReceivedMethod,
)
from headrace.testing.broker_process import BrokerProcess, ProcessError
from headrace.verify import topology as t
from headrace.verify.actors import (
    ConfirmingPublisher,
    LoadConsumer,
    TransactionPublisher,
    TransferConsumer,
)
from headrace.verify.ledger import Ledger, PublishOutcome, Verdict

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

    def __init__(self, node: BrokerProcess, seed: int) -> None:
        self.node = node
        self.chance = Random(seed)
        self.ledger = Ledger(t.HOMES, t.UNORDERED)
        self.rounds: list[CrashRound] = []

    def round(self, seconds: float, **env: str) -> CrashRound:
        """Start the broker, load it for about ``seconds``, kill it unless it has ended."""
        try:
            self.node.start(**env)
        except ProcessError:
            if "HEADRACE_FAILPOINT" not in env:
                raise
            return self._note(died=True)
        load = Load(self.node, self.ledger, self.chance)
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


PUBLISHERS = 3
DRAIN_SECONDS = 60.0


class LoadClient(Protocol):
    """A client with a connection of its own."""

    def step(self) -> None:
        """Do something."""

    def handle(self, event: ReceivedMethod) -> None:
        """Something came."""


class Load:
    """All clients of one life of the broker, served in turn by one thread."""

    def __init__(self, node: BrokerProcess, ledger: Ledger, chance: Random) -> None:
        self._port = node.port
        self._ledger = ledger
        self._chance = chance
        self._links: list[RawConnection] = []
        self._actors: list[LoadClient] = []
        self.lost: ConnectionLost | None = None
        try:
            self._connect()
        except ConnectionLost as lost:  # it can end as early as that
            self.lost = lost

    def _connect(self) -> None:
        with_topology = self._link()
        t.declare(with_topology, with_topology.open_channel(1))
        with_topology.close()
        self._links.clear()
        life, ledger, chance = self._ledger.life, self._ledger, self._chance
        self.publishers = [
            ConfirmingPublisher(f"publisher {number}, life {life}", self._link(), ledger, chance)
            for number in range(PUBLISHERS)
        ]
        self._actors += self.publishers
        self._actors.append(
            TransactionPublisher(f"batcher, life {life}", self._link(), ledger, chance)
        )
        self._actors.append(TransferConsumer(self._link(), ledger))
        self._actors.append(
            LoadConsumer(self._link(), ledger, chance, queues=t.CONSUMED, tidy=False)
        )

    def _link(self) -> RawConnection:
        link = RawConnection(self._port)
        self._links.append(link)
        return link

    def run(self, seconds: float) -> bool:
        """Go on for a while; False when the broker has ended meanwhile."""
        deadline = time.monotonic() + seconds
        while self.lost is None and time.monotonic() < deadline:
            self.turn()
        return self.lost is None

    def turn(self) -> None:
        """Every client reads what has come and does one thing."""
        try:
            for link, actor in zip(self._links, self._actors, strict=True):
                for event in link.poll():
                    actor.handle(event)
                actor.step()
        except ConnectionLost as lost:
            self.lost = lost

    def repeat_unanswered(self, share: float) -> None:
        """Publish again, under the old numbers, a share of what was never answered."""
        routes = {families: route for route, families in t.ROUTES.items()}
        try:
            for sent in self._ledger.unanswered():
                if self._chance.random() < share and self.lost is None:
                    self._ledger.send_again(sent.number)
                    self.publishers[0].publish(sent.number, routes[sent.families])
        except ConnectionLost as lost:
            self.lost = lost

    def finish(self) -> None:
        """The broker has ended: read what it had still sent, and note the end of its life."""
        for number, link in enumerate(self._links):
            events = link.rest()
            for event in events if number < len(self._actors) else ():
                _note(self._actors[number], event)
        self._ledger.broker_ended()


def _note(actor: LoadClient, event: ReceivedMethod) -> None:
    with suppress(ConnectionLost):  # it wanted to answer: too late
        actor.handle(event)


def drain(node: BrokerProcess, ledger: Ledger, chance: Random) -> None:
    """Consume and acknowledge everything there is."""
    queues: Sequence[str] = [queue for queue in t.HOMES if queue != t.BRIEF]
    asking, link = RawConnection(node.port), RawConnection(node.port)
    asking.open_channel(1)
    consumer = LoadConsumer(link, ledger, chance, queues=tuple(queues), tidy=True)
    deadline = time.monotonic() + DRAIN_SECONDS
    while True:
        events = link.poll(0.05)
        for event in events:
            consumer.handle(event)
        consumer.step()
        if not events and not t.count_ready(asking, 1):
            break
        if time.monotonic() > deadline:
            raise NoAnswer(f"the queues are not empty after {DRAIN_SECONDS:g} s")
    consumer.step()
    t.count_ready(asking, 1)
    asking.close()
    link.close()
