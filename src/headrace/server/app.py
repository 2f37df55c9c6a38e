"""The composition root: settings -> broker -> listeners; start, signals, stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import signal
import ssl
import sys
import time
from pathlib import Path

from headrace import __version__
from headrace.config import Config, parse_amount
from headrace.core.broker import Broker
from headrace.core.clock import Clock
from headrace.core.definitions import load_definitions
from headrace.errors import ConfigError
from headrace.server.amqp.handshake import Limits
from headrace.server.amqp.session import Session
from headrace.server.listener import Gate, Link, tls_context
from headrace.server.logs import configure_logging

logger = logging.getLogger(__name__)

BACKLOG = 1024


class Server:
    """A broker with its front doors open. Startable in a test, on free ports."""

    def __init__(self, config: Config, clock: Clock | None = None) -> None:
        self.config = config
        self.ports: dict[str, int] = {}
        self._clock = clock
        self._listeners: list[asyncio.Server] = []
        self._links: set[Link] = set()
        self.broker: Broker | None = None

    async def start(self) -> None:
        """Returns once every listener is up."""
        config = self.config
        loop = asyncio.get_running_loop()
        _make_directory(config.data_dir)
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self.broker = Broker(
            loop,
            directory=config.data_dir,
            memory_limit=parse_amount(config.memory_high_watermark, memory),
            disk_free_limit=config.disk_free_limit,
            user=config.default_user,
            password=config.default_password,
            clock=self._clock,
        )
        if config.load_definitions is not None:
            load_definitions(self.broker, config.load_definitions)
        self.broker.start()
        if config.amqp:
            await self._listen("amqp", config.amqp_port, None)
        if config.amqps_port is not None:
            await self._listen("amqps", config.amqps_port, _tls(config))
        if config.ready_file is not None:
            _write_atomically(config.ready_file, json.dumps({"pid": os.getpid(), **self.ports}))

    async def _listen(self, name: str, port: int, tls: ssl.SSLContext | None) -> None:
        config, broker = self.config, self.broker
        assert broker is not None
        loop = asyncio.get_running_loop()
        gate = Gate(config.handshake_timeout, config.max_unauthenticated_per_address)
        limits = Limits(
            frame_max=config.frame_max,
            channel_max=config.channel_max,
            heartbeat=config.heartbeat,
            max_message=config.max_message_size,
            cluster_name=config.cluster_name,
        )

        def link() -> Link:
            return Link(loop, gate, self._links, lambda peer: Session(broker, limits, peer))

        try:
            server = await loop.create_server(
                link, config.host, port, ssl=tls, backlog=BACKLOG, reuse_address=True
            )
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {config.host}:{port} for {name}: {error.strerror or error}"
            ) from error
        self._listeners.append(server)
        self.ports[name] = server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the doors, tell everybody, wait a little, leave."""
        for listener in self._listeners:
            listener.close()
        broker = self.broker
        if broker is None:
            return
        for connection in tuple(broker.connections):
            connection.force_close("broker forced connection closure with reason 'shutdown'")
        deadline = time.monotonic() + min(self.config.shutdown_timeout, 2.0)
        while self._links and time.monotonic() < deadline:  # noqa: ASYNC110 - sets have no event
            await asyncio.sleep(0.01)
        for link in tuple(self._links):
            link.abort()
        await asyncio.sleep(0)
        broker.close()


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot use data directory {path}: {error.strerror}") from error


def _tls(config: Config) -> ssl.SSLContext:
    try:
        return tls_context(
            str(config.tls_cert),
            str(config.tls_key),
            str(config.tls_ca) if config.tls_ca else None,
        )
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"cannot use the TLS certificate or key: {error}") from error


def _write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text + "\n")
    temporary.replace(path)


def _banner(server: Server, seconds: float) -> str:
    config = server.config
    lines = [f"Headrace {__version__} is ready after {seconds:.2f} s"]
    for name, port in server.ports.items():
        lines.append(f"  {name:<9} {name}://{config.host}:{port}/")
    lines += [
        f"  data      {config.data_dir}",
        "  durability: memory (messages do not survive a restart in this version)",
        "Stop with Ctrl-C.",
    ]
    return "\n".join(lines)


async def _serve(config: Config, started: float) -> None:
    server = Server(config)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await server.start()
        # What lives now lives for ever; a collection should not walk it again and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 50, 100)
        sys.stdout.write(_banner(server, time.monotonic() - started) + "\n")
        sys.stdout.flush()
        await stop.wait()
        logger.info("stopping")
    finally:
        await server.stop()


def run(config: Config) -> int:
    """Serve until SIGTERM or Ctrl-C; returns the exit code."""
    started = time.monotonic()
    configure_logging(config.log_level, config.log_format)
    with contextlib.suppress(ImportError):
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(config, started))
        return 0
    asyncio.run(_serve(config, started))
    return 0
