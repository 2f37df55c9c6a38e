"""The engine of the log for callers on the loop: every call is made at once.

A reply waits for what the call has appended or changed: for the log, or for metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from headrace.core.topics.async_engine import CancelRead, DeclaredTopic, EngineReply, Then
from headrace.core.topics.log_engine import LogEngine
from headrace.core.topics.waiting_reads import WaitingRead
from headrace.core.vhost_services import VhostServices
from headrace.errors import BrokerError
from headrace.store.topics.engine import TopicEngine
from headrace.store.topics.types import ConsumerSpec, Entry, ReadResult, TopicInfo, TopicSpec

T = TypeVar("T")


class LoopAdapter:
    """See core.topics.async_engine.AsyncTopicEngine."""

    def __init__(self, engine: LogEngine, services: VhostServices) -> None:
        self.name = engine.name
        self.max_body = engine.max_body
        self._engine = engine
        self._services = services

    def submit(self, call: Callable[[TopicEngine], T], then: Then[T]) -> None:
        try:
            value = call(self._engine)
        except BrokerError as error:
            then(EngineReply(error=error))
        else:
            then(EngineReply(value, metadata_version=self._services.storage.issued))

    # -- topics ----------------------------------------------------------------------------------

    def knows(self, topic: str) -> bool:
        return topic in self._engine.by_name

    def names(self) -> Sequence[str]:
        return sorted(self._engine.by_name)

    def declare(self, spec: TopicSpec, then: Then[DeclaredTopic]) -> None:
        created = not self.knows(spec.name)
        self.submit(lambda engine: DeclaredTopic(engine.create(spec), created), then)

    def delete(self, topic: str, then: Then[None]) -> None:
        self.submit(lambda engine: engine.delete(topic), then)

    def infos(self, then: Then[list[TopicInfo]]) -> None:
        self.submit(lambda engine: engine.topics(), then)

    # -- messages --------------------------------------------------------------------------------

    def append(self, topic: str, entries: Sequence[Entry], then: Then[list[int]]) -> None:
        try:
            ids, position = self._engine.get(topic).append(entries)
        except BrokerError as error:
            then(EngineReply(error=error))
        else:
            then(EngineReply(ids, position=position))

    def read(
        self, topic: str, reader: ConsumerSpec, batch: int, wait_ms: int, then: Then[ReadResult]
    ) -> CancelRead:
        def attempt(must: bool) -> bool:
            try:
                result = self._engine.read(topic, reader, batch)
            except BrokerError as error:
                then(EngineReply(error=error))
                return True
            if not result.messages and not must:
                return False
            then(EngineReply(result))
            return True

        if attempt(must=wait_ms <= 0):
            return _nothing
        deadline = self._services.clock.now_ms() + wait_ms
        return self._engine.wait(topic, WaitingRead(reader, deadline, attempt))

    def close(self) -> None:
        """The vhost is deleted, and its topics with it."""
        self._engine.close()


def _nothing() -> None:
    return
