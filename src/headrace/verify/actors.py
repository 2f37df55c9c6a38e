"""The clients of the load: publishers, consumers, transactions. Each step is chosen by chance."""

from __future__ import annotations

from collections import deque
from random import Random

from headrace.testing.amqp_connection import RawConnection, ReceivedMethod
from headrace.verify import topology as t
from headrace.verify.ledger import Ledger, Proof, make_body
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.properties import Properties

_PERSISTENT = Properties(delivery_mode=2)
_ROUTES = tuple(t.ROUTES)
_SIZE = 600  # of the largest body
_WEIGHTS = (6, 4, 1, 5, 3, 2, 6)  # of the routes, in their order


class _Sender:
    """Sends messages of random sizes on a channel of its own."""

    def __init__(self, name: str, link: RawConnection, ledger: Ledger, chance: Random) -> None:
        self.name = name
        self._link = link
        self._channel = link.open_channel(1)
        self._ledger = ledger
        self._chance = chance
        self._prepare()

    def _prepare(self) -> None:
        raise NotImplementedError

    def _send(self, number: int, route: tuple[str, str]) -> None:
        body = make_body(number, self._chance.randrange(_SIZE))
        self._link.publish(self._channel, *route, body, _PERSISTENT)


class ConfirmingPublisher(_Sender):
    """Publishes with confirms; never more than ``window`` of them open."""

    def _prepare(self) -> None:
        self._window = self._chance.choice((1, 20, 200))
        self._tag = 0
        self._open: deque[tuple[int, int, list[Proof]]] = deque()  # tag, number, proofs
        self._link.call(self._channel, m.ConfirmSelect(), m.ConfirmSelectOk)

    def step(self) -> None:
        """A burst of messages, as far as the window allows."""
        chance = self._chance
        for _ in range(chance.choice((1, 5, 30))):
            if len(self._open) >= self._window or self._link.blocked:
                return
            route = chance.choices(_ROUTES, _WEIGHTS)[0]
            self.publish(self._ledger.send(self.name, t.ROUTES[route]), route)

    def publish(self, number: int, route: tuple[str, str]) -> None:
        self._tag += 1
        self._open.append((self._tag, number, self._ledger.take_unproven()))
        self._send(number, route)

    def handle(self, event: ReceivedMethod) -> None:
        method = event.method
        if isinstance(method, m.BasicAck | m.BasicNack):
            self._answered(method.delivery_tag, method.multiple, isinstance(method, m.BasicAck))

    def _answered(self, tag: int, multiple: bool, ok: bool) -> None:
        rest: deque[tuple[int, int, list[Proof]]] = deque()
        for one in self._open:
            if one[0] == tag or (multiple and one[0] < tag):
                self._ledger.answer([one[1]], ok=ok)
                self._ledger.prove(one[2])
            else:
                rest.append(one)
        self._open = rest


class TransactionPublisher(_Sender):
    """Publishes in transactions, a few messages each; one rollback in ten."""

    def _prepare(self) -> None:
        self._open: list[int] = []
        self._link.call(self._channel, m.TxSelect(), m.TxSelectOk)

    def step(self) -> None:
        if self._open or self._link.blocked:
            return
        rolled_back = self._chance.random() < 0.1
        first = len(self._ledger.sent) + 1
        for _ in range(self._chance.randrange(1, 8)):
            # A message that is rolled back must never be delivered: a delivery of it is a ghost.
            families = () if rolled_back else (t.BATCH,)
            number = self._ledger.send(self.name, families, transaction=first)
            self._open.append(number)
            self._send(number, ("", t.BATCH))
        if rolled_back:
            self._open.clear()
            self._link.call(self._channel, m.TxRollback(), m.TxRollbackOk)
        else:
            self._link.send(self._channel, m.TxCommit())

    def handle(self, event: ReceivedMethod) -> None:
        if isinstance(event.method, m.TxCommitOk):
            self._ledger.answer(self._open)
            self._open = []


class TransferConsumer:
    """Moves messages from the inbox to the outbox, each in a transaction: never none, never two."""

    def __init__(self, link: RawConnection, ledger: Ledger) -> None:
        self._link = link
        self._channel = link.open_channel(1)
        self._ledger = ledger
        self._moving: int | None = None
        self._waiting: deque[tuple[int, int, bytes]] = deque()
        link.call(self._channel, m.TxSelect(), m.TxSelectOk)
        link.call(self._channel, m.BasicQos(prefetch_count=20), m.BasicQosOk)
        link.call(self._channel, m.BasicConsume(queue=t.INBOX), m.BasicConsumeOk)

    def step(self) -> None:
        if self._moving is not None or not self._waiting or self._link.blocked:
            return
        tag, self._moving, body = self._waiting.popleft()
        self._link.publish(self._channel, "", t.OUTBOX, body, _PERSISTENT)
        self._link.send(self._channel, m.BasicAck(delivery_tag=tag))
        self._link.send(self._channel, m.TxCommit())

    def handle(self, event: ReceivedMethod) -> None:
        method = event.method
        if isinstance(method, m.TxCommitOk):
            assert self._moving is not None
            self._ledger.move(t.INBOX, self._moving)
            self._moving = None
        elif isinstance(method, m.BasicDeliver):
            number = self._ledger.see(t.INBOX, event.body, redelivered=method.redelivered)
            if number is not None:
                self._waiting.append((method.delivery_tag, number, event.body))


class LoadConsumer:
    """Consumes all queues, each on a channel of its own; acknowledges, requeues, rejects, holds."""

    def __init__(
        self,
        link: RawConnection,
        ledger: Ledger,
        chance: Random,
        *,
        queues: tuple[str, ...],
        tidy: bool,
    ) -> None:
        self._link = link
        self._ledger = ledger
        self._chance = chance
        self._tidy = tidy  # only acknowledge
        self._held: dict[int, list[tuple[int, int]]] = {}  # by channel: (tag, number)
        self._queues: dict[int, str] = {}
        self._asked: list[Proof] | None = None
        for channel, queue in enumerate(queues, 1):
            link.open_channel(channel)
            self._queues[channel] = queue
            self._held[channel] = []
            prefetch = chance.choice((5, 50, 500))
            link.call(channel, m.BasicQos(prefetch_count=prefetch), m.BasicQosOk)
            link.call(channel, m.BasicConsume(queue=queue), m.BasicConsumeOk)

    def step(self) -> None:
        """Let go of what is held, now and then; ask whether the acknowledgements were read."""
        for channel, held in self._held.items():
            if held and (self._tidy or len(held) >= 4 or self._chance.random() < 0.1):
                self._ack_all(channel)
        if self._asked is None and (acks := self._ledger.take_sent_acks()):
            self._asked = acks
            self._link.send(1, m.BasicQos(prefetch_count=50))

    def handle(self, event: ReceivedMethod) -> None:
        method = event.method
        if isinstance(method, m.BasicDeliver):
            queue = self._queues[event.channel]
            number = self._ledger.see(queue, event.body, redelivered=method.redelivered)
            if number is not None:
                self._settle(event.channel, queue, method.delivery_tag, number)
        elif isinstance(method, m.BasicQosOk):
            self._ledger.acks_were_read(self._asked or ())
            self._asked = None

    def _settle(self, channel: int, queue: str, tag: int, number: int) -> None:
        dice = self._chance.random()
        if self._tidy or dice < 0.15:
            self._held[channel].append((tag, number))
        elif queue == t.WORK and dice < 0.5:
            self._link.send(channel, m.BasicReject(delivery_tag=tag, requeue=False))
        elif dice < 0.22:
            self._link.send(channel, m.BasicNack(delivery_tag=tag, requeue=True))
        else:
            self._ledger.ack(queue, number)
            self._link.send(channel, m.BasicAck(delivery_tag=tag))

    def _ack_all(self, channel: int) -> None:
        """One acknowledgement for all that is held. What is behind it has been settled."""
        held = self._held[channel]
        for _, number in held:
            self._ledger.ack(self._queues[channel], number)
        self._link.send(channel, m.BasicAck(delivery_tag=held[-1][0], multiple=True))
        held.clear()
