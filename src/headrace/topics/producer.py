"""Producers append. A producer may be used by any number of threads."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from headrace.model.topics.names import check_token
from headrace.store.topics.engine import TopicEngine
from headrace.store.topics.types import Entry
from headrace.topics.consumer import AppendSignal
from headrace.topics.messages import NewMessage


class Producer:
    """Appends to one topic under one token. Messages are stored when append() returns."""

    def __init__(self, engine: TopicEngine, bell: AppendSignal, topic: str, token: str) -> None:
        self.topic = topic
        self.token = check_token(token)
        self._engine = engine
        self._bell = bell

    def append(
        self,
        body: bytes | str,
        priority: str = "middle",
        ref_key: str | None = None,
        source_ip: str | int | None = None,
        tags: str | None = None,
        properties: Mapping[str, str] | None = None,
        message_id: str | None = None,
    ) -> int:
        """Store one message; its id within its priority. What several threads append at the same
        time is stored together."""
        new = NewMessage(body, priority, ref_key, source_ip, tags, properties, message_id)
        return self._append([new.entry(self.token, _now())])[0]

    def append_many(self, messages: Iterable[NewMessage | bytes | str]) -> list[int]:
        """Store many; their ids, in order. All or nothing for each priority; in a broker, for
        every 5,000 of them."""
        born = _now()
        entries = [
            (one if isinstance(one, NewMessage) else NewMessage(one)).entry(self.token, born)
            for one in messages
        ]
        return self._append(entries) if entries else []

    def _append(self, entries: Sequence[Entry]) -> list[int]:
        ids = self._engine.append(self.topic, entries)
        self._bell.ring(self.topic)
        return ids

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held back: there is nothing to flush."""


def _now() -> int:
    return int(time.time() * 1000)
