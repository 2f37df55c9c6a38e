"""Rebalance: computes and applies this consumer's share of the queues."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from headrace.errors import BrokerError as CodecError
from headrace.rocketmq.consuming.allocation import AllocateStrategy
from headrace.rocketmq.consuming.process_queue import Assignment
from headrace.rocketmq.consuming.puller import Puller
from headrace.rocketmq.enums import ConsumeFromWhere, ReadOffsetType
from headrace.rocketmq.errors import RocketMQError
from headrace.wire.remoting.message_queue import MessageQueue
from headrace.wire.remoting.names import is_retry_topic

if TYPE_CHECKING:
    from headrace.rocketmq.consuming.consumer_core import ConsumerCore

logger = logging.getLogger(__name__)

_SOON = 1.0  # seconds until another rebalance when one was not complete
_SWARM = 0.05  # notifications come in swarms
_HANDOVER = 0.2  # seconds in which members store the offsets of queues that another takes
_HALF_AN_HOUR = 30 * 60 * 1000


class QueueOffsets(Protocol):
    """Questions to the broker of a queue. They block; never ask from an event loop."""

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset the next message will get."""

    def min_offset(self, queue: MessageQueue) -> int:
        """The oldest offset that can still be read."""

    def offset_by_time(self, queue: MessageQueue, timestamp: int) -> int:
        """The first message stored at that time (milliseconds) or later."""


class ConsumeFromWhereManager:
    """Turns ConsumeFromWhere into an offset."""

    def __init__(self, bounds: QueueOffsets) -> None:
        self._bounds = bounds

    def get_consume_offset(
        self, queue: MessageQueue, strategy: ConsumeFromWhere | str, timestamp: int = 0
    ) -> int:
        """`timestamp`: milliseconds since 1970, 0 = half an hour ago."""
        strategy = ConsumeFromWhere(strategy)
        if is_retry_topic(queue.topic):
            return self._bounds.min_offset(queue)  # failed by this group: none may be skipped
        if strategy is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
            return self._bounds.min_offset(queue)
        if strategy is ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET:
            return self._bounds.max_offset(queue)
        stamp = timestamp or time.time_ns() // 1_000_000 - _HALF_AN_HOUR
        return self._bounds.offset_by_time(queue, stamp)


def change(
    owned: Collection[MessageQueue], wanted: Iterable[MessageQueue]
) -> tuple[list[MessageQueue], list[MessageQueue]]:
    """The queues to be taken and those to be given up."""
    should = set(wanted)
    return sorted(should - set(owned)), sorted(set(owned) - should)


def share_of(
    strategy: AllocateStrategy,
    group: str,
    client_id: str,
    queues: Sequence[MessageQueue],
    members: Sequence[str] | None,
) -> list[MessageQueue] | None:
    """The own queues of a topic; `None` when unknown: nothing changes then.

    ``members`` is `None` when no broker answered.
    """
    if members is None or not queues:
        return None
    return strategy.allocate(group, client_id, sorted(queues), sorted(members))


class Rebalancer:
    """The queues of one consumer. Only in the loop's thread."""

    def __init__(self, core: ConsumerCore, start_position: ConsumeFromWhereManager) -> None:
        self.lock = asyncio.Lock()
        """Held while queues are taken and given up."""
        self.needed = asyncio.Event()
        self._core = core
        self._config = core.config
        self._start_position = start_position
        self._strategy = core.config.strategy
        self._owned: dict[MessageQueue, Assignment] = {}
        self._has_others = False
        self._has_waited = False

    def owned(self) -> list[Assignment]:
        return list(self._owned.values())

    def clear(self) -> None:
        self._owned.clear()

    async def keep(self) -> None:
        """Rebalance when something has changed, and now and then."""
        interval = self._config.rebalance_interval / 1000
        pause = interval
        while True:
            try:
                async with asyncio.timeout(pause):
                    await self.needed.wait()
            except TimeoutError:
                pass
            self.needed.clear()
            complete = await self._attempt()
            pause = interval if complete else min(_SOON, interval)
            await asyncio.sleep(min(_SWARM, pause))

    async def _attempt(self) -> bool:
        """Any failure, also of a strategy of the program, is logged and retried."""
        problems = self._core.instance.problems
        try:
            complete = await self.rebalance()
        except Exception as error:
            text = f"queues could not be shared: {error!r}; those we have are kept"
            if problems.set("rebalance", text):
                logger.error("%s: %s", self._config.consumer_group, text, exc_info=error)
            return False
        problems.clear("rebalance")
        return complete

    async def rebalance(self) -> bool:
        """Take and give up queues; False when something is missing and it should be tried soon."""
        if self._core.closing:
            return True
        async with self.lock:
            self._core.metrics.add("rebalances")
            self._has_waited = False
            topics = self._core.members.topics()
            complete = True
            if self._core.members.missing_routes():
                await self._core.members.find_routes()
                complete = not self._core.members.missing_routes()
            for topic in topics:
                complete &= await self._rebalance_topic(topic)
            for a in self.owned():
                if a.queue.topic not in topics:
                    complete &= await self._release(a)
                elif a.cached.is_stuck(time.monotonic()):
                    logger.warning("%s was not pulled for 2 minutes; it is assigned again", a.queue)
                    complete = await self._release(a) and False
            return complete

    async def _rebalance_topic(self, topic: str) -> bool:
        known = self._core.instance.routes.get(topic)
        if known is None:
            return True  # missing_routes() has seen to it
        wanted: list[MessageQueue] | None = list(known.read_queues)
        if not self._config.is_broadcasting:
            members = await self._core.members.of_topic(topic)
            self._has_others = len(members or ()) > 1
            group, me = self._config.consumer_group, self._core.instance.client_id
            wanted = share_of(self._strategy, group, me, known.read_queues, members)
        if wanted is None:
            return False
        mine = [queue for queue in self._owned if queue.topic == topic]
        leaving = [queue for queue in mine if self._owned[queue].is_leaving]
        gained, lost = change(mine, wanted)
        complete = not leaving  # once given up, they may be taken again
        for queue in {*lost, *leaving}:
            a = self._owned.get(queue)
            complete &= a is None or await self._release(a)
        if gained and self._is_settling(known.read_queues):
            return False
        if gained:
            complete &= await self._take(gained)
        return complete

    def _is_settling(self, queues: Iterable[MessageQueue]) -> bool:
        if self._config.is_broadcasting:
            return False
        instance = self._core.instance
        found = {instance.routes.master(one.broker_name) for one in queues}
        return instance.restarted_brokers.is_recent(one for one in found if one is not None)

    async def _take(self, queues: list[MessageQueue]) -> bool:
        """Lock (orderly), find the offset, begin to pull."""
        fresh = [Assignment(queue, -1, self._core.store) for queue in queues]
        await self._await_handover()
        mine = await self._core.service.took(fresh)
        begun = await asyncio.gather(*(self._begin(a) for a in mine))
        return len(mine) == len(queues) and all(begun)

    async def _await_handover(self) -> None:
        """Once in a rebalance. Orderly members release locks after they have stored offsets."""
        if self._has_others and not self._has_waited and not self._core.is_orderly:
            self._has_waited = True
            await asyncio.sleep(_HANDOVER)

    async def _begin(self, a: Assignment) -> bool:
        try:
            a.next_offset = await asyncio.to_thread(self._start_offset, a)
        except (RocketMQError, CodecError, OSError) as error:
            self._core.instance.problems.set(
                f"begin {a.queue}", f"{a.queue} cannot be begun: {error}"
            )
            a.drop()
            cancel(a.tasks)
            await self._core.service.released(a)
            return False
        self._core.instance.problems.clear(f"begin {a.queue}")
        self._owned[a.queue] = a
        self._core.metrics.add("queues_gained")
        a.tasks.insert(0, self._core.instance.spawn(Puller(self._core, a).run()))
        return True

    def _start_offset(self, a: Assignment) -> int:
        """In a thread. What is stored counts; memory may be from an earlier ownership.

        The oldest offset is taken for 0, and the broker corrects it: asking for it would need a
        permission that consumers rarely have. Of failed messages none may be skipped.
        """
        queue, where = a.queue, self._config.consume_from_where
        kind = ReadOffsetType.READ_FROM_STORE
        if self._config.is_broadcasting:
            kind = ReadOffsetType.MEMORY_FIRST_THEN_STORE
        else:
            self._core.store.remove_offset(queue)
        offset = self._core.store.read_offset(queue, kind)
        if offset >= 0:
            return offset
        a.is_new = True
        if where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET or is_retry_topic(queue.topic):
            return 0
        return self._start_position.get_consume_offset(queue, where, self._config.start_timestamp)

    async def _release(self, a: Assignment) -> bool:
        """False when a listener of an orderly queue is still running."""
        if not await self._core.service.leave(a):
            return False
        self._owned.pop(a.queue, None)
        cancel(a.tasks)
        self._core.metrics.add("queues_lost")
        self._core.instance.problems.clear(f"pull {a.queue}")
        try:
            await asyncio.to_thread(self._store_last, a.queue)
        except Exception as error:
            logger.warning("the offset of %s was not stored: %s", a.queue, error)
        if not self._config.is_broadcasting:
            self._core.store.remove_offset(a.queue)
        await self._core.service.released(a)
        return True

    def _store_last(self, queue: MessageQueue) -> None:
        """In a thread. Two may have had the queue for a while, after a restart of the broker for
        example: who leaves it does not take back what the other has stored."""
        store = self._core.store
        if not self._config.is_broadcasting:
            mine = store.read_offset(queue, ReadOffsetType.READ_FROM_MEMORY)
            if mine < store.read_offset(queue, ReadOffsetType.READ_FROM_STORE):
                return
        store.persist(queue)

    async def lock_lost(self, a: Assignment) -> None:
        """Another member may own the queue: nothing of it is stored, and it is requested again."""
        a.drop()
        self._owned.pop(a.queue, None)
        cancel(a.tasks[:1])
        self._core.store.remove_offset(a.queue)
        self._core.metrics.add("queues_lost")
        self.needed.set()

    async def offset_moved(self, a: Assignment, offset: int) -> None:
        """The offset we asked for does not exist (any more): continue where the broker says."""
        level = logging.INFO if a.is_new and not a.next_offset else logging.WARNING
        logger.log(level, "%s has no offset %s; continuing at %s", a.queue, a.next_offset, offset)
        await self.reset(a, offset)

    async def reset(self, a: Assignment, offset: int) -> None:
        """Forget the cached messages and begin again at another offset."""
        a.drop()
        self._owned.pop(a.queue, None)
        self._core.store.update_offset(a.queue, offset)
        try:
            await asyncio.to_thread(self._core.store.persist, a.queue)
        except Exception as error:
            self._core.commit_failed(error)
        if not a.is_busy:  # else the lock ends by itself, after the listener
            await self._core.service.released(a)
        self.needed.set()


def cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        if task is not asyncio.current_task():
            task.cancel()
