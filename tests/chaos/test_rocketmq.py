"""Groups of RocketMQ consumers when members, the broker and the name server are killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

import pytest

import headrace
from headrace.rocketmq import Message, MessageQueue, Producer, ProducerConfig, RocketMQError
from headrace.testing import wait_for
from headrace.wire.remoting.headers.admin import CreateTopic
from headrace.wire.remoting.headers.groups import GetConsumerList
from headrace.wire.remoting.headers.offsets import GetMaxOffset, OffsetResult, QueryConsumerOffset
from headrace.wire.remoting.message_queue import take_members
from support import brokers
from support.raw_remoting import Link

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

TOPIC, GROUP, QUEUES = "orders", "workers", 8
BATCH = 100
MAX_OWNERS = 5  # of a queue, one after the other, when one dies and one joins
IN_HAND = 2000  # messages of a queue that were done and not committed when its owner died


class Done(NamedTuple):
    """A message that a worker has done."""

    worker: int
    queue: int
    offset: int
    key: int
    number: int  # of the key, from 0


class Diary:
    """What all workers have done, read as it grows."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = 0
        self.done: list[Done] = []
        self.distinct: set[tuple[int, int]] = set()

    def look(self) -> list[Done]:
        """Everything done until now, in the order in which it was done."""
        with self._file.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        data = data[: data.rfind(b"\n") + 1]
        self._read += len(data)
        new = [Done(*map(int, line.split())) for line in data.decode().splitlines()]
        self.done += new
        self.distinct |= {(one.key, one.number) for one in new}
        return new


@dataclass
class Stage:
    """A broker that may be killed, workers that may be killed, and what they have done."""

    directory: Path
    stack: ExitStack
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.broker = brokers.start(self.directory)
        self.stack.callback(lambda: self.broker.stop())
        self.log = self.directory / "done.txt"
        self.log.touch()
        self.diary = Diary(self.log)
        with Link(self.address) as link:
            assert link.ask(CreateTopic(TOPIC, QUEUES, QUEUES)).code == 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.broker.ports['remoting']}"

    @property
    def namesrv(self) -> str:
        return f"127.0.0.1:{self.broker.ports['namesrv']}"

    def crash(self) -> None:
        """kill -9 of the broker, which is the name server, too; and a new start."""
        ports = self.broker.ports
        self.broker.kill()
        flags = [f"--{name}-port={ports[name]}" for name in ("namesrv", "remoting")]
        self.broker = brokers.start(self.directory, *flags)

    def hire(self, kind: str) -> subprocess.Popen[bytes]:
        root = str(Path(headrace.__file__).parents[1])
        script = str(Path(__file__).parents[1] / "support" / "chaos" / "rocketmq_worker.py")
        command = [sys.executable, script, kind, self.namesrv, GROUP, TOPIC, str(self.log)]
        with (self.directory / "workers.txt").open("ab") as output:
            worker = subprocess.Popen(
                command, env={**os.environ, "PYTHONPATH": root}, stdout=output, stderr=output
            )
        self.workers.append(worker)
        self.stack.callback(lambda: (worker.kill(), worker.wait()))
        return worker

    def wait_until_done(self, count: int, seconds: float = 300) -> None:
        def is_done() -> bool:
            self.diary.look()
            return len(self.diary.distinct) >= count

        wait_for(is_done, seconds, 0.05)

    def producer(self) -> Producer:
        config = ProducerConfig(producer_group="pg", namesrv_addr=self.namesrv)
        return self.stack.enter_context(Producer(config))

    def committed(self, link: Link) -> dict[int, int]:
        answers = {
            queue: link.ask(QueryConsumerOffset(GROUP, TOPIC, queue, set_zero_if_not_found=False))
            for queue in range(QUEUES)
        }
        return {
            queue: OffsetResult.take(answer.ext).offset
            for queue, answer in answers.items()
            if answer.code == 0
        }

    def ends(self) -> dict[int, int]:
        with Link(self.address) as link:
            return {
                queue: OffsetResult.take(link.ask(GetMaxOffset(TOPIC, queue)).ext).offset
                for queue in range(QUEUES)
            }


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield Stage(tmp_path, stack)


class Sender(Thread):
    """Sends keys 0 .. ``keys``-1 in order, ``each`` messages of every key, in batches per queue."""

    def __init__(self, producer: Producer, keys: int, each: int) -> None:
        super().__init__()
        self._producer = producer
        self._keys, self._each = keys, each

    def run(self) -> None:
        queues = sorted(self._producer.queues(TOPIC), key=lambda queue: queue.queue_id)
        waiting: dict[MessageQueue, list[Message]] = defaultdict(list)
        for number in range(self._each):
            for key in range(self._keys):
                queue = queues[key % len(queues)]
                waiting[queue].append(Message(TOPIC, f"{key} {number}".encode(), keys=str(key)))
                if len(waiting[queue]) >= BATCH:
                    self._send(waiting.pop(queue), queue)
        for queue, messages in waiting.items():
            self._send(messages, queue)

    def _send(self, messages: list[Message], queue: MessageQueue) -> None:
        while True:
            with suppress(RocketMQError):
                self._producer.send_batch(messages, queue=queue, timeout=5)
                return


# -- in order --------------------------------------------------------------------------------------


def check_order(done: list[Done]) -> int:
    """Nothing is skipped, ever; how many were done again."""
    expected: dict[int, int] = defaultdict(int)
    again = 0
    for one in done:
        assert one.number <= expected[one.key], f"{one} came before {expected[one.key]}"
        again += one.number < expected[one.key]
        expected[one.key] = one.number + 1  # what is done again goes on from there in order
    return again


def owners(done: list[Done]) -> dict[int, list[int]]:
    """The workers of every queue, one after the other."""
    found: dict[int, list[int]] = defaultdict(list)
    for one in done:
        if not found[one.queue] or found[one.queue][-1] != one.worker:
            found[one.queue].append(one.worker)
    return found


def test_keys_stay_in_order_while_members_are_killed_and_join(stage: Stage) -> None:
    keys, each = 1000, 100
    workers = [stage.hire("orderly") for _ in range(3)]
    wait_for(lambda: stage_has_members(stage, 3), 60, 0.1)
    sender = Sender(stage.producer(), keys, each)
    sender.start()
    total = keys * each
    stage.wait_until_done(total // 5)
    workers[0].kill()
    stage.wait_until_done(total * 2 // 5)
    stage.hire("orderly")
    stage.wait_until_done(total)
    sender.join()

    done = stage.diary.done
    again = check_order(done)
    assert {(one.key, one.number) for one in done} == {
        (key, number) for key in range(keys) for number in range(each)
    }
    changes = owners(done)
    sys.stdout.write(f"\ndone again: {again}; owners: {dict(changes)}\n")
    # A queue goes from one owner to the next when somebody dies or joins, and never to and fro.
    assert len(changes) == QUEUES
    assert all(len(one) <= MAX_OWNERS for one in changes.values()), changes
    assert again <= QUEUES * IN_HAND


def stage_has_members(stage: Stage, count: int) -> bool:
    with Link(stage.address) as link:
        answer = link.ask(GetConsumerList(GROUP))
    return answer.code == 0 and len(take_members(answer.body)) == count


# -- at the same time ------------------------------------------------------------------------------


class Watcher(Thread):
    """Looks at the committed offsets all the time: they pass nothing unfinished, nor go back."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self._stage = stage
        self._stop_it = Event()
        self._highest: dict[int, int] = {}
        self._diary = Diary(stage.log)
        self._finished: dict[int, set[int]] = defaultdict(set)
        self.looks = 0
        self.faults: list[str] = []

    def run(self) -> None:
        while not self._stop_it.wait(0.1):
            with suppress(OSError, AssertionError), Link(self._stage.address) as link:
                while not self._stop_it.wait(0.05):
                    self._compare(self._stage.committed(link))

    def _compare(self, committed: dict[int, int]) -> None:
        for one in self._diary.look():
            self._finished[one.queue].add(one.offset)
        for queue, offset in committed.items():
            if offset < self._highest.get(queue, 0):
                self.faults.append(f"queue {queue}: {self._highest[queue]}, then {offset}")
            self._highest[queue] = offset
            missing = set(range(offset)) - self._finished[queue]
            if missing:
                self.faults.append(f"queue {queue}: {offset} passes {sorted(missing)[:5]}")
        self.looks += 1

    def stop(self) -> None:
        self._stop_it.set()
        self.join()


def test_nothing_is_lost_when_consumers_the_broker_and_the_name_server_die(stage: Stage) -> None:
    keys, each = 100, 200
    total = keys * each
    accidents: list[Callable[[], object]] = [
        lambda: stage.workers[0].kill(),
        stage.crash,
        lambda: stage.hire("concurrent"),
        lambda: stage.workers[1].kill(),
        stage.crash,
        lambda: stage.hire("concurrent"),
    ]
    for _ in range(3):
        stage.hire("concurrent")
    watcher = Watcher(stage)
    watcher.start()
    sender = Sender(stage.producer(), keys, each)
    sender.start()
    try:
        for number, accident in enumerate(accidents, 1):
            stage.wait_until_done(total * number // (len(accidents) + 2))
            accident()
        stage.wait_until_done(total)
        sender.join()

        def lag() -> int:
            with Link(stage.address) as link:
                committed = stage.committed(link)
            return sum(end - committed.get(queue, 0) for queue, end in stage.ends().items())

        wait_for(lambda: lag() == 0, 60, 0.2)
    finally:
        watcher.stop()

    assert watcher.faults == []
    assert watcher.looks > 20
