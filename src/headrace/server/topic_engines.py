"""The engines of topics that a broker has besides its log: named in the settings, made here."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from headrace.core.broker import DEFAULT_VHOST, Broker
from headrace.core.topics.blocking_adapter import BlockingAdapter, EngineThreads
from headrace.core.vhost import Vhost
from headrace.errors import BrokerError, ConfigError, EngineUnavailable
from headrace.store.topics.engine import TopicEngine
from headrace.store.topics.memory import MemoryEngine
from headrace.store.topics.plugins import open_engine

logger = logging.getLogger(__name__)


class TopicEngines:
    """Adds to every vhost an engine in memory, and to the one it belongs to, each database."""

    def __init__(
        self,
        broker: Broker,
        loop: asyncio.AbstractEventLoop,
        named: Sequence[tuple[str, str]],
        *,
        max_body: int,
        data_dir: Path,
    ) -> None:
        self._broker = broker
        self._workers = EngineThreads(loop)
        self._max_body = max_body
        # Another node must not have the same, and this one must have it after a restart.
        here = f"{socket.gethostname()}:{data_dir.resolve()}"
        self._tap_token = f"tap-{sha256(here.encode()).hexdigest()[:24]}"
        self._opened: list[TopicEngine] = []
        self._by_vhost: dict[str, list[tuple[TopicEngine, dict[str, str] | None]]] = {}

        def soon(callback: Callable[[], None]) -> None:
            loop.call_soon(callback)

        self._soon = soon
        for name, url in named:
            vhost, engine = _open(name, url)
            self._opened.append(engine)
            self._by_vhost.setdefault(vhost, []).append((engine, _known(engine)))
        unknown = set(self._by_vhost) - set(broker.vhosts)
        if unknown:
            self.close()
            raise ConfigError(f"engine: there is no vhost '{min(unknown)}' for it")
        broker.on_new_vhost = self._equip
        for present in broker.vhosts.values():
            self._equip(present)

    def _equip(self, vhost: Vhost) -> None:
        vhost.topics.tap_token = self._tap_token
        self._add(vhost, MemoryEngine(max_body=self._max_body), durable=False)
        for engine, known in self._by_vhost.get(vhost.name, ()):
            self._add(vhost, engine, durable=True).start(known)

    def _add(self, vhost: Vhost, engine: TopicEngine, *, durable: bool) -> BlockingAdapter:
        timers = self._broker.timers
        added = BlockingAdapter(engine, self._workers, timers, self._soon, durable=durable)
        vhost.topics.add_engine(added)
        return added

    def close(self) -> None:
        self._workers.close()
        for engine in self._opened:
            engine.close()


def _known(engine: TopicEngine) -> dict[str, str] | None:
    """Its topics. The broker starts even if the database is unreachable: queues and other topics
    have nothing to do with it. One that refuses us does, since waiting would not help."""
    try:
        return engine.uuids()
    except EngineUnavailable as error:
        if error.is_denied:
            raise ConfigError(f"engine {engine.name}: {error}") from error
        logger.warning(
            "engine '%s' is unreachable; its topics appear when it is reachable: %s",
            engine.name,
            error,
        )
        return None
    except BrokerError as error:
        raise ConfigError(f"engine {engine.name}: {error}") from error


def _open(name: str, url: str) -> tuple[str, TopicEngine]:
    """The vhost (`?vhost=` in the URL, `/` if it is not there) and the engine."""
    base, _, query = url.partition("?")
    options = dict(parse_qsl(query))
    vhost = options.pop("vhost", DEFAULT_VHOST)
    plain = f"{base}?{urlencode(options)}" if options else base
    try:
        if not plain.startswith(("mysql:", "mariadb:")):
            return vhost, _named(open_engine(plain, "mysql://"), name)
        # Only here: the driver is an extra, and takes its time to load.
        module = import_module("headrace.store.mysql.engine")
        return vhost, _named(module.MySqlEngine(plain, lazily=True), name)
    except ImportError as error:
        raise ConfigError(f"engine {name}: install headrace[mysql] to use it ({error})") from error
    except BrokerError as error:
        raise ConfigError(f"engine {name}: {error}") from error


def _named(engine: TopicEngine, name: str) -> TopicEngine:
    engine.name = name
    return engine
