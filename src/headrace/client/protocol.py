"""One connection of the client without its socket: requests, replies, pushes, recovery.

Never does I/O and never blocks; both clients feed it bytes and carry away what it has to say.
Whoever calls it sees to it that only one thread does so at a time.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from headrace import __version__
from headrace.client import operations as op
from headrace.client.errors import (
    ChannelClosed,
    ConnectionClosed,
    ConsumerCancelled,
    HeadraceError,
    RequestTimeout,
    error_of,
)
from headrace.client.ledger import Delivery, Ledger
from headrace.client.operations import Call
from headrace.client.settings import Settings
from headrace.client.topology import CONTROL, Plan, Step, Topology, attempt

logger = logging.getLogger(__name__)

# Request ids of our own; those of programs begin at 1.
_SETTLE, _HELLO, _PING, _STEP = 0, -1, -2, -3
_PATIENCE = 8  # attempts to recover a queue that is locked, perhaps by our own lost connection
_DEFAULT_HEARTBEAT = 60.0


class Completion(Protocol):
    """Where a result goes: a future of either kind."""

    def done(self) -> bool: ...
    def set_result(self, result: Any, /) -> None: ...  # noqa: ANN401 - any call's result
    def set_exception(self, exception: BaseException, /) -> None: ...


class Sink(Protocol):
    """Where a consumer's messages go. Must not block."""

    def deliver(self, deliveries: list[Delivery]) -> None: ...
    def end(self, error: HeadraceError | None) -> None: ...


@dataclass(slots=True)
class Consumer:
    tag: str
    fields: dict[str, Any]
    sink: Sink

    @property
    def queue(self) -> str:
        return str(self.fields["queue"])


@dataclass(slots=True)
class ChannelState:
    """What is known of a channel, whatever connection it is on."""

    id: int
    ledger: Ledger
    prefetch: int | None = None
    consumers: dict[str, Consumer] = field(default_factory=dict)
    closed: HeadraceError | None = None

    def end(self, error: HeadraceError | None) -> None:
        """Tell all consumers that there is nothing more to come."""
        consumers, self.consumers = self.consumers, {}
        for one in consumers.values():
            one.sink.end(error)


class State(Enum):
    CONNECTING = "connecting"
    GREETING = "greeting"
    RECOVERING = "recovering"
    READY = "ready"
    CLOSED = "closed"


@dataclass(slots=True)
class Pending:
    call: Call[Any]
    channel: ChannelState | None
    completion: Completion
    deadline: float


class Core:
    """The state of a connection. ``wake`` is called when there is output nobody asked for."""

    def __init__(
        self,
        settings: Settings,
        wake: Callable[[], None],
        encode: Callable[[int, Mapping[str, Any]], bytes],
        delivery_class: type[Delivery] = Delivery,
    ) -> None:
        self.settings = settings
        self.state = State.CONNECTING
        self.topology = Topology()
        self.channels: dict[int, ChannelState] = {}
        self.error: HeadraceError | None = None
        """Why it is closed, or why this connection must be dropped."""
        self.limits: dict[str, Any] = {}
        self.was_ready = False
        self._wake = wake
        self._encode = encode
        self._delivery_class = delivery_class
        self._sent: dict[int, Pending] = {}
        self._waiting: deque[Pending] = deque()
        self._output: list[bytes] = []
        self._completed: list[tuple[Completion, Any, BaseException | None]] = []
        self._last_rid = 0
        self._last_channel = CONTROL
        self._plan: Plan | None = None
        self._recoveries = 0
        self._sent_at = self._heard_at = 0.0

    # -- for programs ----------------------------------------------------------------------------

    def new_channel(self) -> ChannelState:
        self._last_channel += 1
        return ChannelState(self._last_channel, Ledger(self._wake))

    def submit(
        self, channel: ChannelState | None, call: Call[Any], completion: Completion, deadline: float
    ) -> None:
        """Send a request, or keep it until there is a connection."""
        pending = Pending(call, channel, completion, deadline)
        if self.state is State.READY:
            self._send(pending)
        elif self.state is State.CLOSED:
            self._fail(pending, self.error or ConnectionClosed("the connection is closed"))
        elif call.waits:
            self._waiting.append(pending)
        else:
            self._fail(pending, ConnectionClosed("no connection; the message comes again"))

    def give_up(self, completion: Completion) -> None:
        """Nobody waits for this any more; a late answer is ignored."""
        for rid, pending in list(self._sent.items()):
            if pending.completion is completion:
                del self._sent[rid]
                self._fail(pending, RequestTimeout("no answer in time"))
        for pending in [one for one in self._waiting if one.completion is completion]:
            self._waiting.remove(pending)
            self._fail(pending, RequestTimeout("no connection in time"))

    def _send(self, pending: Pending) -> None:
        call, channel = pending.call, pending.channel
        if channel is not None and channel.closed is not None:
            self._fail(pending, channel.closed)
            return
        if channel is not None:
            self._settle(channel)
        if call.prepare is not None:
            try:
                call.prepare()
            except HeadraceError as error:
                self._fail(pending, error)
                return
        self._last_rid += 1
        fields = self.topology.resolve(call.op, call.fields)
        try:
            self._say(call.op, self._last_rid, channel.id if channel else CONTROL, fields)
        except (TypeError, ValueError, OverflowError) as error:
            self._fail(pending, error)  # a value that cannot be sent is the caller's mistake
            return
        self._sent[self._last_rid] = pending

    def _say(self, number: int, rid: int, channel: int, fields: Mapping[str, Any]) -> None:
        self._output.append(self._encode(number, {"rid": rid, "ch": channel, **fields}))

    def _settle(self, channel: ChannelState) -> None:
        for one in channel.ledger.take_settlements():
            fields: dict[str, Any] = {"tag": one.tag, "multiple": one.multiple}
            if one.requeue is None:
                self._say(op.ACK, _SETTLE, channel.id, fields)
            else:
                self._say(op.NACK, _SETTLE, channel.id, {**fields, "requeue": one.requeue})

    # -- for the socket --------------------------------------------------------------------------

    def connected(self, now: float) -> None:
        """There is a socket: say hello."""
        settings = self.settings
        self.state, self.error = State.GREETING, None
        self._sent_at = self._heard_at = now
        hello = {
            "rid": _HELLO,
            "version": 1,
            "user": settings.user,
            "password": settings.password,
            "vhost": settings.vhost,
            "client": f"headrace-python {__version__}",
        }
        self._output = [self._encode(op.HELLO, hello)]

    def take_output(self, now: float) -> list[bytes]:
        """What is to be written, acknowledgements included."""
        if self.state is State.READY:
            for channel in self.channels.values():
                self._settle(channel)
        output = self._output
        if output:
            self._output = []
            self._sent_at = now
        return output

    def receive(self, frames: Sequence[tuple[int, Mapping[str, Any]]], now: float) -> None:
        """Frames from the broker."""
        self._heard_at = now
        for number, fields in frames:
            rid = fields.get("rid")
            if rid is None:
                self._pushed(number, fields)
            elif (pending := self._sent.pop(rid, None)) is not None:
                self._answered(pending, fields)
            elif rid == _STEP or rid == _HELLO:
                self._progress(rid, fields)
            elif not fields.get("ok"):
                logger.warning("the broker refused a settlement: %s", _error_in(fields))

    def tick(self, now: float) -> None:
        """Call it about once a second: time-outs and heartbeats."""
        for rid, pending in [item for item in self._sent.items() if item[1].deadline < now]:
            del self._sent[rid]
            self._fail(pending, RequestTimeout("no answer in time"))
        for pending in [one for one in self._waiting if one.deadline < now]:
            self._waiting.remove(pending)
            self._fail(pending, RequestTimeout("no connection in time"))
        if self.state in (State.CONNECTING, State.CLOSED):
            return
        heartbeat = self._heartbeat()
        if now - self._heard_at > 2 * heartbeat:
            self.error = ConnectionClosed(f"nothing heard for {2 * heartbeat:g} s")
        elif now - max(self._sent_at, self._heard_at) > heartbeat / 2:
            self._say(op.PING, _PING, CONTROL, {})

    def _heartbeat(self) -> float:
        chosen = self.settings.heartbeat or self.limits.get("heartbeat") or _DEFAULT_HEARTBEAT
        return float(chosen)

    def lost(self, error: HeadraceError) -> None:
        """The socket is gone. What may be repeated waits; the rest fails."""
        if self.state is State.CLOSED:
            return
        self.state, self._plan = State.CONNECTING, None
        self._output = []
        for channel in self.channels.values():
            channel.ledger.reset()
        sent, self._sent = self._sent, {}
        again = [one for one in sent.values() if one.call.repeatable]
        for pending in sent.values():
            if not pending.call.repeatable:
                self._fail(pending, error)
        self._waiting.extendleft(reversed(again))

    def close(self, error: HeadraceError | None = None) -> None:
        """For good: everything that waits fails, consumers end."""
        if self.state is State.CLOSED:
            return
        self.lost(error or ConnectionClosed("the connection is closed"))
        self.state, self.error = State.CLOSED, error
        reason = error or ConnectionClosed("the connection is closed")
        while self._waiting:
            self._fail(self._waiting.popleft(), reason)
        for channel in self.channels.values():
            channel.closed = ChannelClosed(reason.text)
            channel.end(error)
        self.channels.clear()

    def complete(self) -> Callable[[], None] | None:
        """The results that are due; call what is returned where programs' callbacks may run."""
        if not self._completed:
            return None
        due, self._completed = self._completed, []
        return lambda: _complete(due)

    # -- replies ---------------------------------------------------------------------------------

    def _answered(self, pending: Pending, fields: Mapping[str, Any]) -> None:
        if not fields.get("ok"):
            error = _error_in(fields)
            self._fail(pending, error)
            if fields.get("closed") and pending.channel is not None:
                self._channel_closed(pending.channel, error)
            return
        try:
            result = pending.call.finish(fields)
        except (KeyError, TypeError, ValueError) as error:
            self._fail(pending, error_of("protocol", f"a reply without {error}"))
        else:
            self._completed.append((pending.completion, result, None))

    def _fail(self, pending: Pending, error: Exception) -> None:
        if pending.call.failed is not None:
            pending.call.failed(error)
        self._completed.append((pending.completion, None, error))

    def _channel_closed(self, channel: ChannelState, error: HeadraceError) -> None:
        self.channels.pop(channel.id, None)
        channel.closed = ChannelClosed(f"the broker closed the channel: {error.text}")
        channel.end(channel.closed)

    # -- pushes ----------------------------------------------------------------------------------

    def _pushed(self, number: int, fields: Mapping[str, Any]) -> None:
        channel = self.channels.get(fields["ch"]) if "ch" in fields else None
        if number == op.PUSH and channel is not None:
            self._delivered(channel, fields)
        elif number == op.CANCEL and channel is not None:
            consumer = channel.consumers.pop(fields["consumer_tag"], None)
            if consumer is not None:
                self.topology.drop_queue(consumer.queue)
                text = f"the broker ended the consumer of queue {consumer.queue!r}"
                consumer.sink.end(ConsumerCancelled(text))
        elif channel is None and fields.get("ok") is False:
            self.error = _error_in(fields)

    def _delivered(self, channel: ChannelState, fields: Mapping[str, Any]) -> None:
        rows = fields.get("batch") or (fields,)
        tag = fields["consumer_tag"]
        deliveries = channel.ledger.register(rows, tag, self._delivery_class)
        consumer = channel.consumers.get(tag)
        if consumer is not None:
            consumer.sink.deliver(deliveries)
        else:  # it was cancelled while these were under way
            channel.ledger.give_back(deliveries)

    # -- greeting and recovery -------------------------------------------------------------------

    def _progress(self, rid: int, fields: Mapping[str, Any]) -> None:
        is_ok = bool(fields.get("ok"))
        if rid == _HELLO and is_ok:
            self.limits = dict(fields.get("limits") or {})
            self.state = State.RECOVERING
            self._recoveries += 1
            self._plan = self._recovery()
            self._advance(None, None)
        elif rid == _HELLO:
            self.close(_error_in(fields))
        else:
            self._advance(fields if is_ok else None, None if is_ok else _error_in(fields))

    def _advance(self, reply: Mapping[str, Any] | None, error: HeadraceError | None) -> None:
        plan = self._plan
        if plan is None:
            return
        try:
            step = plan.throw(error) if error is not None else plan.send(reply)  # type: ignore[arg-type]
        except StopIteration:
            self._become_ready()
        except HeadraceError as reason:
            self.error = reason
        else:
            self._say(step.op, _STEP, step.channel, step.fields)

    def _recovery(self) -> Plan:
        yield from self.topology.plan(patient=self._recoveries < _PATIENCE)
        for channel in list(self.channels.values()):
            yield Step(channel.id, op.CHANNEL_OPEN, {}, f"channel {channel.id}")
            if channel.prefetch is not None:
                qos = {"prefetch": channel.prefetch}
                yield Step(channel.id, op.QOS, qos, f"prefetch of channel {channel.id}")
            for consumer in list(channel.consumers.values()):
                yield from self._consume_again(channel, consumer)

    def _consume_again(self, channel: ChannelState, consumer: Consumer) -> Plan:
        fields = self.topology.resolve(op.CONSUME, consumer.fields)
        consumer.fields = fields
        what = f"consumer {consumer.tag!r} of queue {consumer.queue!r}"
        if (yield from attempt(Step(channel.id, op.CONSUME, fields, what))) is None:
            channel.consumers.pop(consumer.tag, None)
            consumer.sink.end(ConsumerCancelled(f"{what} could not be recovered"))

    def _become_ready(self) -> None:
        self.state, self._plan, self.was_ready, self._recoveries = State.READY, None, True, 0
        waiting, self._waiting = self._waiting, deque()
        for pending in waiting:
            self._send(pending)


def _error_in(fields: Mapping[str, Any]) -> HeadraceError:
    return error_of(str(fields.get("code", "internal")), str(fields.get("text", "")))


def _complete(due: list[tuple[Completion, Any, BaseException | None]]) -> None:
    for completion, result, error in due:
        if completion.done():
            continue
        with contextlib.suppress(Exception):  # cancelled by its owner in this very moment
            if error is not None:
                completion.set_exception(error)
            else:
                completion.set_result(result)
