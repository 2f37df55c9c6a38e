"""The consuming side of the generator: counts deliveries by bytes and sends pre-encoded acks.

All deliveries of a case have one size, so whole messages = bytes // size. The delivery tag of the
last whole delivery of each read is compared with the count: a stray frame fails the measurement.
"""

from __future__ import annotations

import select
from collections.abc import Callable

from headrace.bench.load.amqp_connection import AmqpConnection
from headrace.bench.load.frames import AckBlock, delivery_number_offset, explain_close
from headrace.bench.load.worker_group import SharedCounters
from headrace.bench.load_plan import LoadPlan
from headrace.bench.target import AmqpAddress, MeasureError

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
