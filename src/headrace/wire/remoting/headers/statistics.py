"""Bodies which tell consoles how queues, groups and clients are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.wire.remoting.codes import Language
from headrace.wire.remoting.fastjson import dumps, json_bytes, object_keyed
from headrace.wire.remoting.headers.fields import named
from headrace.wire.remoting.json_maps import JsonMap, enumerated
from headrace.wire.remoting.message_queue import MessageQueue


@dataclass(frozen=True, slots=True)
class QueueStats(JsonMap):
    """The bounds of a queue, and when it was last written, in milliseconds."""

    NAME = "offsetTable"

    min_offset: int
    max_offset: int
    updated_at: int = named("lastUpdateTimestamp", 0)


def topic_stats_body(stats: Mapping[MessageQueue, QueueStats]) -> bytes:
    """The answer to GET_TOPIC_STATS_INFO."""
    pairs = [(queue.as_map(), one.as_map()) for queue, one in stats.items()]
    return f'{{"offsetTable":{object_keyed(pairs)},"topicPutTps":0.0}}'.encode("ascii")


@dataclass(frozen=True, slots=True)
class QueueProgress(JsonMap):
    """How far a group is in a queue; the lag is the difference."""

    NAME = "offsetTable"

    broker_offset: int
    consumer_offset: int
    pull_offset: int = 0
    last_timestamp: int = 0  # of the last consumed message, milliseconds

    @property
    def lag(self) -> int:
        return self.broker_offset - self.consumer_offset


def consume_stats_body(progress: Mapping[MessageQueue, QueueProgress], rate: float = 0.0) -> bytes:
    """The answer to GET_CONSUME_STATS."""
    pairs = [(queue.as_map(), one.as_map()) for queue, one in progress.items()]
    body = f'{{"consumeTps":{dumps(rate)},"offsetTable":{object_keyed(pairs)}}}'
    return body.encode("ascii")


@dataclass(frozen=True, slots=True)
class ClientConnection(JsonMap):
    """A client as consoles see it."""

    NAME = "connection"

    client_id: str
    address: str = named("clientAddr")
    language: Language = enumerated("language", Language.OTHER)
    version: int = 0


def connections_body(
    connections: Iterable[ClientConnection], more: Mapping[str, object] | None = None
) -> bytes:
    """The answer to both questions for connections; consumers have ``more`` to tell."""
    return json_bytes({"connectionSet": [one.as_map() for one in connections], **(more or {})})
