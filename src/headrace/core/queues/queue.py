"""A queue: accepts messages, dispatches them to consumers, keeps its limits.

Invariants

- A message of the queue is in exactly one place: in the backlog (ready), in a lease of a channel
  (unacked), or with the dead-lettering (on its way out). ``unacked`` is the sum over all leases.
- Offsets are given by put(), rise, and are never reused. They are the order of the queue: a
  requeued message goes back to where its offset belongs, before everything that arrived later.
- A message is settled in the log exactly once: by an acknowledgement, by a delivery without
  acknowledgements, or when it is dead-lettered or dropped. Dead-lettering and settling are one
  atomic group of the log: after a crash the message is in one queue or in the other.
- put() only appends and marks the queue. dispatch(), once per loop turn, drops what has expired,
  delivers, and drops what is over the limit, in this order. Requests that depend on the state
  (get, declare, purge, delete, a limit that rejects publishes) call dispatch() first, so the delay
  cannot be observed.
- ``marked`` is True exactly while the queue is on the list of the loop turn. What gives it
  something to deliver (a message, credit, a consumer) must mark it.
- After close() ``deleted`` is True, and the queue has neither messages, consumers nor timers.
  Leases that are settled later only lower the counts.

The hot path is put() and dispatch() -> Dispatcher.dispatch(): work per run, not per message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from headrace.core import message_events as events
from headrace.core.counters import QueueCounters
from headrace.core.message_events import EXPIRED, MessageEvents
from headrace.core.queues import length_limits as limits
from headrace.core.queues.ack_timeouts import AckTimeouts, LeaseOwner
from headrace.core.queues.consumer import Consumer
from headrace.core.queues.dead_message_removal import DeadMessageRemoval
from headrace.core.queues.dispatch import Dispatcher
from headrace.core.queues.expiry import IdleExpiry, MessageExpiry
from headrace.core.queues.paging import QueuePaging, restore_priorities
from headrace.core.queues.prepared_puts import RESIDENT_LIMIT, PreparedPuts, by_priority, shifted
from headrace.core.storage import LEVELS
from headrace.core.vhost_services import VhostServices
from headrace.errors import AccessRefused
from headrace.model.backlog import Backlog, PriorityBacklog
from headrace.model.message import PAGED_OUT, PublishedRun, Run
from headrace.model.policy import NO_POLICIES
from headrace.model.queue_arguments import QueueSettings
from headrace.model.unacked import Lease, SettledRange
from headrace.store.api.message_log import StoredRun

DEAD_LETTER_AT_ONCE = 32  # messages that are dead-lettered in one step


class Queue:
    """One queue of one vhost."""

    __slots__ = ("_ack_timeouts", "_dead_letter", "_dead_removal", "_events", "_expiry",
                 "_has_limits", "_idle", "_level", "_log", "_on_delete", "_run_type", "_turn",
                 "arguments", "auto_delete", "backlog", "consumers", "counters", "deleted",
                 "durable", "marked", "name", "next_offset", "number", "owner", "policies",
                 "services", "settings", "unacked", "uuid")  # fmt: skip

    def __init__(
        self,
        services: VhostServices,
        name: str,
        *,
        durable: bool,
        auto_delete: bool,
        owner: object | None,
        arguments: Mapping[str, object],
        settings: QueueSettings,
        message_events: MessageEvents,
        dead_letter: Callable[[Queue, Run, str], None],
        on_delete: Callable[[Queue], object],
        number: int | None = None,
        uuid: str = "",
    ) -> None:
        self.services = services
        self.name = name
        self.number = number  # in the log; None = its messages are not stored
        self.uuid = uuid
        self.durable = durable
        self.auto_delete = auto_delete
        self.owner = owner  # the connection of an exclusive queue
        self.arguments = arguments
        self.policies = NO_POLICIES
        self.settings = settings
        self.consumers = Dispatcher()
        self.counters = QueueCounters()
        self.next_offset = 0
        self.unacked = 0
        self.deleted = False
        self.marked = False
        self._log = services.storage.log if number is not None else None
        self._turn = services.turn
        self._level = 0
        self._has_limits = False  # put() must look at limits or priorities
        self._run_type: type[Run] = Run
        self._events = message_events
        self._dead_letter = dead_letter  # publishes to the dead-letter exchange
        self._on_delete = on_delete
        timers = services.timers
        self._ack_timeouts = AckTimeouts(timers, self._timed_out)
        self._idle = IdleExpiry(timers, lambda: len(self.consumers), lambda: on_delete(self))
        self._dead_removal = DeadMessageRemoval(services.turn, self._pieces, self._remove)
        stored = self._new_paging()
        if self._log is not None:
            self.next_offset = stored.restore(self._log, clean=services.storage.clean)
        self.backlog: Backlog | PriorityBacklog = (
            Backlog(stored, RESIDENT_LIMIT)
            if settings.max_priority is None
            else PriorityBacklog(settings.max_priority, self._new_paging, RESIDENT_LIMIT)
        )
        self._expiry = MessageExpiry(
            timers, self._turn, self.backlog, self._dead_removal, self.counters, self.dispatch
        )
        self._expiry.is_active = stored.count > 0
        self.configure(settings)
        if stored.count:
            self.mark()
        if isinstance(self.backlog, PriorityBacklog):
            restore_priorities(stored, self.backlog)

    # -- settings ---------------------------------------------------------------------------

    def configure(self, settings: QueueSettings) -> None:
        """Take settings as they are now; called again when a policy changes."""
        self.settings = settings
        self.consumers.single_active = settings.single_active_consumer
        self._level = LEVELS[settings.durability]
        if self._log is not None:
            self._log.space.set_retention(self.number or 0, settings.retention)
        limited = settings.max_length is not None or settings.max_length_bytes is not None
        self._has_limits = limited or settings.max_priority is not None
        run_type = limits.BodySizedRun if settings.max_length_bytes is not None else Run
        if run_type is not self._run_type:
            self._run_type = run_type
            limits.remeasure(self.backlog, run_type)
        self._expiry.ttl_ms = settings.message_ttl_ms
        if settings.message_ttl_ms is not None:
            self._expiry.is_active = True
        self._idle.configure(settings.expires_ms)
        if limited and self.backlog.count:
            self.mark()

    def _new_paging(self, resident: int = 0) -> QueuePaging:
        scratch = self.services.storage.scratch
        return QueuePaging(scratch, self._log, self.number or 0, self._paged_in, resident)

    def _paged_in(self, stored: StoredRun) -> int | None:
        """Count messages that are paged in; returns when they expire."""
        self.counters.read_back += len(stored.offsets)
        return self._expiry.stored_expires_at(stored)

    # -- messages in --------------------------------------------------------------------------

    def put(self, published: PublishedRun) -> bool:
        """Accept the messages; False when the length limit refused some of them."""
        if self._has_limits:
            return self._put_limited(published)
        n = len(published.contents)
        first = self._number(published, n)
        self._append(published, published.contents, published.size, range(first, first + n))
        return True

    def _number(self, published: PublishedRun, n: int) -> int:
        """Offsets for ``n`` more messages; notes where they are to be stored."""
        first = self.next_offset
        self.next_offset = first + n
        if published.persistent and self._log is not None and self._level:
            placed = published.placed
            if placed and placed[-1][0] == self.number:
                placed[-1] = (placed[-1][0], placed[-1][1], placed[-1][2] + n)
            else:
                placed.append((self.number or 0, first, n))
            if self._level > published.level:
                published.level = self._level
        self.counters.published += n
        return first

    def _append(
        self,
        published: PublishedRun,
        contents: list[bytes],
        size: int,
        offsets: Sequence[int],
        priority: int = 0,
    ) -> None:
        expires = None
        if self._expiry.is_active or published.ttl_ms is not None:
            expires = self._expiry.expires_at(published.ttl_ms, is_marked=self.marked)
        self.backlog.append(
            self._run_type(
                published.route,
                contents,
                offsets,
                size,
                channel_number=published.channel_number,
                persistent=published.persistent and self._level > 0,
                expires=expires,
                priority=priority,
            )
        )
        if not self.marked:
            self._turn.mark_queue(self)

    def _put_limited(self, published: PublishedRun) -> bool:
        if self.settings.overflow == "drop-head":
            self._append_limited(published, published.contents)
            return True
        # Room comes back while consumers take what was just put in.
        rest = published.contents
        while rest:
            self.dispatch()
            fitting = limits.count_that_fits(self.backlog, self.settings, rest)
            if not fitting:
                break
            self._append_limited(published, rest[:fitting])
            rest = rest[fitting:]
        if not rest:
            return True
        n = len(published.contents)
        published.refused = (published.refused or set()) | set(range(n - len(rest), n))
        if (
            self.settings.overflow == "reject-publish-dlx"
            and self.settings.dead_letter_exchange is not None
        ):
            self._dead_letter(self, limits.refused_run(published, rest), "maxlen")
        return False

    def _append_limited(self, published: PublishedRun, contents: list[bytes]) -> None:
        first = self._number(published, len(contents))
        for level, members, indices in by_priority(contents, self.settings.max_priority):
            size = sum(map(self._run_type.measure, members))
            self._append(published, members, size, shifted(indices, first), level)

    def prepare(self) -> PreparedPuts | None:
        """For many messages that come in one step; None: each must be looked at then."""
        if self._has_limits and self.settings.overflow != "drop-head":
            return None
        highest, ttl = self.settings.max_priority, self._expiry.shorter_ttl
        paging = partial(self._new_paging, max(0, RESIDENT_LIMIT - self.backlog.size))
        return PreparedPuts(paging, self._run_type, self._level, highest, ttl)

    def put_prepared(self, prepared: PreparedPuts) -> int:
        """Accept what was prepared; returns the first offset."""
        first = self.next_offset
        self.next_offset += prepared.count
        self.counters.published += prepared.count
        self._expiry.is_active = self._expiry.is_active or prepared.is_expiring
        for priority, paged in prepared.paged.items():
            paged.place(first, self.services.clock.now_ms())
            self.backlog.append_paged(paged, priority)
        self.mark()
        return first

    # -- messages out -------------------------------------------------------------------------

    def mark(self) -> None:
        """Dispatch at the end of this loop turn."""
        if not self.marked:
            expiry = self._expiry
            expiry.marked_at = self.services.clock.now_ms() if expiry.is_active else 0
            self._turn.mark_queue(self)

    def dispatch(self) -> None:
        """Deliver what is ready, then drop what has expired or is over the limit."""
        expiry = self._expiry
        if expiry.is_active:
            if expiry.drop_late() and self.backlog.count:
                self.consumers.dispatch(self.backlog, expiry.drop_late)
            expiry.drop_due()
        elif self.backlog.count:
            self.consumers.dispatch(self.backlog)
        if self._has_limits and self.settings.overflow == "drop-head":
            self._drop_excess()

    def _drop_excess(self) -> None:
        dropped = limits.take_excess(self.backlog, self.settings)
        if dropped:
            self.counters.dropped += sum(map(len, dropped))
            self._dead_removal.add(dropped, "maxlen")
            if limits.is_exceeded(self.backlog, self.settings):
                self._expiry.dispatch_later()

    def take_one(self) -> Run | None:
        """The next message, for a get; None when there is none."""
        self.touch()
        self.dispatch()
        if not self.backlog.count:
            self.counters.got_nothing += 1
            return None
        run = self.backlog.take(1)
        if self._expiry.is_active:
            self._expiry.arm()  # for the new head
        if not len(run):
            return None
        self.counters.got += 1
        return run

    # -- settling -----------------------------------------------------------------------------

    def delivered(self, consumer: Consumer, run: Run, n: int) -> None:
        """Count a delivery. Without acknowledgements it settles the messages."""
        counters = self.counters
        counters.delivered += n
        if run.deliveries:
            counters.redelivered += n
            if self._events.on:
                self._record_event(events.REDELIVERED, run, run.offsets, consumer.tag)
        if consumer.no_ack:
            counters.acked += n
            counters.delivered_no_ack += n
            if not consumer.tag:  # a get
                counters.got_no_ack += n
            self._settle(run, run.offsets)
            if self._events.on:
                self._record_event(events.ACKNOWLEDGED, run, run.offsets, consumer.tag)
        else:
            consumer.unacked += n
            self.unacked += n

    def _settle(self, run: Run, offsets: Sequence[int]) -> None:
        """Settle the messages in the log, so that a restart does not bring them back."""
        if run.persistent and self._log is not None:
            self._log.settle(self.number or 0, offsets)

    def _record_event(
        self, kind: str, run: Run, offsets: Sequence[int], consumer: str = ""
    ) -> None:
        """For the topic `$events`."""
        if run.persistent and self._log is not None:
            self._events.note(self, kind, offsets, consumer)

    def watch(self, holder: LeaseOwner, lease: Lease[Consumer]) -> None:
        """Requeue or dead-letter the lease when its time is over, if there is an ack timeout."""
        if self.settings.ack_timeout_ms is not None:
            self._ack_timeouts.watch(holder, lease, self.settings.ack_timeout_ms)

    def _timed_out(self, parts: list[SettledRange[Consumer]]) -> None:
        if self.settings.ack_timeout_action == "dead-letter":
            self.reject(parts, "ack_timeout")
        else:
            self.requeue(parts)

    def acknowledge(self, part: SettledRange[Consumer]) -> None:
        """Settle acknowledged messages."""
        run, start, stop = part.run, part.start, part.stop
        if run.persistent and self._log is not None:
            self._log.settle(self.number or 0, run.offsets[start:stop])
        if self._events.on:
            self.note_acknowledged(part)
        self.acknowledge_counted(part.owner, stop - start)

    def acknowledge_counted(self, owner: Consumer, count: int) -> None:
        """Messages were acknowledged; what is stored of them is settled by the caller."""
        owner.unacked -= count
        self.unacked -= count
        self.counters.acked += count
        if self.backlog.count and not self.marked:
            self.mark()

    def note_acknowledged(self, part: SettledRange[Consumer]) -> None:
        """For the topic `$events`."""
        offsets = part.run.offsets[part.start : part.stop]
        self._record_event(events.ACKNOWLEDGED, part.run, offsets, part.owner.tag)

    def requeue(self, parts: Iterable[SettledRange[Consumer]]) -> None:
        """Put the messages back in order, marked as redelivered."""
        back: list[Run] = []
        dead: list[Run] = []
        limit, now = self.settings.delivery_limit, self.services.clock.now_ms()
        for part in parts:
            run = limits.measured(self._take_back(part), self._run_type)
            run.deliveries += 1
            if run.expires is not None:
                self._expiry.is_active = True
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
        self.backlog.requeue(back)
        self.mark()
        if dead:
            self._dead_removal.add(dead, "delivery_limit")

    def reject(self, parts: Iterable[SettledRange[Consumer]], reason: str = "rejected") -> None:
        """The messages are dead-lettered, or dropped."""
        runs = [self._take_back(part) for part in parts]
        if self.backlog.count:
            self.mark()
        self._dead_removal.add(runs, reason)

    def _take_back(self, part: SettledRange[Consumer]) -> Run:
        part.owner.unacked -= part.count
        self.unacked -= part.count
        return part.piece()

    # -- dead letters -------------------------------------------------------------------------

    def _pieces(self, run: Run) -> Iterator[Run]:
        """The parts of the run that are removed in one step each."""
        if self.settings.dead_letter_exchange is None:
            yield run
            return
        for one in self._new_paging().load(run) if run.contents is PAGED_OUT else [run]:
            for start in range(one.start, len(one.contents), DEAD_LETTER_AT_ONCE):
                yield one.piece(slice(start, start + DEAD_LETTER_AT_ONCE))

    def _remove(self, run: Run, reason: str) -> None:
        """Dead-letter or drop the messages, in one atomic group of the log."""
        with self.services.storage.atomic():
            event = events.DROPPED
            if self.settings.dead_letter_exchange is not None:
                event = events.DEAD_LETTERED
                self.counters.dead_lettered += len(run)
                self._dead_letter(self, run, reason)
            offsets = run.offsets[run.start :]
            self._settle(run, offsets)
            if self._events.on:
                self._record_event(EXPIRED if reason == EXPIRED else event, run, offsets)

    # -- consumers ------------------------------------------------------------------------------

    def subscribe(self, consumer: Consumer) -> None:
        """Add a consumer; it is served from the next dispatch on."""
        if not self.consumers.can_add(consumer):
            raise AccessRefused(
                f"queue '{self.name}' in vhost '{self.services.name}' in exclusive use"
            )
        self._dispatch_marked()
        self.consumers.add(consumer)
        self.touch()
        if self.backlog.count:
            self.mark()

    def unsubscribe(self, consumer: Consumer) -> None:
        """Remove a consumer, after it was given what came before."""
        self._dispatch_marked()
        self.remove_consumer(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        """Remove a consumer that may get nothing any more."""
        self.consumers.remove(consumer)
        self.consumers_left()

    def _dispatch_marked(self) -> None:
        """Dispatch what arrived in this loop turn: it is for the consumers until now."""
        if self.marked:
            self.dispatch()

    def consumers_left(self) -> None:
        """Consumers are gone: an auto-delete queue goes with the last, others take over."""
        if self.deleted:
            return
        self.touch()
        if self.auto_delete and not len(self.consumers):
            self._on_delete(self)
        elif self.backlog.count:
            self.mark()

    # -- life ------------------------------------------------------------------------------------

    def touch(self) -> None:
        """The queue is used: x-expires starts again."""
        self._idle.touch()

    @property
    def last_used(self) -> int:
        return self._idle.last_used

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
        for part in (self._ack_timeouts, self._dead_removal, self._expiry, self._idle):
            part.close()
        return count
