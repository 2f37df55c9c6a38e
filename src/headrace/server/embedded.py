"""A broker in a thread of a program: the server of `headrace serve`, sockets and disk included.

The thread owns the event loop: everything else reaches the server through `BrokerThread.call`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import quote

from headrace.config import Config, load, options
from headrace.core import broker as core_broker
from headrace.core.broker import DEFAULT_VHOST
from headrace.core.clock import Clock
from headrace.errors import ConfigError, NotFound
from headrace.server.app import Server, new_loop
from headrace.server.listener import host_port

T = TypeVar("T")

START_SECONDS = 30.0
STOP_SECONDS = 15.0
CALL_SECONDS = 60.0
_PATIENCE = 5.0  # seconds for a port that was ours to become free again


class QueueState(NamedTuple):
    """What is in a queue at one moment."""

    messages: int  # ready to be delivered
    unacknowledged: int
    consumers: int


class Broker:
    """A broker inside a program, in a thread: `with Broker(data_dir=...) as broker`.

    ``settings`` takes every setting of `headrace serve`. Ports not named are free ones.
    Methods may be called from any thread but the broker's.
    """

    clock: Clock | None = None  # None = the machine's

    def __init__(self, data_dir: Path | str, **settings: object) -> None:
        self.config = _checked(Path(data_dir), settings)
        self.ports: Mapping[str, int] = {}
        self._life: BrokerThread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    # -- where it is

    @property
    def host(self) -> str:
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.config.host, self.config.host)

    @property
    def data_dir(self) -> Path:
        return self.config.data_dir

    @property
    def amqp_port(self) -> int | None:
        return self.ports.get("amqp")

    @property
    def native_port(self) -> int | None:
        return self.ports.get("native")

    @property
    def http_port(self) -> int | None:
        return self.ports.get("http")

    @property
    def amqp_url(self) -> str:
        """For pika.URLParameters, aio_pika.connect, Celery's `broker`; the vhost is `/`."""
        if self.amqp_port is None:
            raise ConfigError("amqp is off, so there is no amqp_url")
        return f"amqp://{self._login()}@{host_port(self.host, self.amqp_port)}/%2F"

    def _login(self) -> str:
        user = quote(self.config.default_user, safe="")
        return f"{user}:{quote(self.config.default_password, safe='')}"

    @property
    def native_url(self) -> str:
        """For topics.open(), ConnectionFactory.from_url(), Spark's `url`; the vhost is `/`."""
        if self.native_port is None:
            raise ConfigError("native is off, so there is no native_url")
        return f"headrace://{self._login()}@{host_port(self.host, self.native_port)}/"

    @property
    def namesrv_addr(self) -> str | None:
        """For RocketMQ clients: the address of the name server; None with ``remoting=False``."""
        port = self.ports.get("namesrv")
        return None if port is None else host_port(self.host, port)

    @property
    def http_url(self) -> str | None:
        port = self.http_port
        return None if port is None else f"http://{host_port(self.host, port)}"

    # -- what is in it

    def queue(self, name: str, vhost: str = DEFAULT_VHOST) -> QueueState:
        """The state of a queue; NotFound when there is none."""
        found = self.queues(vhost).get(name)
        if found is None:
            raise NotFound(f"no queue '{name}' in vhost '{vhost}'")
        return found

    def queues(self, vhost: str = DEFAULT_VHOST) -> dict[str, QueueState]:
        """All queues of a vhost."""

        async def look(server: Server) -> dict[str, QueueState]:
            return {
                queue.name: QueueState(queue.backlog.count, queue.unacked, len(queue.consumers))
                for queue in core(server).get_vhost(vhost).queues.values()
            }

        return self._running().call(look)

    # -- life

    @property
    def is_running(self) -> bool:
        return self._life is not None and self._life.is_alive

    def start(self) -> None:
        """Raises what the start raises: ConfigError, StoreError. Again: on the ports it had."""
        if self._life is not None:
            raise RuntimeError("the broker runs already")
        self.ports = self._begin()
        # Clients that reconnect after a restart look for it where it was.
        known: dict[str, Any] = {f"{name}_port": port for name, port in self.ports.items()}
        self.config = replace(self.config, **{k: v for k, v in known.items() if k in options()})

    def _begin(self) -> dict[str, int]:
        """The ports of a new life.

        While it was down, an outgoing connection may have got one of its ports from the
        system: such connections end, so a second start waits for that.
        """
        deadline = time.monotonic() + (_PATIENCE if self.ports else 0.0)
        while True:
            life = BrokerThread(self.config, self.clock)
            try:
                found = dict(life.start().ports)
            except ConfigError as error:
                if "cannot listen" not in str(error) or time.monotonic() >= deadline:
                    raise
                time.sleep(0.05)
            else:
                self._life = life
                return found

    def stop(self) -> None:
        """Stop it cleanly; no-op when it is not running. StoreError when its storage failed."""
        life, self._life = self._life, None
        if life is not None:
            life.stop()

    def restart(self) -> None:
        """Stop it cleanly, unless that is done, and start it again."""
        self.stop()
        self.start()

    def _running(self) -> BrokerThread:
        if self._life is None:
            raise RuntimeError("the broker is not running")
        return self._life


def _checked(data_dir: Path, given: Mapping[str, object]) -> Config:
    """Any listener that has a port gets a free one unless it is given."""
    for name in given:
        if name not in options():
            raise ConfigError(f"unknown setting {name!r}; allowed: {', '.join(options())}")
    ports = [
        name
        for name, option in options().items()
        if name.endswith("_port") and option.default is not None
    ]
    return load(flags={**dict.fromkeys(ports, 0), **given, "data_dir": data_dir})


# -- the thread --------------------------------------------------------------------------------


class BrokerThread:
    """One life of a broker, from start to stop: a server, its loop, their thread."""

    def __init__(self, config: Config, clock: Clock | None) -> None:
        self._config = config
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop
        self._started: Future[Server] = Future()
        self._error: BaseException | None = None
        # A daemon: a broker that does not stop must not keep the program from ending.
        self._thread = threading.Thread(target=self._run, name="headrace-broker", daemon=True)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> Server:
        self._thread.start()
        try:
            return self._started.result(START_SECONDS)
        finally:
            if self._started.done() and self._started.exception() is not None:
                self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            if self._started.done():
                self._error = error
            else:
                self._started.set_exception(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = Server(self._config, self._clock)
        try:
            await server.start()
            self._started.set_result(server)
            await server.stopped.wait()
        finally:
            await server.stop()
        if server.failure is not None:
            raise server.failure

    def call(self, function: Callable[[Server], Awaitable[T]]) -> T:
        """The result of ``function(server)``, run on the loop."""

        async def run() -> T:
            return await function(self._started.result())

        if not self.is_alive:
            raise RuntimeError("the broker has ended by itself") from self._error
        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(CALL_SECONDS)

    def stop(self) -> None:
        if self.is_alive:
            self._loop.call_soon_threadsafe(self._started.result().stopped.set)
            self._thread.join(STOP_SECONDS)
            if self.is_alive:
                raise TimeoutError(f"the broker did not stop within {STOP_SECONDS:g} s")
        if self._error is not None:
            raise self._error


def core(server: Server) -> core_broker.Broker:
    """The heart of a server that was started."""
    assert server.broker is not None, "a server that was started has a broker"
    return server.broker
