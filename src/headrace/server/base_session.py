"""What the sessions of all protocols share: input in shares, output, back-pressure, heartbeat.

A protocol's session adds the codec and its replies. The invariants that this class keeps:

1. Input is carried out in the order in which it arrived. ``receive`` appends to the inbox, ``work``
   takes from it; while ``is_held`` (a login, long work, a memory alarm) nothing is taken, and the
   transport is paused for exactly as long as one of the reasons given to it lasts.
2. One client uses at most one share of a loop turn (``SHARE`` seconds of CPU time); what is left
   waits for the next turn, behind the clients that use less.
3. Output is written once per loop turn, by ``flush``, which the turn calls for marked outputs.
   Channels append to ``output`` and never write to the transport. Only heartbeats do.
4. No reply is written before what it reports is on disk: ``flush`` writes nothing while
   ``metadata_version`` or ``position`` is ahead of the storage, and waits for it instead. Confirms
   are added by ``confirm_publishes`` only when they are durable.
5. When storage has failed, replies that wait are dropped (``drop_promises``), never sent.
6. ``output.is_full`` while the socket does not accept more: deliveries stay in their queues, which
   wait in ``output.waiting`` and are marked as soon as there is room. A client that leaves
   ``UNREAD_HIGH`` bytes unread is not read from either, so memory per client is bounded.
7. A publisher is paused while an alarm is on or the disk is behind; consumers are not.
8. ``release`` returns everything to the core exactly once: channels first, so that unacked messages
   are requeued, then exclusive queues, then the connection itself. It precedes ``closed``.
9. ``parse`` and ``take`` never raise: what goes wrong becomes a reply of the protocol.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from time import perf_counter, thread_time
from typing import Any, ClassVar, TypeVar

from headrace.core.access.user import User
from headrace.core.alarms import CHECK_EVERY_BYTES
from headrace.core.broker import Broker
from headrace.core.exchange import Exchange
from headrace.core.loop_turn import SHARE, LoopTurn
from headrace.core.vhost import Vhost
from headrace.errors import BrokerError, InternalError
from headrace.model.permissions import READ
from headrace.server.base_channel import BaseChannel, SessionOutput
from headrace.server.listener import ServerTransport

logger = logging.getLogger(__name__)
T = TypeVar("T")

CLOSE_SECONDS = 1.0  # for a peer to hang up once it has been sent everything
UNREAD_HIGH = 8 << 20  # a peer that lets this much lie unread is not listened to any more
READ_SHARE = 1 << 16  # a peer that sends more at once waits for its share of the turn
LITTLE = 1 << 12  # bytes of input that need not wait behind those of others who sent more
CREATED_IN_ALARM = 100  # queues, bindings and exchanges of one peer while memory is short
HEAVY_SECONDS = 1.0  # so long after a full share a peer stands behind those that use less
_ANONYMOUS = User("")
_NOTHING: Iterator[Any] = iter(())


@dataclass(slots=True, eq=False, repr=False)
class BaseSession:
    """One connection, as far as it does not depend on what is spoken."""

    protocol: ClassVar[str] = ""  # its name in the management API

    broker: Broker
    transport: ServerTransport
    turn: LoopTurn = field(init=False)
    output: SessionOutput = field(init=False)
    user: User = _ANONYMOUS
    login: asyncio.Task[None] | None = None  # a password is being checked
    vhost: Vhost | None = None
    writable: bool = True
    metadata_version: int = 0  # of the metadata that our answers speak of
    position: int = 0  # in the log, of what our answers speak of
    closing: bool = False  # we said that the connection ends
    ending: bool = False  # nothing follows what is in the output
    closed: bool = False
    blocked: bool = False
    published: bool = False
    mechanism: str = ""  # how the peer proved who it is
    connected_at: float = 0.0  # seconds since 1970
    heartbeat: float = 0.0
    received: int = 0
    reads: int = 0
    sent: int = 0
    writes: int = 0
    _answers: list[tuple[int, bytes]] = field(default_factory=list)  # (position in the log, answer)
    _inbox: deque[bytes] = field(default_factory=deque)  # chunks that are not decoded yet
    _todo: Iterator[Any] = _NOTHING  # what is left of the chunk before them
    _next: Any = None  # taken from there, and not carried out yet
    _working: int = 0  # long work that the peer asked for
    _is_asking: bool = False  # for a share of the turn
    _heavy_until: float = 0.0
    _created: int = 0  # things during the last memory alarm
    _seen: int = 0
    _sent_seen: int = 0
    _idle_ticks: int = 0

    def __post_init__(self) -> None:
        self.turn = self.broker.turn
        self.output = SessionOutput(self.turn, self.flush)

    @property
    def open_vhost(self) -> Vhost:
        assert self.vhost is not None, "no vhost before the login"
        return self.vhost

    def check(self, action: str, kind: str, name: str) -> None:
        """Raise AccessRefused unless the user may do this."""
        self.user.check(self.open_vhost.name, action, kind, name)

    def check_key(self, action: str, exchange: Exchange | None, key: str) -> None:
        """Raise AccessRefused unless the user may use the key, if it is a topic exchange."""
        if exchange is not None and exchange.router.kind == "topic":
            self.user.check_topic(self.open_vhost.name, action, exchange.name, key)

    # -- what a protocol says -------------------------------------------------------------------

    def parse(self, data: bytes) -> Iterable[Any]:
        """What a chunk from the peer holds, as events for take(). Never raises."""
        raise NotImplementedError

    @property
    def unfinished(self) -> int:
        """Bytes of what has begun to arrive and is not complete."""
        raise NotImplementedError

    def take(self, event: Any) -> None:  # noqa: ANN401 - each protocol has its own
        """Carry out one event. Never raises."""
        raise NotImplementedError

    def release_channels(self) -> None:
        """Let go of all channels."""
        raise NotImplementedError

    def clear_permission_cache(self) -> None:
        """What was allowed before may not be allowed any more."""
        raise NotImplementedError

    def open_channels(self) -> list[BaseChannel]:
        """All open channels."""
        raise NotImplementedError

    def send_blocked(self, reason: str | None) -> None:
        """Publishes are held back; None: not any more."""

    def send_heartbeat(self) -> None:
        """Nothing was sent for a while: send a heartbeat, and count it."""

    # -- login ----------------------------------------------------------------------------------

    def wait_for(self, login: Awaitable[T], then: Callable[[T | BrokerError], None]) -> None:
        """Wait for work away from the loop, such as a login; ``then`` gets the result or the error.

        The peer's next requests wait until then.
        """
        self.transport.keep_open()
        self.transport.pause_reading("login")
        self.login = self.broker.loop.create_task(self._wait_for(login, then))

    async def _wait_for(self, login: Awaitable[T], then: Callable[[T | BrokerError], None]) -> None:
        try:
            outcome: T | BrokerError = await login
        except BrokerError as error:
            outcome = error
        except Exception:
            logger.exception("unexpected failure on %s", self.transport.name)
            outcome = InternalError("unexpected failure; see the broker's log")
        self.login = None
        if not self.closing and not self.closed:
            then(outcome)
            self.transport.resume_reading("login")
            self._ask()

    # -- rights ---------------------------------------------------------------------------------

    @property
    def channel_count(self) -> int:
        return len(self.open_channels())

    def rights_changed(self, user: User) -> None:
        """Take effect at once; consumers that may not read any more are ended."""
        self.user = user
        self.clear_permission_cache()
        vhost = self.open_vhost.name
        for channel in self.open_channels():
            for consumer in list(channel.consumers.values()):
                if not user.allows(vhost, READ, consumer.queue.name):
                    channel.refuse_consumer(consumer)

    # -- input ----------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Bytes from the peer. Never raises.

        A little is carried out at once; of more, one share per turn, so that others are served.
        """
        size = len(data)
        self.received += size
        self.reads += 1
        alarms = self.broker.alarms
        alarms.received += size
        if alarms.received > CHECK_EVERY_BYTES:
            alarms.look()
        self._inbox.append(data)
        if self._is_asking:
            return
        if size < READ_SHARE and not self.turn.is_late:
            self.work()
        elif not self.is_held:
            self._ask()

    @property
    def is_held(self) -> bool:
        """Input waits: for a login, for long work that the peer asked for, or for memory."""
        return self.login is not None or self._working > 0 or self.blocked

    def work(self) -> None:
        """Carry out what has come in, for one share of time."""
        was_paused, self._is_asking = self._is_asking, False
        turn = self.turn
        start = perf_counter()
        until, used_before = start + SHARE, 0.0
        turn.asker = self
        # is_held, without the calls: this is done for every event.
        while not (self.closed or self.blocked or self._working) and self.login is None:
            event, self._next = self._next or next(self._todo, None), None
            if event is None:
                if not self._inbox:
                    if was_paused:
                        self.transport.resume_reading("share")
                    break
                self._todo = iter(self.parse(self._inbox.popleft()))
                if self.broker.alarms.memory and self.unfinished > READ_SHARE:
                    self.note_publish()
            elif perf_counter() < until:
                self.take(event)
            else:
                # The cheap clock also runs while this process does not: look at the other one.
                self._next = event
                used = thread_time()
                used_before = used_before or used
                if used - used_before > SHARE / 2:
                    self._heavy_until = perf_counter() + HEAVY_SECONDS
                    self._ask()
                    break
                until = perf_counter() + SHARE / 2
        turn.asker = None
        turn.note_used(perf_counter() - start)

    def take_first(self, events: Iterable[Any]) -> None:
        """Carry these out before what is left of the chunk."""
        self._todo = chain(events, self._todo)

    def _ask(self) -> None:
        """Go on when it is this peer's turn; what has come is carried out before more is read."""
        self._is_asking = True
        if self._inbox or self._next is not None:
            self.transport.pause_reading("share")
        is_little = sum(map(len, self._inbox)) <= LITTLE
        self.turn.later(self, light=is_little and perf_counter() > self._heavy_until)

    def hold(self) -> None:
        self._working += 1
        self.transport.pause_reading("work")

    def release_hold(self) -> None:
        self._working -= 1
        if not self._working and not self.closed:
            self.transport.resume_reading("work")
            self._ask()

    def answer_binding(self, source: str, answer: Callable[[], None]) -> None:
        """Answer when the binding counts; the peer's next requests wait until then."""
        is_bound = is_waiting = False

        def bound() -> None:
            nonlocal is_bound
            is_bound = True
            if not self.closed:
                answer()
            if is_waiting:
                self.release_hold()

        self.open_vhost.when_bound(source, bound)
        if not is_bound:
            is_waiting = True
            self.hold()

    def note_publish(self) -> None:
        """Before a publish: a publisher waits while an alarm is on."""
        self.published = True
        if self.broker.alarms.reason is not None:
            self.block()

    def note_created(self, before: int) -> None:
        """After a request: what it created takes memory until it is deleted.

        A consumer must be able to start during an alarm, so a few things may be created.
        """
        created = self.open_vhost.created - before
        if created and self.broker.alarms.memory:
            self._created += created
            if self._created > CREATED_IN_ALARM:
                self.note_publish()
        elif created:
            self._created = 0

    def wait_for_commit(self) -> None:
        """After a publish: a publisher waits for a slow disk."""
        if self.broker.storage.is_behind:
            self._wait_for_storage()

    def wait_for_metadata(self) -> None:
        """After a declaration: what is not stored yet does not grow without bound."""
        if self.broker.storage.is_behind_with_changes:
            self._wait_for_storage()

    def _wait_for_storage(self) -> None:
        self.transport.pause_reading("journal")
        self.broker.storage.when_caught_up(partial(self.transport.resume_reading, "journal"))

    # -- output ---------------------------------------------------------------------------------

    def send_bytes(self, data: bytes | bytearray) -> None:
        self.output.write(data)

    def send_when_durable(self, position: int, data: bytes) -> None:
        """Send an answer once the log has reached ``position`` (0: at once)."""
        if position:
            self._answers.append((position, data))
            self.output.mark()
        else:
            self.send_bytes(data)

    def confirm_publishes(self) -> bool:
        """Put answers for what is safe into the output; True when some still have to wait."""
        durable, count = self.broker.storage.durable, 0
        for position, data in self._answers:
            if position > durable:
                break
            self.output.parts.append(data)
            count += 1
        del self._answers[:count]
        return bool(self._answers)

    def drop_promises(self) -> None:
        """What waits for the disk will never be true; the peer must hear of the end at once."""
        self.output.clear()
        self._answers.clear()
        self.metadata_version = self.position = 0

    def flush(self) -> None:
        """End of a turn: answer publishers, write everything at once."""
        storage = self.broker.storage
        waits = self.confirm_publishes()
        if waits:
            storage.wait(self.output)
        unsafe = self.metadata_version > storage.committed or self.position > storage.durable
        if unsafe and not self.closed:
            storage.wait(self.output)  # an answer in there speaks of something not on disk yet
            return
        output, out = self.output, self.output.parts
        if out and not self.closed:
            data = out[0] if len(out) == 1 else b"".join(out)
            out.clear()
            output.bytes = 0
            self.sent += len(data)
            self.writes += 1
            self.transport.write(data)
            if not self.writable and self.transport.unsent() > UNREAD_HIGH:
                self.transport.pause_reading("unread")
        if self.ending and not out and not waits and not self.closed:
            self.ending = False
            self.transport.end_output(CLOSE_SECONDS)
        output.is_full = not self.writable
        if output.waiting and self.writable:
            output.notify_waiters()

    def pause_writing(self) -> None:
        """The socket is full: deliveries wait in their queues."""
        self.writable = False
        self.output.is_full = True

    def resume_writing(self) -> None:
        self.writable = True
        self.output.is_full = False
        self.transport.resume_reading("unread")
        self.output.notify_waiters()

    # -- alarms ---------------------------------------------------------------------------------

    def block(self) -> None:
        """Stop reading from a publisher until the alarm is over."""
        if self.blocked or self.closing or not self.published or not self.is_open:
            return
        self.blocked = True
        self.send_blocked(self.broker.alarms.reason or "low on resources")
        self.transport.pause_reading("alarm")

    def alarm_changed(self) -> None:
        if self.broker.alarms.reason is not None:
            self.block()
        elif self.blocked:
            self.send_blocked(None)
            self.unblock()

    def unblock(self) -> None:
        """Go on reading, whether the alarm is over or not."""
        if self.blocked:
            self.blocked = False
            self.transport.resume_reading("alarm")
            self._ask()

    # -- heartbeats -----------------------------------------------------------------------------

    def start_heartbeat(self, seconds: int) -> None:
        if seconds:
            self.heartbeat = float(seconds)
            self.transport.call_later(seconds / 4, self._beat)

    def _beat(self) -> None:
        """Four times per interval, so that no silence of ours lasts longer than half of one."""
        if self.closed:
            return
        before, self._sent_seen = self._sent_seen, self.sent
        if self.sent == before:
            self.send_heartbeat()
        # While we do not read, silence is our own doing.
        quiet = self.received == self._seen and not self.transport.is_paused
        self._idle_ticks = self._idle_ticks + 1 if quiet else 0
        self._seen = self.received
        if self._idle_ticks > 9:
            logger.warning("connection %s: missed heartbeats, closed", self.transport.name)
            self.release()
            self.transport.abort()
        else:
            self.transport.call_later(self.heartbeat / 4, self._beat)

    # -- life -----------------------------------------------------------------------------------

    def opened(self) -> None:
        """The handshake is done."""
        self.transport.opened()
        self.connected_at = self.broker.clock.wall_seconds()
        self.broker.connections.add(self)
        self.broker.churn.connections_opened += 1
        self.broker.alarms.subscribe(self.alarm_changed)

    @property
    def is_open(self) -> bool:
        """The handshake is done, and neither side has said goodbye."""
        return self in self.broker.connections

    def force_close(self, reason: str) -> None:
        """An operator, or the end of the broker."""
        raise NotImplementedError

    def release(self) -> None:
        """Let go of everything in the core: channels first, then exclusive queues."""
        self.release_channels()
        self.output.waiting.clear()
        if self.vhost is not None:
            self.vhost.release_exclusive(self)
        if self.is_open:
            self.broker.connections.remove(self)
            self.broker.churn.connections_closed += 1
        self.broker.alarms.unsubscribe(self.alarm_changed)

    def lost(self) -> None:
        """The socket is gone."""
        if not self.closed:
            self.closed = True
            if self.login is not None:
                self.login.cancel()
            self.release()
            self.output.clear()
            self._answers.clear()
