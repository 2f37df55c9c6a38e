"""Topic engines of other packages: found by the scheme of their URL.

A package registers an engine with an entry point of the group `headrace.topic_engines`: its name is
the scheme, its object is called with the URL and returns an open `TopicEngine`.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Final

from headrace.errors import BrokerError, ConfigError
from headrace.store.topics.engine import TopicEngine

GROUP: Final = "headrace.topic_engines"


def schemes() -> list[str]:
    return sorted({one.name for one in entry_points(group=GROUP)})


def open_engine(url: str, built_in: str) -> TopicEngine:
    """The engine of the URL's scheme; ConfigError names the schemes when there is none."""
    scheme = url.partition(":")[0]
    found = [*entry_points(group=GROUP, name=scheme)]
    if not found:
        known = ", ".join([built_in, *(f"{one}:" for one in schemes())])
        raise ConfigError(f"no topic engine for URLs of {scheme[:20]!r}: expected one of {known}")
    try:
        engine: TopicEngine = found[0].load()(url)
    except BrokerError:
        raise
    except Exception as error:
        raise ConfigError(f"topic engine {scheme!r} of {found[0].value} failed: {error}") from error
    return engine
