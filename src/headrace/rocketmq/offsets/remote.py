"""Offsets in the brokers, for groups that share their messages."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from headrace.rocketmq.errors import OffsetStoreError, RocketMQError
from headrace.rocketmq.offsets.offset_store import NOT_FOUND, OffsetEntry, TableOffsetStore
from headrace.wire.remoting.message_queue import MessageQueue

logger = logging.getLogger(__name__)


class OffsetGateway(Protocol):
    """The way to the brokers. Both calls block; never call them from an event loop."""

    def query_offset(self, queue: MessageQueue) -> int:
        """The stored offset, -1 when the group has none."""

    def commit_offsets(self, entries: Sequence[OffsetEntry]) -> list[OffsetEntry]:
        """Send them all, then wait for the answers; those that were stored."""


class RemoteOffsetStore(TableOffsetStore):
    """A cache in front of the brokers, with commits in batches."""

    def __init__(
        self,
        gateway: OffsetGateway,
        *,
        persist_batch_size: int = 10,
        max_cache_size: int = 10_000,
        max_retry_times: int = 3,
    ) -> None:
        super().__init__()
        self._gateway = gateway
        self._batch = persist_batch_size
        self._most = max_cache_size
        self._tries = max_retry_times + 1

    def load(self) -> None:
        """Nothing to do: offsets are asked for when they are needed."""

    def update_offset(self, queue: MessageQueue, offset: int, increase_only: bool = False) -> None:
        super().update_offset(queue, offset, increase_only)
        if len(self._table) > self._most:
            self._table.trim(self._most)

    def persist_all(self) -> None:
        waiting = self._table.dirty()
        failed: OffsetStoreError | None = None
        for start in range(0, len(waiting), self._batch):
            try:
                self._save(waiting[start : start + self._batch])
            except OffsetStoreError as error:
                failed = error  # the other queues may be on brokers that answer
        self._table.trim(self._most)
        if failed is not None:
            raise failed

    def _save(self, entries: list[OffsetEntry]) -> None:
        problem: Exception | None = None
        for _ in range(self._tries):
            try:
                stored = self._gateway.commit_offsets(entries)
            except (RocketMQError, OSError) as error:
                problem = error
                continue
            self._table.stored(stored)
            done = {entry.queue for entry in stored}
            entries = [entry for entry in entries if entry.queue not in done]
            if not entries:
                return
        queues = ", ".join(
            f"{one.queue.topic}@{one.queue.broker_name}:{one.queue.queue_id}" for one in entries
        )
        raise OffsetStoreError(
            f"offsets of {queues} were not stored after {self._tries} tries "
            f"({problem or 'the broker refused them'}); they are kept and tried again"
        ) from problem

    def _stored_offset(self, queue: MessageQueue) -> int:
        offset = self._query(queue)
        if offset != NOT_FOUND:
            self._table.learn(queue, offset)
        return offset

    def _query(self, queue: MessageQueue) -> int:
        problem: Exception | None = None
        for _ in range(self._tries):
            try:
                return self._gateway.query_offset(queue)
            except (RocketMQError, OSError) as error:
                problem = error
        raise OffsetStoreError(
            f"the offset of {queue} could not be read after {self._tries} tries ({problem})"
        ) from problem
