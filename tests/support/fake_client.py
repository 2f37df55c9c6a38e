"""A client's core on a desk: a fake broker across the table, futures and sinks to look at."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import msgpack

from headrace.client.core.channel_core import ChannelCore
from headrace.client.core.channel_state import ChannelState
from headrace.client.core.connection_core import ConnectionCore
from headrace.client.core.requests import ClientRequest
from headrace.client.core.unsettled import Batch, Delivery, UnsettledDeliveries
from headrace.client.deliveries import CallbackQueue, CallbackThreads, ConsumerCallback
from headrace.client.errors import ConnectionClosed, HeadraceError
from headrace.client.settings import Settings
from headrace.wire.native.frames import Reader
from headrace.wire.native.payloads import Op, message

Request = tuple[int, dict[str, Any]]


class Box:
    """A sink that keeps what it gets."""

    def __init__(self, unsettled: UnsettledDeliveries) -> None:
        self._unsettled = unsettled
        self.deliveries: list[Delivery] = []
        self.endings: list[HeadraceError | None] = []

    def deliver(self, batch: Batch) -> None:
        self.deliveries += [Delivery(self._unsettled, tag, "c", row) for tag, row in batch.items()]

    def end(self, error: HeadraceError | None) -> None:
        self.endings.append(error)


class Desk:
    """The core, its clock, and both directions of its wire."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - fields of Settings
        self.now = 100.0
        self.wakes = 0
        self.core = ConnectionCore(replace(Settings(), **options), self._wake, lambda *_: None)

    def _wake(self, urgent: bool) -> None:
        self.wakes += 1

    # -- the broker's side

    def said(self) -> list[Request]:
        """What the client has sent since the last look."""
        data = b"".join(self.core.take_output(self.now))
        return [(kind, msgpack.unpackb(payload)) for kind, payload in Reader().feed(data)]

    def say(self, kind: int, **fields: object) -> None:
        frames = self.core.decode(message(kind, fields))
        self.core.receive(frames, self.now)
        self._hand_over()

    def answer(self, request: Request, **fields: object) -> None:
        kind, asked = request
        self.say(kind, **{"rid": asked["rid"], "ch": asked["ch"], "ok": True, **fields})

    def refuse(self, request: Request, code: str, text: str = "no") -> None:
        self.answer(request, ok=False, code=code, text=text)

    def push(self, channel: ChannelState, consumer_tag: str, *tags: int) -> None:
        rows = [row(tag) for tag in tags]
        self.say(Op.PUSH, ch=channel.id, consumer_tag=consumer_tag, batch=rows)

    def greet(self) -> None:
        """A socket is there, and the broker welcomes the client."""
        self.core.connected(self.now)
        (hello,) = self.said()
        assert hello[0] == Op.HELLO
        self.answer(hello, version=1, limits={"heartbeat": 60})

    def cut(self) -> None:
        self.core.lost(ConnectionClosed("cut"))
        self._hand_over()

    # -- the program's side

    def submit(
        self, channel: ChannelState | None, call: ClientRequest[Any], limit: float = 30
    ) -> Future[Any]:
        future: Future[Any] = Future()
        self.core.submit(channel, call, future, self.now + limit)
        self._hand_over()
        return future

    def run(self, channel: ChannelState, call: ClientRequest[Any], **reply: object) -> Any:  # noqa: ANN401
        """Submit a call and let the broker agree."""
        future = self.submit(channel, call)
        self.answer(self.said()[-1], **reply)
        return future.result(0)

    def open_channel(self) -> tuple[ChannelState, ChannelCore[Delivery]]:
        state = self.core.new_channel()
        callbacks = CallbackQueue(CallbackThreads(1, "desk"))
        calls = ChannelCore(self.core, state, callbacks, ConsumerCallback, Delivery)
        self.run(state, calls.open())
        return state, calls

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.core.tick(self.now)
        self._hand_over()

    def _hand_over(self) -> None:
        self.core.requests.take_results()()


def row(tag: int, **extra: object) -> Mapping[str, Any]:
    return {
        "tag": tag,
        "redelivered": False,
        "exchange": "",
        "key": "q",
        "queue": "q",
        "properties": {"message_id": f"M-{tag}", "routing_key": "q", "delivery_mode": 1},
        "body": b"%d" % tag,
        **extra,
    }


def steps(requests: list[Request]) -> list[int]:
    return [kind for kind, _ in requests]
