"""RocketMQ clients: what a message costs the broker beside the native protocol, and our SDK beside
the client of PyPI. Two figures of one broker in one run; what counts is their ratio.
"""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final

from headrace.bench import processes
from headrace.bench.compare.ratio import MeasureSetup, RatioResult, appending, rate
from headrace.bench.target import MeasureError
from headrace.rocketmq import (
    ConcurrentConsumer,
    ConsumeFromWhere,
    ConsumerConfig,
    ConsumeResult,
    Message,
    MessageExt,
    Producer,
    ProducerConfig,
    SendResult,
)
from headrace.store.topics.types import ConsumerSpec, Entry, TopicSpec
from headrace.topics.remote_engine import RemoteEngine
from headrace.wire.remoting.codes import RequestCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.frames import Reader, command_bytes
from headrace.wire.remoting.headers.pull import PullMessage
from headrace.wire.remoting.headers.send import SendMessage
from headrace.wire.remoting.message import BatchElement, batch_bytes

BODY: Final = b"x" * 100
FILLED: Final = 50_000  # messages that are there to be read
UNDER_WAY: Final = 16  # requests that wait for an answer
PULL: Final = 32
SUBSCRIPTION: Final = 4  # flag of a pull that says what it wants
_PYPI_CLIENT: Final = Path(__file__).with_name("rocketmq_pypi.py")
_WARM_UP: Final = 50  # sends
_numbers = count(1)


def _namesrv(setup: MeasureSetup) -> str:
    return f"127.0.0.1:{setup.broker.ports['namesrv']}"


def _new_topic(setup: MeasureSetup) -> str:
    """A topic with one queue."""
    name = f"bench_{next(_numbers)}"
    with _engine(setup) as engine:
        engine.create(TopicSpec(name))
    return name


@contextmanager
def _engine(setup: MeasureSetup) -> Iterator[RemoteEngine]:
    """The native protocol."""
    with setup.factory.new_connection() as connection:
        yield RemoteEngine(connection)


class RemotingConnection:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 30)
        self._reader = Reader()
        self._opaques = count(1)
        self._answered = 0

    def __enter__(self) -> RemotingConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def sending(self, topic: str, body: bytes, batch: int, under_way: int) -> Callable[[], int]:
        """A step: one more request under way; how many messages were confirmed."""
        properties = b"UNIQ_KEY\x010123456789ABCDEF0123456789ABCDEF\x02"
        text = properties.decode()
        header = SendMessage("bench", topic, 0, 0, 1, properties=text, batch=batch > 1)
        code, data = RequestCode.SEND_MESSAGE_V2, body
        if batch > 1:
            code = RequestCode.SEND_BATCH_MESSAGE
            data = batch_bytes([BatchElement(0, body, properties)] * batch)
        frame = command_bytes(Command(code, header.ext_v2(), data, opaque=1))
        waiting = 0

        def step() -> int:
            nonlocal waiting
            self._socket.sendall(frame)
            waiting += 1
            if waiting < under_way:
                return 0
            answers = self._receive()
            waiting -= len(answers)
            return len(answers) * batch

        return step

    def pulling(self, topic: str, size: int, end: int) -> Callable[[], int]:
        """A step: one pull; how many messages came. At the end it begins again."""
        at = 0

        def step() -> int:
            nonlocal at
            header = PullMessage("bench", topic, 0, at, size, SUBSCRIPTION, subscription="*")
            request = Command(header.CODE, header.ext(), opaque=next(self._opaques))
            self._socket.sendall(command_bytes(request))
            (answer,) = self._receive()
            following = int(answer.ext["nextBeginOffset"])
            done, at = following - at, following if following < end else 0
            return done

        return step

    def _receive(self) -> list[Command]:
        found: list[Command] = []
        while not found:
            data = self._socket.recv(1 << 18)
            found += self._reader.feed(data)
            if not data or self._reader.fault is not None:
                raise MeasureError("the broker closed the connection")
        if bad := [one for one in found if one.code != 0]:
            raise MeasureError(f"the broker refused: {bad[0].remark}")
        return found


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
    with RemotingConnection(setup.broker.ports["remoting"]) as connection:
        ours = _cost(setup, connection.sending(_new_topic(setup), BODY, batch, UNDER_WAY))
    with setup.factory.new_connection() as native:
        bodies: list[dict[str, object]] = [{"body": BODY}] * batch
        other = _cost(setup, appending(native, _new_topic(setup), bodies, UNDER_WAY))
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
    with RemotingConnection(setup.broker.ports["remoting"]) as connection:
        ours = _cost(setup, connection.pulling(topic, PULL, FILLED))
    with _engine(setup) as engine:
        other = _cost(setup, _reading(engine, topic))
    about = f"RocketMQ pull / native read, {PULL} messages a request"
    return RatioResult("cpu-pull-32", ours, other, "<= 2", "us CPU/message", about)


def _filled(setup: MeasureSetup) -> str:
    topic = _new_topic(setup)
    with _engine(setup) as engine:
        for _ in range(FILLED // 1000):
            engine.append(topic, [Entry(BODY)] * 1000)
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


def _sends(
    setup: MeasureSetup,
    case: str,
    steps: Callable[[Producer, str], Callable[[], int]],
    wanted: float,
    ours: str,
) -> RatioResult:
    config = ProducerConfig(producer_group="bench", namesrv_addr=_namesrv(setup))
    with Producer(config) as producer:
        first = rate(setup.seconds, steps(producer, _new_topic(setup)), _WARM_UP)
    other = _pypi_client(setup, "send", _new_topic(setup))
    about = f"{ours} / PyPI client, sync send"
    return RatioResult(case, first, other, f">= {wanted:g}", "messages/s", about)


def sdk_sync(setup: MeasureSetup) -> RatioResult:
    """One send after the other, each confirmed."""

    def steps(producer: Producer, topic: str) -> Callable[[], int]:
        def step() -> int:
            producer.send(Message(topic, BODY))
            return 1

        return step

    return _sends(setup, "sdk-sync-send", steps, 0.7, "sync send")


def sdk_batch(setup: MeasureSetup) -> RatioResult:
    """Batches of 100, against single sends of the other client, which has no batches."""

    def steps(producer: Producer, topic: str) -> Callable[[], int]:
        batch = [Message(topic, BODY) for _ in range(100)]

        def step() -> int:
            producer.send_batch(batch)
            return len(batch)

        return step

    return _sends(setup, "sdk-batch-send", steps, 3, "batches of 100")


def sdk_async(setup: MeasureSetup) -> RatioResult:
    """Sends whose answers come later."""

    def steps(producer: Producer, topic: str) -> Callable[[], int]:
        under_way = deque[Future[SendResult]]()

        def step() -> int:
            under_way.append(producer.send_async(Message(topic, BODY)))
            if len(under_way) < 500:
                return 0
            under_way.popleft().result()
            return 1

        return step

    return _sends(setup, "sdk-async-send", steps, 3, "async send")


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
