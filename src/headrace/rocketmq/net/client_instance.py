"""What producers and consumers have in common: name servers, routes, heartbeats, timers.

Everything here runs on one event loop, except where it says otherwise.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import random
import secrets
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from threading import Lock
from typing import Any, Final

from headrace.rocketmq.errors import (
    BrokerError,
    NameServerError,
    RemotingError,
    RocketMQError,
    TopicNotFoundError,
)
from headrace.rocketmq.metrics import HealthProblems
from headrace.rocketmq.net.connection import Connection, Credentials
from headrace.rocketmq.net.connection_pool import ConnectionPool
from headrace.rocketmq.net.routes import TopicRoutes
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.groups import Heartbeat, UnregisterClient
from headrace.wire.remoting.headers.route import GetRouteInfo, TopicRoute

_DEFAULT = "DEFAULT"


def local_address() -> str:
    """An IPv4 address of this machine; the loopback address when there is no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing; asks which way packets would go
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def client_id(instance_name: str = "", *, broadcasting: bool = False) -> str:
    """Unique per object, because brokers take members with one id for one member.

    Broadcasting consumers have a fixed one, so that their offset file is found again.
    """
    if not instance_name:
        instance_name = _DEFAULT if broadcasting else f"{os.getpid()}#{secrets.token_hex(6)}"
    return f"{local_address()}@{instance_name}"


class MessageIds:
    """Unique ids of messages: 32 hexadecimal digits, as consoles expect them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._pid = -1
        self._prefix = ""
        self._counter = itertools.count()

    def next(self) -> str:
        if self._pid != os.getpid():
            self._renew()
        return f"{self._prefix}{next(self._counter) & 0xFFFFFFFFFFFF:012X}"

    def _renew(self) -> None:
        """Also in a forked child: parent and child must not give the same ids."""
        with self._lock:
            address = socket.inet_aton(local_address()).hex().upper()
            seconds = int(time.time()) & 0xFFFF
            self._prefix = f"{address}{seconds:04X}{secrets.token_hex(4).upper()}"
            self._counter = itertools.count(1)
            self._pid = os.getpid()


SETTLED_S: Final = 3.0
_AGAIN_S: Final = 30.0  # a broker that restarts often does not keep consumers waiting


class RestartedBrokers:
    """When brokers are reachable again. Only in the loop's thread.

    For a moment a restarted broker knows only the members that reconnected quickly: a consumer
    that trusted its list would take queues which the others still consume.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._known: set[str] = set()
        self._at: dict[str, float] = {}

    def connected(self, address: str) -> None:
        """A new connection to a broker; the first one is no return."""
        now = self._now()
        if address in self._known and now - self._at.get(address, now - _AGAIN_S) >= _AGAIN_S:
            self._at[address] = now
        self._known.add(address)

    def is_recent(self, addresses: Iterable[str]) -> bool:
        """Whether one of them may not know all clients yet."""
        now = self._now()
        return any(now - self._at.get(one, now - SETTLED_S) < SETTLED_S for one in addresses)


logger = logging.getLogger(__name__)

Handler = Callable[[Connection, Command], Awaitable[Command | None]]


class ClientInstance:
    """One client as brokers see it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        client_id: str,
        name_servers: Iterable[str],
        *,
        heartbeat: Callable[[], Heartbeat],
        request_timeout: float,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        talks_to_slaves: bool = False,
    ) -> None:
        self.client_id = client_id
        self.routes = TopicRoutes()
        self.problems = HealthProblems()
        self.restarted_brokers = RestartedBrokers()
        self.handlers: dict[int, Handler] = {}
        self.timeout = request_timeout
        self.remoting = ConnectionPool(loop, self._requested, self._register, credentials, tls)
        self._loop = loop
        self._name_servers = list(name_servers)
        random.shuffle(self._name_servers)
        self._heartbeat = heartbeat
        self._masters_only = not talks_to_slaves
        self._tasks: set[asyncio.Task[None]] = set()
        self.stopping = False

    # -- tasks -------------------------------------------------------------------------------

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something beside; a failure of it is logged, never lost."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.report(error)

    async def every(self, millis: float, work: Callable[[], Awaitable[None]]) -> None:
        """Do something again and again; what fails is tried at the next turn."""
        while True:
            await asyncio.sleep(millis / 1000)
            await self.attempt(work)

    async def attempt(self, work: Callable[[], Awaitable[object]]) -> None:
        """A failure of any kind is logged and does not end a background task."""
        try:
            await work()
        except (RocketMQError, OSError) as error:
            logger.warning("%s: %s", self.client_id, error)
        except Exception as error:
            self.report(error)

    def report(self, error: BaseException) -> None:
        """Something that should not happen."""
        logger.error("%s: unexpected", self.client_id, exc_info=error)
        self.problems.set("internal", f"unexpected: {error!r}; the log has more")

    # -- requests of brokers -----------------------------------------------------------------

    def _requested(self, connection: Connection, command: Command) -> None:
        self.spawn(self._serve(connection, command))

    async def _serve(self, connection: Connection, command: Command) -> None:
        handler = self.handlers.get(command.code)
        if handler is None:
            answer: Command | None = command.answer(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                remark=f"request code {command.code} is not supported by this client",
            )
        else:
            try:
                answer = await handler(connection, command)
            except Exception as error:
                logger.exception("%s: request %s failed", connection.address, command.code)
                answer = command.answer(ResponseCode.SYSTEM_ERROR, remark=str(error))
        if answer is not None and not command.is_oneway:
            connection.answer(answer)

    # -- name servers ------------------------------------------------------------------------

    async def ask_name_server(self, command: Command) -> Command:
        """Any name server that answers; the one that does is asked first the next time."""
        attempts: list[str] = []
        for address in list(self._name_servers):
            try:
                answer = await self.remoting.ask(address, command, self.timeout)
            except RemotingError as error:
                attempts.append(str(error))
                self._name_servers.remove(address)
                self._name_servers.append(address)
            else:
                self.problems.clear("name server")
                return answer
        text = f"no name server answers: {'; '.join(attempts)}"
        self.problems.set("name server", text)
        raise NameServerError(text)

    async def fetch_route(self, topic: str) -> TopicRoute | None:
        """None when the topic does not exist."""
        wanted = GetRouteInfo(topic, accept_standard_json_only=True)
        answer = await self.ask_name_server(wanted.command())
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.code, answer.remark or "no route", "the name server")
        route = TopicRoute.take(answer.body)
        return route if route.queues else None

    async def refresh(self, topic: str) -> bool:
        """Fetch a topic's route; True when it has changed. TopicNotFoundError without one."""
        route = await self.fetch_route(topic)
        if route is None:
            raise TopicNotFoundError(
                f"topic {topic!r} has no route; create it, or let brokers create topics "
                "(autoCreateTopicEnable)"
            )
        return await self.learn(topic, route)

    async def learn(self, topic: str, route: TopicRoute) -> bool:
        """Keep a route; True when it has changed. A broker we talk to already is greeted."""
        changed = self.routes.update(topic, route)
        for connection in self.remoting.connections() if changed else ():
            await self._register(connection)
        return changed

    # -- brokers -----------------------------------------------------------------------------

    def address_of(self, broker: str, broker_id: int = 0) -> str:
        """The wanted member of a broker, else its master, else any; TopicNotFoundError."""
        found = self.routes.address(broker, broker_id)
        if found is None:
            raise TopicNotFoundError(f"the address of broker {broker!r} is not known")
        return found

    def brokers_answer(self, topic: str) -> bool:
        """Whether a broker of the topic's last known route answers heartbeats."""
        known = self.routes.get(topic)
        masters = [one.master for one in known.route.brokers] if known is not None else []
        return any(one and f"broker {one}" not in self.problems for one in masters)

    async def ask(self, address: str, command: Command, seconds: float | None = None) -> Command:
        """The answer; BrokerError unless it says success."""
        answer = await self.remoting.ask(address, command, seconds or self.timeout)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.code, answer.remark or "", address)
        return answer

    async def _register(self, connection: Connection) -> None:
        """A broker must know us before it can be asked for anything."""
        is_broker = connection.address in self.routes.addresses(masters_only=False)
        if is_broker and not connection.is_registered:
            await self._beat_on(connection)
            connection.is_registered = True
            self.restarted_brokers.connected(connection.address)

    async def _beat_on(self, connection: Connection) -> None:
        command = Command(RequestCode.HEART_BEAT, body=self._heartbeat().encode())
        answer = await self.remoting.ask_on(connection, command, self.timeout)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.code, answer.remark or "heartbeat", connection.address)
        self.problems.last_heartbeat = time.time()

    async def beat(self) -> None:
        """A heartbeat to every broker; unreachable ones are named in the health state."""
        addresses = self.routes.addresses(masters_only=self._masters_only)
        await asyncio.gather(*(self._beat_one(one) for one in addresses))

    async def _beat_one(self, address: str) -> None:
        known = address in self.remoting.addresses()
        try:
            connection = await self.remoting.connection(address)  # a new one is greeted
            if known:
                await self._beat_on(connection)
        except RocketMQError as error:
            if self.problems.set(f"broker {address}", str(error)):
                logger.warning("%s: no heartbeat to %s: %s", self.client_id, address, error)
            self.remoting.drop(address)
        else:
            if self.problems.clear(f"broker {address}"):
                logger.info("%s: %s is reachable again", self.client_id, address)

    async def unregister(self, *, producer: str = "", consumer: str = "") -> None:
        command = UnregisterClient(self.client_id, producer or None, consumer or None).command()
        brokers = self.routes.addresses(masters_only=False)
        for address in self.remoting.addresses():
            if address not in brokers:
                continue
            try:
                await self.ask(address, command)
            except RocketMQError as error:
                logger.warning("%s could not take leave of %s: %s", self.client_id, address, error)

    async def close(self) -> None:
        self.stopping = True
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.remoting.close()
