"""Where topics are: the one place that knows the kinds of URLs."""

from __future__ import annotations

from headrace.errors import ConfigError
from headrace.store.topics.engine import TopicEngine
from headrace.topics.store import Store


def open_store(url: str) -> Store:
    """The topics at a URL:

    `mysql://user:password@host:3306/database`: a MySQL or MariaDB database, without a broker;
    `headrace://user:password@host:9090/vhost`: a broker, over the native protocol
    (`headraces://` with TLS);
    `memory:`: in this process and gone with it, for tests.
    """
    return Store(_engine(url))


def _engine(url: str) -> TopicEngine:
    # Engines are imported when they are used: none needs what only another one does.
    scheme = url.partition(":")[0]
    if scheme == "mysql":
        from headrace.store.mysql.engine import MySqlEngine

        return MySqlEngine(url)
    if scheme in ("headrace", "headraces"):
        return _remote(url)
    if url == "memory:":
        from headrace.store.topics.memory import MemoryEngine

        return MemoryEngine()
    raise ConfigError(
        f"a store of topics is mysql://..., headrace://... or memory:, not {scheme[:20]!r}"
    )


def _remote(url: str) -> TopicEngine:
    from headrace.client import ConnectionFactory
    from headrace.topics.remote_engine import connect

    try:
        factory = ConnectionFactory.from_url(url)
    except ValueError as error:
        raise ConfigError(f"the headrace:// URL cannot be used: {error}") from None
    return connect(factory)
