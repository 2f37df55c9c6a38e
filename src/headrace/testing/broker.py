"""A real broker in a thread of the test's process: free ports, files of its own, gone at the end.

It is the server that `headrace serve` runs, sockets and disk included; only the process is shared.
The event loop belongs to the thread: everything here reaches the server through `Life.call`.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from headrace.config import MIB, Config, load, options
from headrace.core.broker import DEFAULT_VHOST
from headrace.core.clock import VirtualClock
from headrace.errors import ConfigError, NotFound
from headrace.server.app import Server
from headrace.server.listener import host_port
from headrace.testing.life import Life, core, leave_remains, pass_time, settle

MEMORY = Path("/dev/shm")
# Containers often have 64 MB there; a broker that runs out of it would hold its publishers back.
MEMORY_WANTED = 256 * MIB

# A connection that a test forgot must not cost it seconds, nor a small journal much space.
_DEFAULTS: Mapping[str, object] = {"shutdown_timeout": 0.5, "segment_size": MIB}


_PATIENCE = 5.0  # seconds for a port that was ours to become free again


class QueueState(NamedTuple):
    """What is in a queue at one moment."""

    messages: int  # ready to be delivered
    unacknowledged: int
    consumers: int


# -- public ------------------------------------------------------------------------------------


@contextmanager
def run_broker(
    *,
    clock: VirtualClock | Literal["virtual"] | None = None,
    data_dir: Path | str | None = None,
    sync: bool = True,
    **config: object,
) -> Iterator[RunningBroker]:
    """A broker for the time of a `with` block; ``config`` takes every setting of `headrace serve`.

    Ports not named are free ones, and so is the data directory, which is removed at the end; a
    ``data_dir`` that is given is kept. ``sync=False`` keeps the files in memory where the machine
    has a file system for that, so that nobody waits for the disk.
    Raises what the start raises: ConfigError, StoreError.
    """
    if data_dir is not None and not sync:
        raise ConfigError("sync=False chooses the directory itself: it does not go with data_dir")
    with ExitStack() as stack:
        if data_dir is None:
            place = None if sync else _memory_directory()
            home = tempfile.TemporaryDirectory(prefix="headrace-", dir=place)
            data_dir = Path(stack.enter_context(home)) / "data"
        chosen = VirtualClock() if clock == "virtual" else clock
        broker = RunningBroker(_settings(Path(data_dir), config), chosen)
        stack.callback(broker.stop)
        broker.start()
        yield broker


class RunningBroker:
    """What `run_broker()` yields. Methods may be called from any thread but the broker's."""

    def __init__(self, config: Config, clock: VirtualClock | None) -> None:
        self.config = config
        self.clock = clock
        self.ports: Mapping[str, int] = {}
        self._life: Life | None = None

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
                queue.name: QueueState(queue.backlog.count, queue.unacked, len(queue.dealer))
                for queue in core(server).get_vhost(vhost).queues.values()
            }

        return self._running().call(look)

    # -- time

    def advance(self, seconds: float) -> None:
        """Let time pass on the virtual clock.

        Returns when all that fell due has been done, stored and sent. Whatever clients do in
        answer comes afterwards: wait_for() it.
        """
        clock = self.clock
        if clock is None:
            raise RuntimeError("advance() needs a clock to move: run_broker(clock='virtual')")
        if seconds < 0:
            raise ValueError("time does not go back")

        async def advance(server: Server) -> None:
            pass_time(core(server), clock, round(seconds * 1000))
            await settle(core(server))

        self._running().call(advance)

    # -- life

    @property
    def is_running(self) -> bool:
        return self._life is not None and self._life.is_alive

    def start(self) -> None:
        """Start it after stop() or crash(), on the ports and the data it had."""
        if self._life is not None:
            raise RuntimeError("the broker runs already")
        self.ports = self._begin()
        # Clients that reconnect after a restart look for it where it was.
        known: dict[str, Any] = {f"{name}_port": port for name, port in self.ports.items()}
        self.config = replace(self.config, **{k: v for k, v in known.items() if k in options()})

    def _begin(self) -> dict[str, int]:
        """The ports of a new life.

        While it was down, somebody's outgoing connection may have got one of its ports from the
        system: such connections end, so a second start waits for that.
        """
        deadline = time.monotonic() + (_PATIENCE if self.ports else 0.0)
        while True:
            life = Life(self.config, self.clock)
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

    def crash(self) -> None:
        """End it as `kill -9` would, at a moment when the disk was idle; start() comes next.

        Connections are cut without a word. Messages that were not durable are gone, those
        delivered and not acknowledged come back, and what was stored is marked redelivered.
        """
        remains = Path(tempfile.mkdtemp(prefix="crash-", dir=self.data_dir.parent))
        try:
            self._running().call(lambda server: leave_remains(server, remains / "data"))
            self.stop()
            # The stopped broker has tidied up behind itself; what counts is what it left before.
            shutil.rmtree(self.data_dir)
            (remains / "data").rename(self.data_dir)
        finally:
            shutil.rmtree(remains)

    def _running(self) -> Life:
        if self._life is None:
            raise RuntimeError("the broker is not running")
        return self._life


# -- settings ----------------------------------------------------------------------------------


def _settings(data_dir: Path, given: Mapping[str, object]) -> Config:
    """Defaults for tests below what was given. Any listener that has a port gets a free one."""
    for name in given:
        if name not in options():
            raise ConfigError(f"unknown setting {name!r}; allowed: {', '.join(options())}")
    ports = [
        name
        for name, option in options().items()
        if name.endswith("_port") and option.default is not None
    ]
    flags = {**dict.fromkeys(ports, 0), **_DEFAULTS, **given, "data_dir": data_dir}
    return load(flags=flags)


def _memory_directory() -> Path | None:
    """A file system in memory with enough room, or None."""
    try:
        return MEMORY if shutil.disk_usage(MEMORY).free >= MEMORY_WANTED else None
    except OSError:
        return None
