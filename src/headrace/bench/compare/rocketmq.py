"""RocketMQ clients: what a message costs the broker beside the native protocol, and our SDK beside
the client of PyPI. Two figures of one broker in one run; what counts is their ratio.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final

from headrace.bench import processes
from headrace.bench.compare import remoting_connection
from headrace.bench.compare.ratio import MeasureSetup, RatioResult, rate
from headrace.bench.errors import MeasureError
from headrace.client.core.requests import ClientRequest, nothing
from headrace.rocketmq import (
    ConcurrentConsumer,
    ConsumeFromWhere,
    ConsumerConfig,
    ConsumeResult,
    Message,
    MessageExt,
    Producer,
    ProducerConfig,
)
from headrace.store.topics.types import ConsumerSpec, Entry
from headrace.topics.remote_engine import RemoteEngine
from headrace.wire.native.payloads import Op

BODY: Final = b"x" * 100
FILLED: Final = 50_000  # messages that are there to be read
UNDER_WAY: Final = 16  # requests that wait for an answer
PULL: Final = 32
_PYPI_CLIENT: Final = Path(__file__).with_name("rocketmq_pypi.py")
_WARM_UP: Final = 50  # sends
_numbers = count(1)


def _namesrv(setup: MeasureSetup) -> str:
    return f"127.0.0.1:{setup.broker.ports['namesrv']}"


def _new_topic(setup: MeasureSetup) -> str:
    """A topic with one queue."""
    name = f"bench_{next(_numbers)}"
    with _native(setup) as client:
        client.declare(name)
    return name


@contextmanager
def _native(setup: MeasureSetup) -> Iterator[NativeClient]:
    with setup.factory.new_connection() as connection:
        yield NativeClient(RemoteEngine(connection))


class NativeClient:
    """A few words of the native protocol."""

    def __init__(self, engine: RemoteEngine) -> None:
        self.engine = engine

    def declare(self, topic: str) -> None:
        connection = self.engine._connection
        call = ClientRequest(Op.TOPIC_DECLARE, {"name": topic}, nothing)
        connection.call(self.engine._channel.state, call)

    def append(self, topic: str, batch: int) -> Callable[[], int]:
        """A step: one more request under way; how many messages were confirmed."""
        connection, state = self.engine._connection, self.engine._channel.state
        fields = {"topic": topic, "token": "bench", "batch": [{"body": BODY}] * batch}
        under_way = deque[object]()

        def step() -> int:
            call = ClientRequest(Op.APPEND, dict(fields), lambda reply: len(reply["ids"]))
            under_way.append(connection.submit(state, call))
            if len(under_way) <= UNDER_WAY:
                return 0
            return int(under_way.popleft().result())  # type: ignore[attr-defined]

        return step


# -- the broker's work -----------------------------------------------------------------------------


def _cost(setup: MeasureSetup, step: Callable[[], int]) -> float:
    """Microseconds of the broker's CPU per message."""
    for _ in range(UNDER_WAY * 4):
        step()
    pids = setup.broker.pids
    before, done, end = processes.cpu_seconds(pids), 0, time.monotonic() + setup.seconds
    while time.monotonic() < end:
        done += step()
    if not done:
        raise MeasureError("nothing was measured in the given time; increase it")
    return (processes.cpu_seconds(pids) - before) / done * 1e6


def _sending(setup: MeasureSetup, batch: int, wanted: str) -> RatioResult:
    with remoting_connection.RemotingConnection(setup.broker.ports["remoting"]) as connection:
        ours = _cost(setup, connection.sending(_new_topic(setup), BODY, batch, UNDER_WAY))
    with _native(setup) as native:
        other = _cost(setup, native.append(_new_topic(setup), batch))
    about = f"RocketMQ send / native append, {batch} messages a request"
    return RatioResult(f"cpu-send-{batch}", ours, other, wanted, "us CPU/message", about)


def cpu_send_1(setup: MeasureSetup) -> RatioResult:
    """The broker's CPU per message: sends of one message."""
    return _sending(setup, 1, "<= 4")


def cpu_send_100(setup: MeasureSetup) -> RatioResult:
    """The broker's CPU per message: batches of 100."""
    return _sending(setup, 100, "<= 2")


def cpu_pull(setup: MeasureSetup) -> RatioResult:
    """The broker's CPU per message: pulls of 32."""
    topic = _filled(setup)
    with remoting_connection.RemotingConnection(setup.broker.ports["remoting"]) as connection:
        ours = _cost(setup, connection.pulling(topic, PULL, FILLED))
    with _native(setup) as native:
        other = _cost(setup, _reading(native.engine, topic))
    about = f"RocketMQ pull / native read, {PULL} messages a request"
    return RatioResult("cpu-pull-32", ours, other, "<= 2", "us CPU/message", about)


def _filled(setup: MeasureSetup) -> str:
    topic = _new_topic(setup)
    with _native(setup) as native:
        for _ in range(FILLED // 1000):
            native.engine.append(topic, [Entry(BODY)] * 1000)
    return topic


def _reading(engine: RemoteEngine, topic: str) -> Callable[[], int]:
    reader = [ConsumerSpec(f"reader-{next(_numbers)}")]

    def step() -> int:
        taken = engine.read(topic, reader[0], PULL)
        if not taken.messages:
            reader[0] = ConsumerSpec(f"reader-{next(_numbers)}")
            return 0
        engine.commit(topic, reader[0], taken.claim)
        return len(taken.messages)

    return step


# -- the SDK beside the client of PyPI -------------------------------------------------------------


def _pypi_client(setup: MeasureSetup, what: str, topic: str, messages: int = 0) -> float:
    assert setup.rocketmq_python is not None, "such cases are left out without it"
    command = [
        setup.rocketmq_python,
        "-I",
        str(_PYPI_CLIENT),
        what,
        _namesrv(setup),
        topic,
        str(setup.seconds),
        str(messages),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, cwd="/")
    try:
        return float(done.stdout.split()[-1])
    except (ValueError, IndexError):
        said = " ".join((done.stderr or done.stdout).split())[-300:]
        raise MeasureError(f"the client of PyPI did not work: {said}") from None


def _producer(setup: MeasureSetup) -> Producer:
    return Producer(ProducerConfig(producer_group="bench", namesrv_addr=_namesrv(setup)))


def sdk_sync(setup: MeasureSetup) -> RatioResult:
    """One send after the other, each confirmed."""
    topic = _new_topic(setup)
    with _producer(setup) as producer:

        def step() -> int:
            producer.send(Message(topic, BODY))
            return 1

        ours = rate(setup.seconds, step, _WARM_UP)
    return _beside(setup, "sdk-sync-send", ours, 0.7, "sync send / PyPI client, sync send")


def sdk_batch(setup: MeasureSetup) -> RatioResult:
    """Batches of 100, against single sends of the other client, which has no batches."""
    topic = _new_topic(setup)
    batch = [Message(topic, BODY) for _ in range(100)]
    with _producer(setup) as producer:

        def step() -> int:
            producer.send_batch(batch)
            return len(batch)

        ours = rate(setup.seconds, step, _WARM_UP)
    return _beside(setup, "sdk-batch-send", ours, 3, "batches of 100 / PyPI client, sync send")


def sdk_async(setup: MeasureSetup) -> RatioResult:
    """Sends whose answers come later."""
    topic = _new_topic(setup)
    under_way = deque[object]()
    with _producer(setup) as producer:

        def step() -> int:
            under_way.append(producer.send_async(Message(topic, BODY)))
            if len(under_way) < 500:
                return 0
            under_way.popleft().result()  # type: ignore[attr-defined]
            return 1

        ours = rate(setup.seconds, step, _WARM_UP)
    return _beside(setup, "sdk-async-send", ours, 3, "async send / PyPI client, sync send")


def _beside(setup: MeasureSetup, case: str, ours: float, wanted: float, about: str) -> RatioResult:
    other = _pypi_client(setup, "send", _new_topic(setup))
    return RatioResult(case, ours, other, f">= {wanted:g}", "messages/s", about)


def sdk_consume(setup: MeasureSetup) -> RatioResult:
    """A concurrent consumer, from the first message to the last."""
    topic = _filled(setup)
    ours = _consumed(setup, topic)
    other = _pypi_client(setup, "consume", topic, FILLED)
    about = "concurrent consumer / PyPI client"
    return RatioResult("sdk-consume", ours, other, ">= 1", "messages/s", about)


def _consumed(setup: MeasureSetup, topic: str) -> float:
    times: list[float] = []
    seen = 0
    full = threading.Event()
    lock = threading.Lock()

    def take(messages: list[MessageExt]) -> ConsumeResult:
        nonlocal seen
        with lock:
            times.append(time.monotonic())
            seen += len(messages)
            if seen >= FILLED:
                full.set()
        return ConsumeResult.SUCCESS

    config = ConsumerConfig(
        consumer_group=f"bench-{topic}",
        namesrv_addr=_namesrv(setup),
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    )
    consumer = ConcurrentConsumer(config)
    consumer.subscribe(topic, "*")
    consumer.register_message_listener(take)
    with consumer:
        if not full.wait(120):
            raise MeasureError(f"only {seen} of {FILLED} messages came")
    return seen / (times[-1] - times[0])


CASES: Final[dict[str, Callable[[MeasureSetup], RatioResult]]] = {
    "cpu-send-1": cpu_send_1,
    "cpu-send-100": cpu_send_100,
    "cpu-pull-32": cpu_pull,
    "sdk-sync-send": sdk_sync,
    "sdk-batch-send": sdk_batch,
    "sdk-async-send": sdk_async,
    "sdk-consume": sdk_consume,
}
NEEDS_PEER: Final = frozenset(name for name in CASES if name.startswith("sdk-"))
