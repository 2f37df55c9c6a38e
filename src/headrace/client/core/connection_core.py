"""One connection of the client without its socket: requests, replies, pushes, recovery.

It does no I/O and never blocks; both clients feed it bytes and write its output. Callers make sure
that only one thread uses it at a time.
"""

from __future__ import annotations

import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

import msgpack

from headrace import __version__
from headrace.client.core.channel_state import ChannelState, Completion
from headrace.client.core.checks import check_fields
from headrace.client.core.pending_requests import PendingRequest, PendingRequests
from headrace.client.core.recovery import CONTROL, Plan, Topology, recovery
from headrace.client.core.requests import ClientRequest
from headrace.client.core.unsettled import Later, UnsettledDeliveries
from headrace.client.errors import (
    AccessRefused,
    ChannelClosed,
    ConnectionClosed,
    ConsumerCancelled,
    HeadraceError,
    LoginRefused,
    NotAllowed,
    NotFound,
    ProtocolViolation,
    ResourceExhausted,
    error_in,
)
from headrace.client.settings import HostRotation, Settings
from headrace.errors import BrokerError
from headrace.wire.native.frames import FRAME_MAX, Reader, frame
from headrace.wire.native.payloads import VERSION, Op, request_size, unpack

logger = logging.getLogger(__name__)

Frames = Sequence[tuple[int, Mapping[str, Any]]]
# Request ids of our own; those of programs begin at 1.
_SETTLE, _HELLO, _PING, _STEP = 0, -1, -2, -3
_PATIENCE = 8  # attempts to recover a queue that is locked, perhaps by our own lost connection
_DEFAULT_HEARTBEAT = 60.0
_HOPELESS = (AccessRefused, LoginRefused, NotAllowed, NotFound, ProtocolViolation)


class ConnectionState(Enum):
    CONNECTING = "connecting"
    GREETING = "greeting"
    RECOVERING = "recovering"
    READY = "ready"
    CLOSED = "closed"


class ConnectionCore:
    """The state of a connection.

    ``wake`` is called when there is output without a request; True: send it at once.
    ``later`` calls back after some seconds.
    """

    def __init__(self, settings: Settings, wake: Callable[[bool], None], later: Later) -> None:
        self.settings = settings
        self.hosts = HostRotation(settings)
        self.state = ConnectionState.CONNECTING
        self.topology = Topology()
        self.channels: dict[int, ChannelState] = {}
        self.error: HeadraceError | None = None
        """Why it is closed, or why this connection must be dropped."""
        self.was_ready = False
        self.requests = PendingRequests()
        self._wake = wake
        self._later = later
        self._delays = settings.delays()
        self._pack = msgpack.Packer().pack
        self._limits: dict[str, Any] = {}
        self._frame_max = FRAME_MAX
        self._reader = Reader()
        self._output: list[bytes] = []
        self._unsettled: deque[ChannelState] = deque()
        self._last_rid = 0
        self._last_channel = CONTROL
        self._plan: Plan | None = None
        self._recoveries = 0
        self._sent_at = self._heard_at = 0.0

    # -- for programs ----------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """False once it is closed; True while it is reconnecting."""
        return self.state is not ConnectionState.CLOSED

    @property
    def is_ready(self) -> bool:
        """True when requests are sent at once."""
        return self.state is ConnectionState.READY

    def new_channel(self) -> ChannelState:
        """A channel that is not open yet."""
        self._last_channel += 1
        unsettled = UnsettledDeliveries(lambda urgent: self._touched(channel, urgent), self._later)
        channel = ChannelState(self._last_channel, unsettled)
        return channel

    def _touched(self, channel: ChannelState, urgent: bool) -> None:
        self._unsettled.append(channel)
        self._wake(urgent)

    def submit(
        self,
        channel: ChannelState | None,
        call: ClientRequest[Any],
        completion: Completion,
        deadline: float,
    ) -> None:
        """Send a request, or keep it until there is a connection."""
        pending = PendingRequest(call, channel, completion, deadline)
        if self.state is ConnectionState.READY:
            self._send(pending)
        elif self.state is ConnectionState.CLOSED:
            self.requests.fail(pending, self._reason())
        elif call.waits:
            self.requests.keep(pending)
        else:
            self.requests.fail(
                pending, ConnectionClosed("not connected: the message is redelivered")
            )

    def _reason(self) -> HeadraceError:
        return self.error or ConnectionClosed("the connection is closed")

    def _send(self, pending: PendingRequest) -> None:
        call, channel = pending.call, pending.channel
        try:
            if channel is not None:
                if channel.closed is not None:
                    raise channel.closed
                self._settle(channel)
            if call.prepare is not None:
                call.prepare()
            rid = self._last_rid = self._last_rid + 1
            fields = self.topology.resolve(call.op, call.fields)
            if call.op != Op.PUBLISH:  # whose messages were checked one by one
                check_fields(fields)
            self._write(call.op, rid, channel.id if channel else CONTROL, fields)
        except (HeadraceError, TypeError, ValueError, OverflowError) as error:
            self.requests.fail(pending, error)  # a value that cannot be sent, for example
        else:
            self.requests.sent(rid, pending)

    def _write(self, number: int, rid: int, channel: int, fields: Mapping[str, Any]) -> None:
        packed = self._pack({"rid": rid, "ch": channel, **fields})
        most = min(self._frame_max, request_size(number))
        if len(packed) > most:  # the broker would hang up, and we would send it again
            raise ResourceExhausted(
                f"the request has {len(packed):,} bytes; the broker allows {most:,}"
            )
        self._output.append(frame(number, packed))

    def _settle(self, channel: ChannelState) -> None:
        for one in channel.unsettled.take_settlements():
            fields: dict[str, Any] = {"tag": one.tag, "multiple": one.multiple}
            if one.requeue is None:
                self._write(Op.ACK, _SETTLE, channel.id, fields)
            else:
                fields |= {"requeue": one.requeue, **({"keep": True} if one.keep else {})}
                self._write(Op.NACK, _SETTLE, channel.id, fields)

    # -- for the socket --------------------------------------------------------------------------

    def connected(self, now: float) -> None:
        """There is a socket: say hello."""
        settings = self.settings
        self.state, self.error = ConnectionState.GREETING, None
        self._sent_at = self._heard_at = now
        self._reader = Reader()
        hello: dict[str, object] = {
            "version": VERSION,
            "vhost": settings.vhost,
            "client": f"headrace-python {__version__} {_process()}",
        }
        if settings.user is not None:
            hello |= {"user": settings.user, "password": settings.password}
        self._output = []
        self._write(Op.HELLO, _HELLO, CONTROL, hello)

    def take_output(self, now: float) -> list[bytes]:
        """What is to be written, acknowledgements included."""
        if self.state is ConnectionState.READY:
            while self._unsettled:
                self._settle(self._unsettled.popleft())
        output = self._output
        if output:
            self._output = []
            self._sent_at = now
        return output

    def decode(self, data: bytes) -> Frames:
        """Frames from bytes; ProtocolViolation ends the connection. Touches nothing else."""
        try:
            frames = [(kind, unpack(payload)) for kind, payload in self._reader.feed(data)]
        except BrokerError as error:
            raise ProtocolViolation(f"cannot decode what the broker sent: {error}") from error
        if self._reader.fault is not None and not frames:
            raise ProtocolViolation(f"cannot decode what the broker sent: {self._reader.fault}")
        return frames

    def receive(self, frames: Frames, now: float) -> None:
        """What the broker said."""
        self._heard_at = now
        for number, fields in frames:
            rid = fields.get("rid")
            if rid is None:
                self._pushed(number, fields)
            elif (pending := self.requests.find(rid)) is not None:
                self._answered(pending, fields)
            elif rid == _STEP:
                self._advance(fields)
            elif rid == _HELLO:
                self._greeted(fields)
            elif rid == _SETTLE and not fields.get("ok"):
                logger.warning("the broker refused a settlement: %s", error_in(fields))

    def tick(self, now: float) -> None:
        """Call it about once a second: time-outs and heartbeats."""
        self.requests.expire(now)
        if self.state in (ConnectionState.CONNECTING, ConnectionState.CLOSED):
            return
        proposed = self._limits.get("heartbeat") or _DEFAULT_HEARTBEAT
        heartbeat = float(self.settings.heartbeat or proposed)
        if now - self._heard_at > 2 * heartbeat:
            self.error = ConnectionClosed(f"heartbeat timeout: no data for {2 * heartbeat:g} s")
        elif now - min(self._sent_at, self._heard_at) > heartbeat / 2:
            self._write(Op.PING, _PING, CONTROL, {})

    def lost(self, error: HeadraceError) -> None:
        """The socket is gone."""
        if self.state is ConnectionState.CLOSED:
            return
        self.state, self._plan = ConnectionState.CONNECTING, None
        self._output = []
        for channel in self.channels.values():
            channel.unsettled.reset()
        if not isinstance(error, ConnectionClosed):
            error = ConnectionClosed(str(error))
        self.requests.lost(error)

    def pause_after(self, error: HeadraceError) -> float | None:
        """The socket is gone, or there was none: seconds until the next attempt, to the next host.

        None: that was the last one, and it is closed.
        """
        if self.state is ConnectionState.READY:
            self._delays = self.settings.delays()
        else:
            self.hosts.failed()
        self.lost(error)
        is_next = self.hosts.are_left and isinstance(error, ConnectionClosed)
        if not (self.settings.reconnect and self.was_ready) and not is_next:
            self.close(error)
        if self.state is ConnectionState.CLOSED:
            return None
        delay = next(self._delays)
        logger.info("connection lost (%s); next attempt in %.2f s", error, delay)
        return delay

    def close(self, error: HeadraceError | None = None) -> None:
        """End without reconnecting: pending requests and consumers end (with the error, if any)."""
        if self.state is ConnectionState.CLOSED:
            return
        self.lost(error or ConnectionClosed("the connection is closed"))
        self.state, self.error = ConnectionState.CLOSED, error
        self.requests.fail_all(self._reason())
        for channel in self.channels.values():
            channel.closed = ChannelClosed(self._reason().text)
            channel.end(error)
        self.channels.clear()

    # -- replies and pushes ----------------------------------------------------------------------

    def _answered(self, pending: PendingRequest, fields: Mapping[str, Any]) -> None:
        if fields.get("ok"):
            self.requests.succeed(pending, fields)
            return
        error = error_in(fields)
        self.requests.fail(pending, error)
        if fields.get("closed") and pending.channel is not None:
            channel = pending.channel
            self.channels.pop(channel.id, None)
            channel.closed = ChannelClosed(f"the broker closed the channel: {error.text}")
            channel.end(channel.closed)

    def _pushed(self, number: int, fields: Mapping[str, Any]) -> None:
        channel = self.channels.get(fields.get("ch", CONTROL))
        if channel is None:
            if fields.get("ok") is False:  # why the broker closes the connection
                self.error = error_in(fields)
        elif number == Op.PUSH:
            self._delivered(channel, fields)
        elif number == Op.CANCEL:
            consumer = channel.consumers.pop(fields["consumer_tag"], None)
            if consumer is not None:
                self.topology.drop_queue(consumer.queue)
                text = f"the broker cancelled the consumer of queue {consumer.queue!r}"
                consumer.sink.end(ConsumerCancelled(text))

    def _delivered(self, channel: ChannelState, fields: Mapping[str, Any]) -> None:
        rows, tag = fields.get("batch") or (fields,), fields["consumer_tag"]
        consumer = channel.consumers.get(tag)
        untracked = consumer is not None and consumer.fields["auto_ack"]
        batch = channel.unsettled.register(rows, untracked=untracked)
        if consumer is not None:
            consumer.sink.deliver(batch)
        else:  # it was cancelled while these were under way
            channel.unsettled.requeue(batch)

    # -- greeting and recovery -------------------------------------------------------------------

    def _greeted(self, fields: Mapping[str, Any]) -> None:
        if not fields.get("ok"):
            error = error_in(fields)
            if self.was_ready and not isinstance(error, _HOPELESS):
                self.error = error  # try again later
            else:
                self.close(error)
            return
        self._limits = dict(fields.get("limits") or {})
        self._frame_max = int(self._limits.get("frame_max") or FRAME_MAX)
        self.state = ConnectionState.RECOVERING
        self._recoveries += 1
        is_patient = self._recoveries < _PATIENCE
        self._plan = recovery(self.topology, self.channels, patient=is_patient)
        self._advance(None)

    def _advance(self, reply: Mapping[str, Any] | None) -> None:
        """The next step of the recovery; after the last one, work continues."""
        plan = self._plan
        if plan is None:
            return
        try:
            if reply is None:
                step = next(plan)
            elif reply.get("ok"):
                step = plan.send(reply)
            else:
                step = plan.throw(error_in(reply))
        except StopIteration:
            self._become_ready()
        except HeadraceError as error:
            self.error = error
        else:
            self._write(step.op, _STEP, step.channel, step.fields)

    def _become_ready(self) -> None:
        self.state, self._plan = ConnectionState.READY, None
        self.was_ready, self._recoveries = True, 0
        for pending in self.requests.take_waiting():
            self._send(pending)


def _process() -> str:
    """For lists of connections: `worker.py[4711]`."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    return f"{name.encode('ascii', 'replace').decode()[:64] or 'python'}[{os.getpid()}]"
