"""A backup of a broker under load, restored: each group goes on where it was and skips nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from headrace import topics
from headrace.store.tools.backup import backup
from headrace.testing import wait_for
from support import brokers

FILLER = "." * 1000
PRELOADED, BATCH = 3000, 50
TOPICS = {"busy": 1, "parts": 3}  # with how many partitions
GROUPS = (("busy", "quick"), ("busy", "slow"), ("parts", "quick"))
PRIORITIES = ("low", "middle", "high")
Place = tuple[str, int]  # priority and partition


class Load:
    """Producers and members of groups, each in a thread of its own, until they are stopped."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.confirmed: dict[str, int] = {}  # numbers below it are on disk
        self.committed: dict[tuple[str, str], set[int]] = {key: set() for key in GROUPS}
        self.position = dict.fromkeys(GROUPS, -1)  # the highest number that is committed
        self.failures: list[BaseException] = []
        self._numbers = {name: count() for name in TOPICS}
        self._is_over = threading.Event()
        self._threads = [
            *(threading.Thread(target=self._run, args=(self._append, name)) for name in TOPICS),
            *(threading.Thread(target=self._run, args=(self._consume, *key)) for key in GROUPS),
        ]

    def prepare(self) -> None:
        """A log that takes a moment to copy."""
        with topics.open(self.url) as store:
            for name, partitions in TOPICS.items():
                store.create(name, queues=partitions)
                for _ in range(PRELOADED // 500):
                    self._append_batch(store.producer(name, token="p"), name, 500)

    @contextmanager
    def running(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            wait_for(self._is_under_way, 60)
            yield
        finally:
            self._is_over.set()
            for thread in self._threads:
                thread.join(60)
        assert self.failures == []

    def _is_under_way(self) -> bool:
        """The quick groups are near the end: their commits follow the appends at once."""
        quick = [len(done) for (_, group), done in self.committed.items() if group == "quick"]
        return bool(self.failures) or min(quick) >= PRELOADED

    def _run(self, work: object, *args: str) -> None:
        try:
            with topics.open(self.url) as store:
                while not self._is_over.is_set():
                    work(store, *args)  # type: ignore[operator]
        except BaseException as error:
            self.failures.append(error)

    def _append(self, store: topics.Store, name: str) -> None:
        self._append_batch(store.producer(name, token="p"), name, BATCH)

    def _append_batch(self, producer: topics.Producer, name: str, size: int) -> None:
        numbers = [next(self._numbers[name]) for _ in range(size)]
        producer.append_many(
            topics.NewMessage(
                f"{number} {FILLER}",
                priority=PRIORITIES[number % 3] if name == "parts" else "middle",
                ref_key=str(number),
            )
            for number in numbers
        )
        self.confirmed[name] = numbers[-1] + 1

    def _consume(self, store: topics.Store, topic: str, group: str) -> None:
        consumer = store.consumer(topic, token="member", group=group)
        batch = consumer.read(500 if group == "quick" else 20)
        # Before the answer: the copy may have the commit before we hear of it.
        self.committed[topic, group].update(number_of(one) for one in batch)
        consumer.commit(batch)
        if batch:
            self.position[topic, group] = max(number_of(one) for one in batch)

    def go_on(self) -> None:
        """Return when more was appended, and the quick groups have committed it."""
        wanted = {name: number + BATCH for name, number in self.confirmed.items()}

        def is_done() -> bool:
            quick = [(name, at) for (name, group), at in self.position.items() if group == "quick"]
            return bool(self.failures) or all(at >= wanted[name] for name, at in quick)

        wait_for(is_done, 60)


def number_of(message: topics.Message) -> int:
    return int(message.text.partition(" ")[0])


def headrace(*args: object) -> None:
    command = [sys.executable, "-m", "headrace", *map(str, args)]
    subprocess.run(command, check=True, env=brokers._environment({}), capture_output=True)


def read_all(consumer: topics.Consumer) -> dict[Place, list[topics.Message]]:
    """What the consumer has not done yet, in order; committed."""
    found: dict[Place, list[topics.Message]] = defaultdict(list)
    while batch := consumer.read(2000):
        for message in batch:
            found[message.priority, message.queue].append(message)
        consumer.commit(batch)
    return found


def check_copy(directory: Path, load: Load, before: dict[str, int]) -> None:
    """Everything confirmed before the backup is there; each group goes on in the right place."""
    restored = brokers.start(directory)
    try:
        with topics.open(f"headrace://guest:guest@127.0.0.1:{restored.native_port}/") as store:
            for name in TOPICS:
                whole = read_all(store.consumer(name, token="alone"))
                numbers = {number_of(one) for part in whole.values() for one in part}
                assert numbers >= set(range(before[name]))
                for group in [group for topic, group in GROUPS if topic == name]:
                    check_group(store, load, name, group, whole)
    finally:
        restored.stop()


def check_group(
    store: topics.Store, load: Load, name: str, group: str, whole: dict[Place, list[topics.Message]]
) -> None:
    consumer = store.consumer(name, token="other", group=group)
    lag = sum(one.messages for one in consumer.lag().values())
    left = read_all(consumer)
    assert lag == sum(map(len, left.values()))
    for place, messages in whole.items():
        known = [one.id for one in messages]
        unread = [one.id for one in left.get(place, ()) if number_of(one) >= 0]
        assert unread == known[len(known) - len(unread) :], place  # all behind one position
        done = messages[: len(known) - len(unread)]
        assert {number_of(one) for one in done} <= load.committed[name, group], place
    later = range(-60, 0)
    store.producer(name, token="later").append_many(
        topics.NewMessage(f"{number} later", priority=PRIORITIES[number % 3]) for number in later
    )
    fresh = [number_of(one) for part in read_all(consumer).values() for one in part]
    assert sorted(fresh) == list(later)


def back_up_by_command(data: Path, copy: Path, load: Load) -> None:
    headrace("backup", data, copy)


def back_up_slowly(data: Path, copy: Path, load: Load) -> None:
    """Between the log and the metadata the load goes on for a while."""

    def pause(done: int, total: int) -> None:
        if done == total:
            load.go_on()

    backup(data, copy, pause)


def back_up_and_check(directory: Path, back_up: Callable[[Path, Path, Load], None]) -> None:
    directory.mkdir()
    broker = brokers.start(directory)
    try:
        load = Load(f"headrace://guest:guest@127.0.0.1:{broker.native_port}/")
        load.prepare()
        with load.running():
            before = dict(load.confirmed)
            back_up(directory / "data", directory / "copy", load)
    finally:
        broker.stop()
    (directory / "restored").mkdir()
    headrace("restore", directory / "copy", directory / "restored" / "data")
    check_copy(directory / "restored", load, before)


@pytest.mark.parametrize("back_up", [back_up_slowly, back_up_by_command])
def test_groups_skip_nothing_after_a_restore(
    tmp_path: Path, back_up: Callable[[Path, Path, Load], None]
) -> None:
    back_up_and_check(tmp_path / "broker", back_up)


@pytest.mark.chaos
@pytest.mark.timeout(1200)
def test_groups_skip_nothing_after_twenty_restores(tmp_path: Path) -> None:
    for number in range(20):
        directory = tmp_path / str(number)
        back_up_and_check(directory, back_up_by_command)
        shutil.rmtree(directory)
