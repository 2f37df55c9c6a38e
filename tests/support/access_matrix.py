"""A broker whose users change while clients are connected, and words for what needs what."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any, Generic, NamedTuple, TypeVar

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from headrace.core.broker import Broker
from headrace.model.passwords import LIGHT, PasswordHash
from headrace.server.app import Server
from headrace.server.embedded import core
from headrace.testing import RunningBroker

T = TypeVar("T")
K = TypeVar("K")  # what names an operation: a method, a route, a code
C = TypeVar("C")  # one attempt, with names of its own

USER, PASSWORD = "tester", "s3cret"
ACTIONS = ("configure", "write", "read")
GENERATED = "amq.gen-"


class Need(NamedTuple):
    """A permission that an operation needs."""

    action: str
    kind: str
    name: str

    @property
    def pattern(self) -> str:
        return re.escape(self.name) + ("" if self.name == GENERATED else "$")

    @property
    def refusal(self) -> str:
        end = "" if self.name == GENERATED else f"' in vhost '/' refused for user '{USER}'"
        return f"access to {self.kind} '{self.name}{end}"


def configure(kind: str, name: str) -> Need:
    return Need("configure", kind, name)


def write(kind: str, name: str) -> Need:
    return Need("write", kind, name)


def read(kind: str, name: str) -> Need:
    return Need("read", kind, name)


class Grant(NamedTuple):
    """Three patterns."""

    configure: str
    write: str
    read: str

    @classmethod
    def exactly(cls, needs: Iterable[Need]) -> Grant:
        needs = list(needs)
        return cls(*(_any_of(one.pattern for one in needs if one.action == a) for a in ACTIONS))

    @classmethod
    def all_of(cls, actions: Iterable[str]) -> Grant:
        actions = set(actions)
        return cls(*(".*" if action in actions else "" for action in ACTIONS))


def _any_of(patterns: Iterable[str]) -> str:
    joined = "|".join(sorted(set(patterns)))
    return f"^({joined})" if joined else "^$"


SUBSETS = list(chain.from_iterable(combinations(ACTIONS, size) for size in range(4)))

every_subset = pytest.mark.parametrize(
    "granted", SUBSETS, ids=lambda one: "+".join(one) or "nothing"
)


@dataclass(frozen=True)
class Rule(Generic[K, C]):
    """What an operation does in a case, and what it needs for that."""

    operation: K
    act: Callable[[C], Any]
    needs: Callable[[C], list[Need]]
    prepare: Callable[[C], None] = lambda case: None
    tags: tuple[str, ...] = ()


def nothing(case: object) -> list[Need]:
    return []


class Matrix(Generic[K, C]):
    """Every operation of a protocol with every permission missing: refused, or done.

    ``refusal`` carries out a rule in a case and returns the text of the refusal, or None.
    """

    def __init__(
        self, rules: Mapping[str, Rule[K, C]], refusal: Callable[[Rule[K, C], C], str | None]
    ) -> None:
        self._rules = rules
        self._refusal = refusal

    def needs(self, case: C) -> Iterator[object]:
        """Parameters: each rule with the index of each of its needs; only names are read."""
        for name, rule in self._rules.items():
            for index, need in enumerate(rule.needs(case)):
                which = f"{name}-without-{need.action}-{need.kind}-{index}"
                yield pytest.param(name, index, id=which)

    def check_actions(self, site: Site, case: C, name: str, granted: Iterable[str]) -> None:
        """It is done if all actions that it needs are granted, on any name."""
        rule = self._rules[name]
        rule.prepare(case)
        site.allow(*Grant.all_of(granted))

        text = self._refusal(rule, case)

        missing = [need for need in rule.needs(case) if need.action not in granted]
        if missing:
            assert text is not None
            assert any(need.refusal in text for need in missing), text
        else:
            assert text is None

    def check_missing_name(self, site: Site, case: C, name: str, index: int) -> str:
        """With one of its needs missing it is refused for that one. Returns the text."""
        rule = self._rules[name]
        needs = rule.needs(case)
        rule.prepare(case)
        site.allow(*Grant.exactly(needs[:index] + needs[index + 1 :]))

        text = self._refusal(rule, case) or ""

        assert needs[index].refusal in text
        return text

    def check_exact_needs(self, site: Site, case: C, name: str) -> None:
        """With what its rule says, and no more, it is done."""
        rule = self._rules[name]
        rule.prepare(case)
        site.allow(*Grant.exactly(rule.needs(case)))

        assert self._refusal(rule, case) is None


class Site:
    """The broker of a module of tests."""

    def __init__(self, running: RunningBroker) -> None:
        self.running = running
        self.do(lambda broker: add_user(broker, USER, PASSWORD))

    def do(self, work: Callable[[Broker], T]) -> T:
        """Call a function on the broker's loop."""

        async def run(server: Server) -> T:
            return work(core(server))

        return self.running._running().call(run)

    def wait(self, work: Callable[[Broker], Awaitable[T]]) -> T:
        async def run(server: Server) -> T:
            return await work(core(server))

        return self.running._running().call(run)

    def allow(self, *grant: str, user: str = USER, vhost: str = "/") -> None:
        self.do(lambda broker: broker.users.set_permissions(user, vhost, *grant))

    def allow_everything(self) -> None:
        self.allow(".*", ".*", ".*")

    @contextmanager
    def connection(
        self, user: str = USER, password: str = PASSWORD, vhost: str = "/"
    ) -> Iterator[pika.BlockingConnection]:
        credentials = pika.PlainCredentials(user, password)
        port = self.running.amqp_port
        parameters = pika.ConnectionParameters("127.0.0.1", port, vhost, credentials)
        connection = pika.BlockingConnection(parameters)
        try:
            yield connection
        finally:
            if connection.is_open:
                connection.close()

    @contextmanager
    def as_guest(self) -> Iterator[BlockingChannel]:
        with self.connection("guest", "guest") as connection:
            yield connection.channel()


def add_user(broker: Broker, name: str, password: str, *tags: str) -> None:
    """With a hash that is quick to check."""
    broker.users.store_user(name, PasswordHash.of(password, LIGHT), tags)


def clear(broker: Broker) -> None:
    """Remove every queue and exchange of a test, whoever owns it."""
    vhost = broker.get_vhost("/")
    for queue in list(vhost.queues.values()):
        vhost.remove_queue(queue)
    vhost.topics.log.close()
    for name in [name for name in vhost.exchanges if name and not name.startswith("amq.")]:
        vhost.delete_exchange(name)
