"""The composition root: settings -> broker -> listeners; start, signals, stop."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headrace import __version__
from headrace.bulk.fetch_pool import FetchPool
from headrace.config import Config
from headrace.core.broker import Broker
from headrace.core.clock import Clock
from headrace.core.definitions import load_definitions
from headrace.core.loop_turn import LoopTurn
from headrace.option_types import parse_amount
from headrace.server import process
from headrace.server.amqp import handlers as amqp_handlers
from headrace.server.amqp.session import Session as AmqpSession
from headrace.server.http.listener import HttpListener
from headrace.server.listener import (
    HandshakeLimiter,
    ServerTransport,
    SessionProtocol,
    Transports,
    host_port,
    listening_socket,
)
from headrace.server.native import handlers as native_handlers
from headrace.server.native.session import Session as NativeSession
from headrace.server.remoting.listener import RemotingListener
from headrace.server.storage_setup import BrokerStorage
from headrace.server.tls import Certificates, TlsFiles
from headrace.server.topic_engines import TopicEngines

if TYPE_CHECKING:
    from headrace.store.shared.share import Owner

logger = logging.getLogger(__name__)

BACKLOG = 1024
# Where it is not the listener's name. RocketMQ clients are given an address, no URL.
_SCHEMES = {"native": "headrace", "native_tls": "headraces", "namesrv": "", "remoting": ""}
_SHOWN = {"native_tls": "natives"}


class Server:
    """A broker with its listeners. Startable in a test, on free ports."""

    def __init__(
        self, config: Config, clock: Clock | None = None, shard: Owner | None = None
    ) -> None:
        self.config = config
        self._shard = shard
        self.ports: dict[str, int] = {}
        self._clock = clock or Clock()
        self._listeners: list[asyncio.Server] = []
        self._transports = Transports()
        self.broker: Broker | None = None
        self._stores: BrokerStorage | None = None
        self._fetches: FetchPool | None = None
        self._engines: TopicEngines | None = None
        self.http: HttpListener | None = None
        self.remoting: RemotingListener | None = None
        self.failure: Exception | None = None
        self.certificates: Certificates | None = None
        self.stopped = asyncio.Event()  # set when the broker has to end by itself

    async def start(self) -> None:
        """Returns once every listener is up."""
        config = self.config
        loop = asyncio.get_running_loop()
        turn = LoopTurn(loop)
        self._fetches = FetchPool(loop)
        self._stores = BrokerStorage(
            config.data_dir,
            turn,
            self._clock,
            segment_size=min(config.segment_size, self._shard.segment_size)
            if self._shard is not None
            else config.segment_size,
            shard=self._shard,
        )
        self._stores.storage.on_failure = self._storage_failed
        self._stores.on_lease = partial(self._lease_changed, turn)
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self.broker = Broker(
            loop,
            directory=config.data_dir,
            memory_limit=parse_amount(config.memory_high_watermark, memory),
            disk_free_limit=config.disk_free_limit,
            loopback_users=config.loopback_users,
            clock=self._clock,
            storage=self._stores.storage,
            turn=turn,
            events=config.events,
        )
        self.broker.users.strict_topics = config.strict_topic_permissions
        self._stores.restore(self.broker, loop)
        if config.load_definitions is not None:
            load_definitions(self.broker, config.load_definitions)
        self.broker.users.ensure_default_user(config.default_user, config.default_password)
        self._engines = TopicEngines(
            self.broker,
            loop,
            config.engine,
            max_body=config.max_message_size,
            data_dir=config.data_dir,
        )
        self.broker.start()
        if config.amqp:
            await self._listen("amqp", config.amqp_port, self._amqp_session)
        if config.tls_cert is not None:
            self.certificates = _certificates(config)
            self.certificates.watch(loop)
        if config.amqps_port is not None:
            await self._listen("amqps", config.amqps_port, self._amqp_session, tls=True)
        if config.native:
            await self._listen("native", config.native_port, self._native_session)
        if config.native_tls_port is not None:
            await self._listen("native_tls", config.native_tls_port, self._native_session, tls=True)
        if config.remoting:
            self._open_remoting()
        if config.http or config.https_port is not None:
            self._open_http()
        if config.ready_file is not None:
            _write_atomically(config.ready_file, json.dumps({"pid": os.getpid(), **self.ports}))

    @property
    def recovered(self) -> str:
        return self._stores.summary if self._stores is not None else "nothing stored"

    def _amqp_session(self, transport: ServerTransport) -> SessionProtocol:
        assert self.broker is not None
        return AmqpSession(self.broker, self.config, transport, amqp_handlers.dispatch)

    def _native_session(self, transport: ServerTransport) -> SessionProtocol:
        assert self.broker is not None and self._fetches is not None
        return NativeSession(
            self.broker, self.config, transport, self._fetches, native_handlers.dispatch
        )

    def _open_http(self) -> None:
        assert self.broker is not None and self._fetches is not None
        config = self.config
        self.http = HttpListener(self.broker, config, self.ports, self._fetches)
        if config.http:
            self.ports["http"] = self.http.listen("http", config.http_port)
        if config.https_port is not None:
            assert self.certificates is not None, "config checks that there is a certificate"
            context = self.certificates.context
            self.ports["https"] = self.http.listen("https", config.https_port, context)
        self.http.open(self._listener_failed)

    def _open_remoting(self) -> None:
        """Both ports answer everything; clients expect to find two."""
        assert self.broker is not None
        config = self.config
        self.remoting = RemotingListener(self.broker, config, self._transports, self.certificates)
        if config.namesrv:
            self.ports["namesrv"] = self.remoting.listen("namesrv", config.namesrv_port)
        self.ports["remoting"] = self.remoting.listen("remoting", config.remoting_port)
        self.remoting.open(self.ports["remoting"])

    async def _listen(
        self,
        name: str,
        port: int,
        make_session: Callable[[ServerTransport], SessionProtocol],
        *,
        tls: bool = False,
    ) -> None:
        config = self.config
        loop = asyncio.get_running_loop()
        context = None
        if tls:
            assert self.certificates is not None, "config checks that there is one"
            context = self.certificates.context
        limiter = HandshakeLimiter(config.handshake_timeout, config.max_unauthenticated_per_address)

        def make_transport() -> ServerTransport:
            return ServerTransport(loop, limiter, self._transports, make_session)

        opened = listening_socket(config.host, port, BACKLOG, name)
        self.ports[name] = opened.getsockname()[1]
        server = await loop.create_server(make_transport, sock=opened, ssl=context, backlog=BACKLOG)
        self._listeners.append(server)

    def renew_certificates(self) -> None:
        if self.certificates is not None:
            self.certificates.reload()

    def _listener_failed(self, error: Exception) -> None:
        """A listener could not start: a broker without it is not what was configured."""
        logger.error("a listener could not start: %s", error)
        self.failure = error
        self.stopped.set()

    def _storage_failed(self, error: Exception) -> None:
        """Storage has failed: close every connection with the reason, and stop."""
        logger.error("storage has failed: %s", error)
        self.failure = error
        assert self.broker is not None
        for connection in tuple(self.broker.connections):
            connection.force_close(f"storage has failed: {error}")
        self.stopped.set()

    def _lease_changed(self, turn: LoopTurn, is_kept: bool) -> None:
        """Another node may have the shard: deliver and read nothing until that is known."""
        turn.pause_dispatch(not is_kept)
        self._transports.refusal = None if is_kept else "another node may have the shard"
        for transport in self._transports:
            (transport.resume_reading if is_kept else transport.pause_reading)("lease")

    def _close_helpers(self) -> None:
        for helper in (self._fetches, self._engines):
            if helper is not None:
                helper.close()

    def _stop_listening(self) -> None:
        for listener in self._listeners:
            listener.close()
        if self.certificates is not None:
            self.certificates.close()

    async def stop(self) -> None:
        """Close listeners and connections, wait a little for clients, close the storage."""
        if self._shard is not None:
            self._shard.give_up_after(self.config.shutdown_timeout)
        self._stop_listening()
        broker = self.broker
        if broker is not None:  # what follows may wait: nothing is published meanwhile
            for connection in tuple(broker.connections):
                connection.force_close("broker forced connection closure with reason 'shutdown'")
        for opened in (self.remoting, self.http):
            if opened is not None:
                await opened.close()
        if broker is None:
            return
        deadline = time.monotonic() + min(self.config.shutdown_timeout, 2.0)
        while self._transports and time.monotonic() < deadline:  # noqa: ASYNC110 - sets have no event
            await asyncio.sleep(0.01)
        for transport in tuple(self._transports):
            transport.abort()
        self._close_helpers()
        await asyncio.sleep(0)
        broker.close()
        await asyncio.sleep(0)  # what could not be stored at the end is reported to the loop
        if self._stores is not None:
            self._stores.close()


def _certificates(config: Config) -> Certificates:
    assert config.tls_cert is not None
    assert config.tls_key is not None, "config checks that both are there"
    is_optional = config.tls_client_certificates == "optional"
    return Certificates(TlsFiles(config.tls_cert, config.tls_key, config.tls_ca, is_optional))


def _write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text + "\n")
    temporary.replace(path)


def _banner(server: Server, seconds: float) -> str:
    config = server.config
    lines = [f"Headrace {__version__} is ready after {seconds:.2f} s"]
    for name, port in server.ports.items():
        scheme = _SCHEMES.get(name, name)
        address = host_port(config.host, port)
        address = f"{scheme}://{address}/" if scheme else address
        lines.append(f"  {_SHOWN.get(name, name):<9} {address}")
    lines += [
        f"  data      {config.data_dir} ({server.recovered})",
        "  durability: fsync (a confirm means on disk)",
        "Stop with Ctrl-C.",
    ]
    return "\n".join(lines)


async def _serve(config: Config, started: float, shard: Owner | None) -> int:
    server = Server(config, shard=shard)
    stop = server.stopped
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if config.tls_cert is not None or process.is_under_systemd():
        loop.add_signal_handler(signal.SIGHUP, server.renew_certificates)
    elif signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # it is with nohup
        # The terminal is gone. That is no reason to die as in a crash.
        loop.add_signal_handler(signal.SIGHUP, stop.set)
    try:
        await server.start()
        # These objects live as long as the process: collections need not visit them again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 50, 100)
        sys.stdout.write(_banner(server, time.monotonic() - started) + "\n")
        sys.stdout.flush()
        process.notify_systemd(process.READY)
        await stop.wait()
        logger.info("stopping")
        process.notify_systemd(process.STOPPING)
    finally:
        await server.stop()
    return 1 if server.failure is not None else 0


def run(config: Config) -> int:
    """Serve until SIGTERM or Ctrl-C; returns the exit code."""
    started = time.monotonic()
    process.configure_logging(config.log_level, config.log_format)
    process.raise_file_limit()
    shard = None
    if config.share:
        from headrace.server.standby import wait_for_shard  # its driver is an extra

        shard = wait_for_shard(config)
        if shard is None:
            return 0
        started = time.monotonic()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(_serve(config, started, shard))


def new_loop() -> asyncio.AbstractEventLoop:
    """The fastest event loop there is."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
