"""The publishing side of the generator: pre-encoded blocks, sent within bounds."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable

from headrace.bench.cases import WRITE_BYTES
from headrace.bench.load.amqp_connection import AmqpConnection
from headrace.bench.load.frames import (
    AckBlock,
    ConfirmCounter,
    delivery_number_offset,
    explain_close,
)
from headrace.bench.load.worker_group import SharedCounters
from headrace.bench.load_plan import LoadPlan
from headrace.bench.target import AmqpAddress, MeasureError

_SINGLE_WRITES = 64  # writes of one message between two looks at the counters
_PAUSE = 0.0003  # well under the time any broker needs for the permitted backlog


class PublisherSocket:
    """One publishing connection and its place in its blocks."""

    def __init__(
        self, address: AmqpAddress, plan: LoadPlan, pair: int, board: SharedCounters
    ) -> None:
        case = plan.case
        self.link = AmqpConnection(address)
        self._sent, self._pair = board.sent, pair
        mine = slice(pair * case.consumers, (pair + 1) * case.consumers)
        self._received = board.received[mine]
        self._copies, self._backlog = case.copies, case.backlog
        self._limit = case.limit or 1 << 62
        self._blocks = plan.blocks(pair)
        self._singly = case.per_write == 1
        self._singles: list[bytes] = []
        self._load()
        fill = max(1, WRITE_BYTES // self._size)
        self._per_write = min(case.per_write or fill, self._count)
        self._writes = _SINGLE_WRITES if self._singly else 1

    def _load(self) -> None:
        block = next(self._blocks)
        self._size, self._count, self._next = block.size, block.count, 0
        self._view = memoryview(block.data)
        if self._singly:  # cut beforehand: slicing would cost as much as the write
            starts = range(0, len(block.data), block.size)
            self._singles = [block.data[at : at + block.size] for at in starts]

    @property
    def sent(self) -> int:
        return self._sent[self._pair]

    def room(self) -> int:
        """Messages this stream may send now: less than a full burst only near the limit."""
        left = self._limit - self.sent
        want = min(self._per_write * self._writes, left)
        if len(self._received):
            ahead = (self.sent + want) * self._copies - sum(self._received)
            if ahead > self._backlog:
                return 0
        return want

    def send(self, count: int) -> None:
        """Send `count` messages, `per_write` of them in each write."""
        sendall, left = self.link.sock.sendall, count
        while left:
            if self._next == self._count:
                self._load()
            step = min(self._per_write * self._writes, left, self._count - self._next)
            if self._writes == 1:
                start = self._next * self._size
                sendall(self._view[start : start + step * self._size])
            else:
                for single in self._singles[self._next : self._next + step]:
                    sendall(single)
            self._next += step
            left -= step
        self._sent[self._pair] += count


def prepare_publisher(
    address: AmqpAddress, plan: LoadPlan, board: SharedCounters
) -> Callable[[], None]:
    """Connect; the returned function publishes until the board says stop."""
    streams = [PublisherSocket(address, plan, pair, board) for pair in range(plan.case.pairs)]
    if plan.case.window:
        streams[0].link.select_confirms()
        return lambda: _publish_confirmed(streams[0], plan.case.window, board)
    return lambda: _publish(streams, board)


def _publish(streams: list[PublisherSocket], board: SharedCounters) -> None:
    for stream in streams:
        stream.link.set_timeout(_PATIENCE)
    while not board.stopped:
        busy = False
        for stream in streams:
            count = stream.room()
            if count:
                stream.send(count)
                busy = True
        if not busy:
            time.sleep(_PAUSE)
    for stream in streams:
        stream.link.finish()


def _publish_confirmed(stream: PublisherSocket, window: int, board: SharedCounters) -> None:
    """Never more than `window` publishes without their confirm."""
    confirms = ConfirmCounter()
    stream.link.set_timeout(0.25)
    while not board.stopped:
        count = min(stream.room(), window - (stream.sent - confirms.count))
        if count:
            stream.send(count)
        outstanding = stream.sent - confirms.count
        if not outstanding:
            time.sleep(_PAUSE)
            continue
        _take_confirms(stream, confirms, wait=outstanding >= window or not stream.room())
        board.confirmed[0] = confirms.count
    stream.link.finish()


def _take_confirms(stream: PublisherSocket, confirms: ConfirmCounter, *, wait: bool) -> None:
    try:
        data = stream.link.sock.recv(WRITE_BYTES, 0 if wait else socket.MSG_DONTWAIT)
    except BlockingIOError:
        return
    if not data:
        raise MeasureError("the broker closed the publisher's connection")
    try:
        confirms.feed(data)
    except ValueError as error:
        raise MeasureError(str(error)) from None


_READ_BYTES = 1 << 19
_PATIENCE = 0.25  # seconds between two looks at the stop flag when nothing arrives


class ConsumerSocket:
    """One consuming connection."""

    def __init__(
        self,
        address: AmqpAddress,
        plan: LoadPlan,
        slot: int,
        board: SharedCounters,
        buffer: bytearray,
    ) -> None:
        case = plan.case
        self.link = AmqpConnection(address, channel=case.channel)
        self._buffer = buffer
        self._size = plan.delivery_size
        self._number_at = delivery_number_offset(plan.tags[0])
        self._bytes = self._whole = 0
        self._board, self._slot = board, slot
        self._acks = AckBlock(case.channel) if case.manual_ack and case.settles else None
        if case.prefetch:
            self.link.prefetch(case.prefetch)
        for queue, tag in zip(plan.queues_of(slot // case.consumers), plan.tags, strict=True):
            self.link.consume(queue, tag, auto_ack=not case.manual_ack)
        self.link.set_timeout(_PATIENCE)

    def take(self) -> None:
        """Read what is there, count it, acknowledge it."""
        try:
            count = self.link.sock.recv_into(self._buffer)
        except BlockingIOError:
            return
        if not count:
            raise MeasureError("the broker closed the consumer's connection")
        before, self._bytes = self._bytes, self._bytes + count
        first, whole = self._whole, self._bytes // self._size
        if whole == first:
            return
        self._check((whole - 1) * self._size - before + self._number_at, whole, count)
        self._whole = self._board.received[self._slot] = whole
        if self._acks:
            for piece in self._acks.cut(first + 1, whole):
                self.link.sock.sendall(piece)

    def _check(self, at: int, whole: int, count: int) -> None:
        if at < 0:  # the last whole delivery began in an earlier read
            return
        number = int.from_bytes(self._buffer[at : at + 8], "big")
        if number != whole:
            reason = explain_close(bytes(self._buffer[:count]))
            raise MeasureError(f"delivery {whole} carries tag {number}{reason}")


def prepare_consumer(
    address: AmqpAddress, plan: LoadPlan, board: SharedCounters
) -> Callable[[], None]:
    """Connect and subscribe; the returned function consumes until the board says stop."""
    buffer = bytearray(_READ_BYTES)
    total = plan.case.pairs * plan.case.consumers
    inlets = [ConsumerSocket(address, plan, slot, board, buffer) for slot in range(total)]
    if total == 1:
        return lambda: _consume_one(inlets[0], board)
    return lambda: _consume_many(inlets, board)


def _consume_one(inlet: ConsumerSocket, board: SharedCounters) -> None:
    while not board.stopped:
        inlet.take()
    inlet.link.sock.close()


def _consume_many(inlets: list[ConsumerSocket], board: SharedCounters) -> None:
    by_descriptor = {inlet.link.sock.fileno(): inlet for inlet in inlets}
    with select.epoll() as poll:
        for descriptor in by_descriptor:
            poll.register(descriptor, select.EPOLLIN)
        while not board.stopped:
            for descriptor, _ in poll.poll(_PATIENCE):
                by_descriptor[descriptor].take()
    for inlet in inlets:
        inlet.link.sock.close()
