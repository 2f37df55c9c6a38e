"""A living queue: takes messages, deals them to consumers, keeps its limits.

put() only stores and marks the queue; pump(), once per turn, deals, expires and trims. Whoever
looks at a queue (get, declare, purge) pumps it first, so the difference cannot be seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from headrace.core.counters import QueueCounters
from headrace.core.loop_turn import Steps, log_failure
from headrace.core.message_events import ACKNOWLEDGED, DEAD_LETTERED, DROPPED, EXPIRED, REDELIVERED
from headrace.core.policies import NO_POLICIES
from headrace.core.queues.ack_timeouts import AckTimeouts, LeaseOwner
from headrace.core.queues.consumer import Consumer
from headrace.core.queues.dispatch import Dispatcher
from headrace.core.queues.paging import QueueTail
from headrace.core.storage import LEVELS
from headrace.errors import AccessRefused
from headrace.model.backlog import Backlog, PriorityBacklog
from headrace.model.message import STASHED, PublishedRun, Run
from headrace.model.queue_arguments import QueueSettings
from headrace.model.unacked import Lease, SettledRange
from headrace.store.api.message_log import MessageLog, StoredRun
from headrace.wire.amqp.content import body_size
from headrace.wire.amqp.properties import priority as priority_of

if TYPE_CHECKING:
    from headrace.core.clock import Timer
    from headrace.core.vhost import Vhost


RESIDENT_LIMIT = 8 << 20  # bytes of one queue's messages in memory; the rest is a tail
EXPIRE_AT_ONCE = 1000  # messages that are dropped before others are served
BURY_AT_ONCE = 32  # messages that are dead-lettered in one step


class _BodySizedRun(Run):
    """A run that counts body bytes, for queues with a limit in bytes."""

    __slots__ = ()
    measure: ClassVar[Callable[[bytes], int]] = body_size


class Queue:
    """One queue of one vhost."""

    __slots__ = (
        "_ack_timeouts",
        "_dying",
        "_events",
        "_expires_timer",
        "_expiring",
        "_guarded",
        "_is_burying",
        "_is_expiring",
        "_level",
        "_log",
        "_overdue",
        "_run_type",
        "_ttl_timer",
        "_turn",
        "arguments",
        "auto_delete",
        "backlog",
        "consumers",
        "counters",
        "deleted",
        "durable",
        "last_used",
        "marked",
        "marked_at",
        "name",
        "next_offset",
        "number",
        "owner",
        "policies",
        "settings",
        "unacked",
        "uuid",
        "vhost",
    )

    def __init__(
        self,
        vhost: Vhost,
        name: str,
        *,
        durable: bool,
        auto_delete: bool,
        owner: object | None,
        arguments: Mapping[str, object],
        settings: QueueSettings,
        number: int | None = None,
        uuid: str = "",
    ) -> None:
        self.vhost = vhost
        self.name = name
        self.number = number  # in the log; None = its messages are not stored
        self.uuid = uuid
        self._log = vhost.storage.log if number is not None else None
        self._events = vhost.events
        self._level = 0
        self.durable = durable
        self.auto_delete = auto_delete
        self.owner = owner  # the connection of an exclusive queue
        self.arguments = arguments
        self.policies = NO_POLICIES
        self.backlog = self._new_backlog(settings)
        self.consumers = Dispatcher()
        self.next_offset = 0
        self.unacked = 0
        self.counters = QueueCounters()
        self.deleted = False
        self.marked = False
        self.marked_at = 0
        self.last_used = vhost.clock.now_ms()
        self._turn = vhost.turn
        self._expiring = False  # some message may expire
        self._is_expiring = False  # there is more that has expired than one share
        self._overdue = 0  # and until when; 0 = there is not
        self._dying: deque[tuple[list[Run], str]] = deque()  # on the way to the dead letters
        self._is_burying = False
        self._guarded = False  # put() must look at limits or priorities
        self._run_type: type[Run] = Run
        self._ttl_timer: Timer | None = None
        self._expires_timer: Timer | None = None
        self._ack_timeouts = AckTimeouts(vhost.timers, self._timed_out)
        self.settings = settings
        self.configure(settings)
        if self._log is not None:
            self._restore(self._log)

    # -- settings ---------------------------------------------------------------------------

    def configure(self, settings: QueueSettings) -> None:
        """Take settings as they are now; called again when a policy changes."""
        self.settings = settings
        self.consumers.single_active = settings.single_active_consumer
        self._level = LEVELS[settings.durability]
        if self._log is not None:
            self._log.space.set_retention(self.number or 0, settings.retention)
        limited = settings.max_length is not None or settings.max_length_bytes is not None
        self._guarded = limited or settings.max_priority is not None
        run_type = _BodySizedRun if settings.max_length_bytes is not None else Run
        if run_type is not self._run_type:
            self._run_type = run_type
            self._remeasure()
        if settings.message_ttl_ms is not None:
            self._expiring = True
        if self._expires_timer is not None:
            self._expires_timer.cancel()  # the time may be shorter now
        self.touch()
        if limited and self.backlog.count:
            self.mark()

    def _new_backlog(self, settings: QueueSettings) -> Backlog | PriorityBacklog:
        if settings.max_priority is not None:
            return PriorityBacklog(settings.max_priority, self._new_tail, RESIDENT_LIMIT)
        return Backlog(self._new_tail(), RESIDENT_LIMIT)

    def _new_tail(self) -> QueueTail:
        storage = self.vhost.storage
        return QueueTail(storage.scratch, self._log, self.number or 0, self._stored_expiry)

    def _stored_expiry(self, stored: StoredRun) -> int | None:
        """When messages read back expire: their time went on while they were on the disk."""
        self.counters.read_back += len(stored.offsets)
        limits = [self.settings.message_ttl_ms, stored.ttl_ms]
        known = [ms for ms in limits if ms is not None]
        if not known:
            return None
        clock = self.vhost.clock
        age = clock.expiry_ms() - stored.time
        self._expiring = True
        return clock.now_ms() + min(known) - max(age, 0)

    def _restore(self, log: MessageLog) -> None:
        """Take up what the log holds of this queue."""
        number = self.number or 0
        self.next_offset = log.reads.next_offset(number)
        count, size = log.reads.live(number)
        if not count:
            return
        tail = self._new_tail()
        tail.restore(0, self.next_offset, count, size)
        if not self.vhost.storage.clean:
            tail.suspect_below = self.next_offset
        if isinstance(self.backlog, Backlog):
            self.backlog = Backlog(tail, RESIDENT_LIMIT)
        else:
            while tail.count:
                for run in tail.pull():
                    self._restore_by_priority(self.backlog, run)
        self._expiring = True
        self.mark()

    def _restore_by_priority(self, backlog: PriorityBacklog, run: Run) -> None:
        for index, content in enumerate(run.contents):
            one = run.piece(slice(index, index + 1))
            one.priority = priority_of(content)
            backlog.append(one)

    def _remeasure(self) -> None:
        if sum(len(run) for run in self.backlog.runs()) < self.backlog.count:
            return  # what is not in memory keeps its measure
        runs = self.backlog.clear()
        for run in runs:
            again = self._measured(run)
            if again.deliveries:
                self.backlog.put_back([again])
            else:
                self.backlog.append(again)

    def _measured(self, run: Run) -> Run:
        """The run as this queue measures it now."""
        if type(run) is self._run_type or run.contents is STASHED:
            return run
        contents = run.contents[run.start :]
        return self._run_type(
            run.route,
            contents,
            run.offsets[run.start :],
            sum(map(self._run_type.measure, contents)),
            channel_number=run.channel_number,
            persistent=run.persistent,
            expires=run.expires,
            deliveries=run.deliveries,
            priority=run.priority,
        )

    # -- messages in --------------------------------------------------------------------------

    def put(self, batch: PublishedRun) -> bool:
        """Take the batch's messages; False when the length limit refused some of them."""
        if self._guarded:
            return self._put_guarded(batch)
        n = len(batch.contents)
        first = self._number(batch, n)
        self._append(batch, batch.contents, batch.size, range(first, first + n))
        return True

    def _number(self, batch: PublishedRun, n: int) -> int:
        """Offsets for ``n`` more messages; notes where they are to be stored."""
        first = self.next_offset
        self.next_offset = first + n
        if batch.persistent and self._log is not None and self._level:
            placed = batch.placed
            if placed and placed[-1][0] == self.number:
                placed[-1] = (placed[-1][0], placed[-1][1], placed[-1][2] + n)
            else:
                placed.append((self.number or 0, first, n))
            if self._level > batch.level:
                batch.level = self._level
        self.counters.published += n
        return first

    def _append(
        self,
        batch: PublishedRun,
        contents: list[bytes],
        size: int,
        offsets: Sequence[int],
        priority: int = 0,
    ) -> None:
        expires = None
        if self._expiring or batch.ttl_ms is not None:
            expires = self._expiry(batch.ttl_ms)
        self.backlog.append(
            self._run_type(
                batch.route,
                contents,
                offsets,
                size,
                channel_number=batch.channel_number,
                persistent=batch.persistent and self._level > 0,
                expires=expires,
                priority=priority,
            )
        )
        if not self.marked:
            self._turn.mark_queue(self)

    def _expiry(self, ttl_ms: int | None) -> int | None:
        limit = self.settings.message_ttl_ms
        if ttl_ms is None or (limit is not None and limit < ttl_ms):
            ttl_ms = limit
        if ttl_ms is None:
            return None
        now = self.vhost.clock.now_ms()
        if not self.marked:
            self.marked_at = now
        self._expiring = True
        return now + ttl_ms

    def _put_guarded(self, batch: PublishedRun) -> bool:
        if self.settings.overflow == "drop-head":
            self._append_guarded(batch, batch.contents)
            return True
        # Room comes back while consumers take what was just put in.
        rest = batch.contents
        while rest and (fitting := self._count_that_fits(rest)):
            self._append_guarded(batch, rest[:fitting])
            rest = rest[fitting:]
        if not rest:
            return True
        n = len(batch.contents)
        batch.refused = (batch.refused or set()) | set(range(n - len(rest), n))
        if self.settings.overflow == "reject-publish-dlx":
            self._bury_refused(batch, rest)
        return False

    def _append_guarded(self, batch: PublishedRun, contents: list[bytes]) -> None:
        n = len(contents)
        offsets = range(first := self._number(batch, n), first + n)
        measure = self._run_type.measure
        if self.settings.max_priority is None:
            self._append(batch, contents, sum(map(measure, contents)), offsets)
            return
        by_level: dict[int, list[int]] = {}
        for index, content in enumerate(contents):
            by_level.setdefault(priority_of(content), []).append(index)
        for level, indices in by_level.items():
            members = [contents[index] for index in indices]
            numbers = [offsets[index] for index in indices]
            self._append(batch, members, sum(map(measure, members)), numbers, level)

    def _count_that_fits(self, contents: list[bytes]) -> int:
        self.dispatch()
        room = len(contents)
        if self.settings.max_length is not None:
            room = min(room, max(0, self.settings.max_length - self.backlog.count))
        if self.settings.max_length_bytes is not None:
            free = self.settings.max_length_bytes - self.backlog.size
            for index, content in enumerate(contents[:room]):
                free -= body_size(content)
                if free < 0:
                    return index
        return room

    def _bury_refused(self, batch: PublishedRun, contents: list[bytes]) -> None:
        run = Run(
            batch.route,
            contents,
            range(len(contents)),
            0,
            channel_number=batch.channel_number,
            persistent=batch.persistent,
        )
        if self.settings.dead_letter_exchange is not None:
            self.vhost.dead_letters.bury(self, [run], "maxlen")

    # -- messages out -------------------------------------------------------------------------

    def mark(self) -> None:
        """Deal at the end of this turn."""
        if not self.marked:
            self.marked_at = self.vhost.clock.now_ms() if self._expiring else 0
            self._turn.mark_queue(self)

    def dispatch(self) -> None:
        """Deal what is ready, then drop what has expired or is over the limit."""
        if self._expiring:
            # What arrived in this turn gets its chance first: a TTL of 0 means "now or never".
            if self._drop_late():
                self._dispatch_ready(self._drop_late)
            if self._expire(self.vhost.clock.now_ms()):
                self._arm_ttl()
        else:
            self._dispatch_ready()
        if self._guarded and self.settings.overflow == "drop-head":
            self._drop_head()

    def _drop_late(self) -> bool:
        return self._expire(max(self.marked_at - 1, self._overdue))

    def _dispatch_ready(self, drop_expired: Callable[[], bool] | None = None) -> None:
        if self.backlog.count and len(self.consumers):
            self.consumers.dispatch(self.backlog, drop_expired)

    def _expire(self, now: int) -> bool:
        """Drop what has expired at the head; False: there is more, and it goes in later turns."""
        if not self._is_burying:
            expired = self.backlog.take_expired(now, EXPIRE_AT_ONCE)
            if not expired:
                self._overdue = 0
                return True
            self.counters.expired += sum(map(len, expired))
            self._bury(expired, "expired")
        due = self.backlog.next_expiry()
        if due is None or due > now:
            self._overdue = 0
            return True
        self._overdue = now
        if not self._is_expiring:
            self._is_expiring = True
            self._turn.later(self)
        return False

    def work(self) -> None:
        """Go on with what has expired."""
        self._is_expiring = False
        if not self.deleted:
            self.dispatch()

    def _arm_ttl(self) -> None:
        due = self.backlog.next_expiry()
        if due is None:
            if not self.backlog.count and self.settings.message_ttl_ms is None:
                self._expiring = False
            return
        timer = self._ttl_timer
        if timer is not None and timer.callback is not None:
            if timer.due <= due:
                return
            timer.cancel()
        self._ttl_timer = self.vhost.timers.at(due, self._ttl_due)

    def _ttl_due(self) -> None:
        if not self.deleted and self._expire(self.vhost.clock.now_ms()):
            self._arm_ttl()

    def _drop_head(self) -> None:
        settings = self.settings
        backlog = self.backlog
        dropped: list[Run] = []
        if settings.max_length is not None:
            while (over := backlog.count - settings.max_length) > 0:
                dropped.append(backlog.take(over))
        if settings.max_length_bytes is not None:
            while backlog.count and backlog.size > settings.max_length_bytes:
                dropped.append(backlog.take(1))
        if dropped:
            self.counters.dropped += sum(map(len, dropped))
            self._bury(dropped, "maxlen")

    def take_one(self) -> Run | None:
        """The next message, for a get; None when there is none."""
        self.touch()
        self.dispatch()
        if not self.backlog.count:
            self.counters.got_nothing += 1
            return None
        run = self.backlog.take(1)
        if self._expiring:
            self._arm_ttl()  # for the new head
        if not len(run):
            return None
        self.counters.got += 1
        return run

    # -- settling -----------------------------------------------------------------------------

    def delivered(self, consumer: Consumer, run: Run, n: int) -> None:
        """Count a delivery. Without acks the messages are done with."""
        counters = self.counters
        counters.delivered += n
        if run.deliveries:
            counters.redelivered += n
            if self._events.on:
                self._note(REDELIVERED, run, run.offsets, consumer.tag)
        if consumer.no_ack:
            counters.acked += n
            counters.delivered_no_ack += n
            if not consumer.tag:  # a get
                counters.got_no_ack += n
            self._settle(run, run.offsets)
            if self._events.on:
                self._note(ACKNOWLEDGED, run, run.offsets, consumer.tag)
        else:
            consumer.unacked += n
            self.unacked += n

    def _settle(self, run: Run, offsets: Sequence[int]) -> None:
        """The messages are done with; the log must not bring them back."""
        if run.persistent and self._log is not None:
            self._log.settle(self.number or 0, offsets)

    def _note(self, kind: str, run: Run, offsets: Sequence[int], consumer: str = "") -> None:
        """For `$events`."""
        if run.persistent and self._log is not None:
            self._events.note(self, kind, offsets, consumer)

    def watch(self, holder: LeaseOwner, lease: Lease[Consumer]) -> None:
        """Take the lease back when its time is over. Only for queues with an ack time-out."""
        if self.settings.ack_timeout_ms is not None:
            self._ack_timeouts.watch(holder, lease, self.settings.ack_timeout_ms)

    def _timed_out(self, parts: list[SettledRange[Consumer]]) -> None:
        if self.settings.ack_timeout_action == "dead-letter":
            self.reject(parts, "ack_timeout")
        else:
            self.requeue(parts)

    def acknowledge(self, part: SettledRange[Consumer]) -> None:
        """The messages are done with."""
        count = part.count
        part.owner.unacked -= count
        self.unacked -= count
        self.counters.acked += count
        offsets = part.run.offsets[part.start : part.stop]
        self._settle(part.run, offsets)
        if self._events.on:
            self._note(ACKNOWLEDGED, part.run, offsets, part.owner.tag)
        if self.backlog.count and not self.marked:
            self.mark()

    def requeue(self, parts: Iterable[SettledRange[Consumer]]) -> None:
        """The messages go back to their places, marked as redelivered."""
        back: list[Run] = []
        dead: list[Run] = []
        limit, now = self.settings.delivery_limit, self.vhost.clock.now_ms()
        for part in parts:
            run = self._measured(self._give_up(part))
            run.deliveries += 1
            if run.expires is not None:
                self._expiring = True
                if run.expires <= now:
                    run.expires = -1  # no arrival of this turn any more, which is served first
            (dead if limit is not None and run.deliveries > limit else back).append(run)
        if self.deleted:
            return
        if self._log is not None:
            for run in back:
                if run.persistent:
                    self._log.requeued(self.number or 0, run.offsets, run.deliveries)
        self.counters.returned += sum(map(len, back))
        self.backlog.put_back(back)
        self.mark()
        if dead:
            self._bury(dead, "delivery_limit")

    def reject(self, parts: Iterable[SettledRange[Consumer]], reason: str = "rejected") -> None:
        """The messages are dead-lettered, or dropped."""
        runs = [self._give_up(part) for part in parts]
        if self.backlog.count:
            self.mark()
        self._bury(runs, reason)

    def _give_up(self, part: SettledRange[Consumer]) -> Run:
        part.owner.unacked -= part.count
        self.unacked -= part.count
        return part.piece()

    def _bury(self, runs: list[Run], reason: str) -> None:
        """To the dead-letter exchange, or to nowhere; and no more in this queue either way."""
        self._dying.append((runs, reason))
        if not self._is_burying:
            self._is_burying = True
            self._turn.run(self._bury_all(), self._buried)

    def _bury_all(self) -> Steps:
        while self._dying:
            runs, reason = self._dying.popleft()
            for run in runs:
                has_exchange = self.settings.dead_letter_exchange is not None
                for part in self._parts_to_bury(run) if has_exchange else [run]:
                    if self.deleted:
                        return
                    self._bury_part(part, reason)
                    yield

    def _buried(self, error: Exception | None) -> None:
        self._is_burying = False
        log_failure(error)
        if self.deleted:
            self._dying.clear()
        elif self._dying:
            self._bury([], "")

    def _bury_part(self, run: Run, reason: str) -> None:
        """In one step: a message is in one place or in the other."""
        with self.vhost.storage.atomic():
            if self.settings.dead_letter_exchange is not None:
                self.counters.dead_lettered += len(run)
                self.vhost.dead_letters.bury(self, [run], reason)
            offsets = run.offsets[run.start :]
            self._settle(run, offsets)
            if self._events.on:
                self._note(self._fate(reason), run, offsets)

    def _fate(self, reason: str) -> str:
        if reason == EXPIRED:
            return EXPIRED
        return DROPPED if self.settings.dead_letter_exchange is None else DEAD_LETTERED

    def _parts_to_bury(self, run: Run) -> Iterator[Run]:
        for one in self._new_tail().load(run) if run.contents is STASHED else [run]:
            for start in range(one.start, len(one.contents), BURY_AT_ONCE):
                yield one.piece(slice(start, start + BURY_AT_ONCE))

    # -- consumers ------------------------------------------------------------------------------

    def subscribe(self, consumer: Consumer) -> None:
        """Add a consumer; it is served from the next pump on."""
        text = f"queue '{self.name}' in vhost '{self.vhost.name}' in exclusive use"
        if consumer.exclusive and (len(self.consumers) or self.settings.single_active_consumer):
            raise AccessRefused(text)
        first = self.consumers.active  # an exclusive one is alone
        if first is not None and first.exclusive:
            raise AccessRefused(text)
        self._catch_up()
        self.consumers.add(consumer)
        self.touch()
        if self.backlog.count:
            self.mark()

    def unsubscribe(self, consumer: Consumer) -> None:
        """Remove a consumer, after it was given what came before."""
        self._catch_up()
        self.remove_consumer(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        """Remove a consumer that may get nothing any more."""
        self.consumers.remove(consumer)
        self.consumers_left()

    def _catch_up(self) -> None:
        """Deal now what was put in during this turn: it is for those who consume until now."""
        if self.marked:
            self.dispatch()

    def consumers_left(self) -> None:
        """Consumers are gone: an auto-delete queue goes with the last, others take over."""
        if self.deleted:
            return
        self.touch()
        if self.auto_delete and not len(self.consumers):
            self.vhost.remove_queue(self)
        elif self.backlog.count:
            self.mark()

    # -- life ------------------------------------------------------------------------------------

    def touch(self) -> None:
        """The queue is used: x-expires begins anew."""
        self.last_used = self.vhost.clock.now_ms()
        expires = self.settings.expires_ms
        timer = self._expires_timer
        if expires is not None and (timer is None or timer.callback is None):
            self._expires_timer = self.vhost.timers.after(expires, self._expires_due)

    def _expires_due(self) -> None:
        expires = self.settings.expires_ms
        if self.deleted or expires is None:
            return
        due = self.last_used + expires
        if len(self.consumers) or due > self.vhost.clock.now_ms():
            due = max(due, self.vhost.clock.now_ms() + 1)
            self._expires_timer = self.vhost.timers.at(due, self._expires_due)
        else:
            self.vhost.remove_queue(self)

    def purge(self) -> int:
        """Drop all ready messages; return how many."""
        self.dispatch()
        count = self.backlog.count
        for run in self.backlog.clear():
            self._settle(run, run.offsets[run.start :])
        return count

    def close(self) -> int:
        """The queue is deleted: cancel its consumers, drop its messages; return how many."""
        self.dispatch()
        self.deleted = True
        count = self.backlog.count
        for consumer in list(self.consumers):
            self.consumers.remove(consumer)
            consumer.channel.cancelled(consumer)
        self.backlog.clear()
        self.backlog = Backlog()  # the other refers to the queue: see AckTimeouts.close
        if self._log is not None:
            self._log.space.delete_queue(self.number or 0)
        self._ack_timeouts.close()
        for timer in (self._ttl_timer, self._expires_timer):
            if timer is not None:
                timer.cancel()
        return count
