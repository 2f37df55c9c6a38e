"""A broker whose users change while clients are connected, and words for what needs what."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, combinations
from typing import NamedTuple, TypeVar

import pika
from pika.adapters.blocking_connection import BlockingChannel

from headrace.core.broker import Broker
from headrace.model.passwords import LIGHT, PasswordHash
from headrace.server.app import Server
from headrace.server.embedded import core
from headrace.testing import RunningBroker

T = TypeVar("T")

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
    for topic in list(vhost.topics.log.topics):
        vhost.topics.log.delete(topic, lambda answer: None)
    for name in [name for name in vhost.exchanges if name and not name.startswith("amq.")]:
        vhost.delete_exchange(name)
