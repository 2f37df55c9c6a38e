"""Two figures of one run and what their ratio is to be; steps, and how fast they are."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from headrace.bench.brokers import HeadraceBroker
from headrace.client import Connection, ConnectionFactory
from headrace.client.core.requests import ClientRequest
from headrace.wire.native.payloads import Op


@dataclass(frozen=True, slots=True)
class MeasureSetup:
    """The broker, how long to measure, and an interpreter with the RocketMQ client of PyPI."""

    broker: HeadraceBroker
    seconds: float
    rocketmq_python: str | None = None

    @property
    def factory(self) -> ConnectionFactory:
        return ConnectionFactory(port=self.broker.native_port)


@dataclass(frozen=True, slots=True)
class RatioResult:
    """Two figures and their ratio; ``wanted`` says which way and how far, or that it is shown."""

    case: str
    first: float
    second: float
    wanted: str
    unit: str
    about: str

    @property
    def ratio(self) -> float:
        return self.first / self.second if self.second else 0.0

    @property
    def is_good(self) -> bool:
        sign, _, bound = self.wanted.partition(" ")
        if sign == "shown":
            return True
        return self.ratio >= float(bound) if sign == ">=" else self.ratio <= float(bound)


def appending(
    connection: Connection, topic: str, batch: list[dict[str, object]], under_way: int
) -> Callable[[], int]:
    """A step: one more append under way; how many messages were confirmed.

    The messages are packed again for each.
    """
    state = connection.create_channel().state
    fields = {"topic": topic, "token": "bench", "batch": batch}
    waiting: deque[Future[int]] = deque()

    def step() -> int:
        call = ClientRequest(Op.APPEND, dict(fields), lambda reply: len(reply["ids"]))
        waiting.append(connection.submit(state, call))
        return waiting.popleft().result() if len(waiting) > under_way else 0

    return step


def rate(seconds: float, step: Callable[[], int], warm_up: int) -> float:
    """Messages per second; the first steps warm up."""
    for _ in range(warm_up):
        step()
    done, start = 0, time.monotonic()
    while (now := time.monotonic()) < start + seconds:
        done += step()
    return done / (now - start)
