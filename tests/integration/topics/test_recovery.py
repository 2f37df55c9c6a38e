"""Topics and their readers over restarts, crashes and kills."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from headrace.errors import ClaimLost, EngineUnavailable
from headrace.model.retention import Retention
from headrace.model.topics.message_priority import Priority
from headrace.store.tools.fsck import check
from headrace.store.topics.types import LATEST, ConsumerSpec, Entry, ReadResult, TopicSpec
from headrace.testing import RunningBroker, run_broker, wait_for
from support import brokers
from support.native_topics import NativeEngine

ANN, BOB, ALONE = ConsumerSpec("ann", "g"), ConsumerSpec("bob", "g"), ConsumerSpec("alone")


class Site:
    """A broker that can be restarted, and the SPI over its native port."""

    def __init__(self, broker: RunningBroker) -> None:
        self.broker = broker
        self.engine = self._connect()

    def _connect(self) -> NativeEngine:
        assert self.broker.native_port is not None
        return NativeEngine((self.broker.host, self.broker.native_port))

    def again(self, how: str) -> NativeEngine:
        """Stop it cleanly, or as kill -9 would, and start it again."""
        self.engine.close()
        if how == "crash":
            self.broker.crash()
            self.broker.start()
        else:
            self.broker.restart()
        self.engine = self._connect()
        return self.engine


@contextmanager
def running(path: Path, **config: object) -> Iterator[Site]:
    with run_broker(data_dir=path / "data", **config) as broker:
        site = Site(broker)
        try:
            yield site
        finally:
            site.engine.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with running(tmp_path) as site:
        site.engine.create(TopicSpec("t"))
        yield site


def bodies(taken: ReadResult) -> list[str]:
    return [message.body.decode() for message in taken.messages]


both = pytest.mark.parametrize("how", ["stop", "crash"])


@both
def test_everything_about_a_topic_is_there_again(site: Site, how: str) -> None:
    engine = site.engine
    engine.create(TopicSpec("wide", 4, Retention(86_400_000, 1 << 30)))
    engine.append("wide", [Entry(b"%d" % n, key=str(n)) for n in range(20)])
    engine.append("t", [Entry(priority.label.encode(), priority) for priority in Priority])
    before = engine.topics()

    engine = site.again(how)

    assert engine.topics() == before
    assert bodies(engine.read("t", ALONE, 10)) == ["high", "middle", "low"]
    assert len(engine.read("wide", ALONE, 100).messages) == 20
    ids = engine.append("t", [Entry(b"next")])
    assert ids == [2]


@both
def test_readers_go_on_where_they_committed(site: Site, how: str) -> None:
    engine = site.engine
    engine.append("t", [Entry(b"%d" % n) for n in range(10)])
    engine.commit("t", ANN, engine.read("t", ANN, 4).claim)
    engine.commit("t", ALONE, engine.read("t", ALONE, 7).claim)

    engine = site.again(how)

    assert bodies(engine.read("t", ANN, 100)) == ["4", "5", "6", "7", "8", "9"]
    assert bodies(engine.read("t", ALONE, 100)) == ["7", "8", "9"]
    assert engine.groups("t")[0].group == "g"


@both
def test_what_was_handed_out_comes_again_and_old_claims_are_refused(site: Site, how: str) -> None:
    engine = site.engine
    engine.append("t", [Entry(b"%d" % n) for n in range(6)])
    first = engine.read("t", ANN, 2)
    second = engine.read("t", BOB, 2)
    engine.commit("t", BOB, second.claim)  # a hole before it

    engine = site.again(how)

    with pytest.raises(ClaimLost):
        engine.commit("t", ANN, first.claim)
    again = engine.read("t", BOB, 100)
    assert bodies(again) == ["0", "1", "4", "5"]
    assert [one.attempts for one in again.messages[:2]] == [2, 2]
    engine.commit("t", BOB, again.claim)
    assert engine.read("t", ANN, 100) == ReadResult()


@both
def test_retries_and_dead_messages_are_kept(site: Site, how: str) -> None:
    engine = site.engine
    ids = engine.append("t", [Entry(b"%d" % n) for n in range(3)])
    taken = engine.read("t", ANN, 3)
    engine.nack("t", ANN, taken.claim, [(Priority.MIDDLE, ids[0])], 3_600_000, "later")
    engine.nack("t", ANN, taken.claim, [(Priority.MIDDLE, ids[1])], 0, "soon")
    once = ConsumerSpec("ann", "g", max_attempts=1)
    engine.nack("t", once, taken.claim, [(Priority.MIDDLE, ids[2])], 0, "never")
    engine.commit("t", ANN, taken.claim)

    engine = site.again(how)

    assert bodies(engine.read("t", BOB, 100)) == ["1"]
    ((dead, reason),) = engine.dead("t", "g")
    assert (dead.body, reason) == (b"2", "never")
    lag = {one.priority: one for one in engine.lag("t", ANN)}[Priority.MIDDLE]
    assert (lag.retrying, lag.dead) == (2, 1)


def test_a_message_that_was_not_due_before_a_crash_is_not_counted_as_tried(site: Site) -> None:
    """It would be dead without its second try."""
    twice = ConsumerSpec("ann", "g", max_attempts=2)
    site.engine.append("t", [Entry(b"a")])
    taken = site.engine.read("t", twice, 1)
    site.engine.nack("t", twice, taken.claim, [(Priority.MIDDLE, 1)], 3000)
    site.engine.commit("t", twice, taken.claim)

    engine = site.again("crash")

    again = wait_for(lambda: engine.read("t", twice, 1).messages, timeout=15)
    assert again and again[0].attempts == 2


def test_a_nack_without_its_commit_loses_nothing(site: Site) -> None:
    engine = site.engine
    ids = engine.append("t", [Entry(b"%d" % n) for n in range(3)])
    taken = engine.read("t", ANN, 3)
    engine.nack("t", ANN, taken.claim, [(Priority.MIDDLE, ids[1])], 0)

    engine = site.again("crash")

    assert sorted(bodies(engine.read("t", BOB, 100))) == ["0", "1", "2"]


@both
def test_a_reader_that_began_at_the_end_does_not_skip_after_a_restart(site: Site, how: str) -> None:
    late, group = ConsumerSpec("late", start=LATEST), ConsumerSpec("late", "late", start=LATEST)
    for reader in (late, group):
        assert site.engine.read("t", reader, 1) == ReadResult()
    site.engine.append("t", [Entry(b"new")])

    engine = site.again(how)

    for reader in (late, group):
        assert bodies(engine.read("t", reader, 10)) == ["new"]


@both
def test_a_single_reader_can_commit_after_a_restart_unless_it_sought(site: Site, how: str) -> None:
    engine = site.engine
    engine.append("t", [Entry(b"%d" % n) for n in range(3)])
    kept = engine.read("t", ALONE, 2)
    other = ConsumerSpec("other")
    void = engine.read("t", other, 2)
    engine.seek("t", other, positions={Priority.MIDDLE: 0})

    engine = site.again(how)

    engine.commit("t", ALONE, kept.claim)
    assert bodies(engine.read("t", ALONE, 10)) == ["2"]
    with pytest.raises(ClaimLost):
        engine.commit("t", other, void.claim)


@both
def test_what_was_deleted_does_not_come_back(site: Site, how: str) -> None:
    engine = site.engine
    engine.append("t", [Entry(b"old")])
    engine.commit("t", ANN, engine.read("t", ANN, 1).claim)
    engine.delete("t")
    engine.create(TopicSpec("t"))

    engine = site.again(how)

    assert engine.read("t", ANN, 10) == ReadResult()
    assert engine.append("t", [Entry(b"new")]) == [1]
    assert bodies(engine.read("t", ANN, 10)) == ["new"]


def test_what_retention_removed_stays_away_and_its_space_comes_back(tmp_path: Path) -> None:
    with running(tmp_path, segment_size="64KiB") as site:
        engine = site.engine
        engine.create(TopicSpec("small", retention=Retention(size=100_000)))
        engine.create(TopicSpec("kept"))
        for number in range(60):
            engine.append("small", [Entry(b"%d" % number + bytes(10_000))])
            engine.append("kept", [Entry(b"%d" % number)])
        journal = tmp_path / "data" / "journal"

        def is_small() -> bool:
            try:
                return sum(file.stat().st_blocks * 512 for file in journal.glob("*.log")) < 400_000
            except FileNotFoundError:
                return False  # deleted between the list and the look

        wait_for(is_small, timeout=30)
        first = engine.describe("small").parts[0].first
        assert first > 40

        engine = site.again("crash")

        part = engine.describe("small").parts[0]
        assert part.first >= first
        assert part.end == 61
        kept = engine.read("kept", ALONE, 100)
        assert bodies(kept) == [str(number) for number in range(60)]
        numbers = [one.id for one in engine.read("small", ALONE, 100).messages]
        assert numbers == list(range(part.first, 61))


def test_a_check_of_the_files_knows_topics(tmp_path: Path) -> None:
    with running(tmp_path) as site:
        site.engine.create(TopicSpec("t", 2))
        site.engine.append("t", [Entry(b"%d" % n, list(Priority)[n % 3]) for n in range(30)])

    findings = check(tmp_path / "data")

    assert findings.is_sound
    assert not findings.orphans


# -- a real process -------------------------------------------------------------------------------


class Load:
    """Producers and members of a group that go on over crashes, and what they know."""

    def __init__(self, address: Callable[[], tuple[str, int]]) -> None:
        self._address = address
        self.stop = Event()
        self.confirmed: set[bytes] = set()
        self.sent: set[bytes] = set()
        self.committed: list[tuple[Priority, int, bytes]] = []
        self.errors: list[BaseException] = []

    def produce(self, number: int) -> None:
        count = 0
        while not self.stop.is_set():
            batch = [f"{number}-{count}-{each}".encode() for each in range(3)]
            count += 1
            priorities = list(Priority)
            entries = [Entry(body, priorities[count % 3]) for body in batch]
            self.sent.update(batch)
            if self._try(lambda engine, e=entries: engine.append("t", e)):  # type: ignore[misc]
                self.confirmed.update(batch)

    def consume(self, number: int) -> None:
        reader = ConsumerSpec(f"member-{number}", "g", lease_ms=500)

        def step(engine: NativeEngine) -> None:
            taken = engine.read("t", reader, 20)
            if taken.claim:
                engine.commit("t", reader, taken.claim)
                self.committed += [(one.priority, one.id, one.body) for one in taken.messages]

        while not self.stop.is_set():
            self._try(step)

    def _try(self, action: Callable[[NativeEngine], object]) -> bool:
        engine = None
        try:
            engine = NativeEngine(self._address())
            action(engine)
            return True
        except (OSError, ClaimLost, EngineUnavailable):
            return False
        except BaseException as error:
            self.errors.append(error)
            return False
        finally:
            if engine is not None:
                engine.close()


@pytest.mark.parametrize("rounds", [3, pytest.param(25, marks=pytest.mark.chaos)])
@pytest.mark.timeout(300)
def test_kill_9_under_load_loses_nothing_and_commits_nothing_twice(
    tmp_path: Path, rounds: int
) -> None:
    broker = brokers.start(tmp_path)
    with_topic = NativeEngine((broker.host, broker.native_port))
    with_topic.create(TopicSpec("t", 2))
    with_topic.close()
    load = Load(lambda: (broker.host, broker.native_port))
    threads = [Thread(target=load.produce, args=(n,), daemon=True) for n in range(3)]
    threads += [Thread(target=load.consume, args=(n,), daemon=True) for n in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(rounds):
        before = len(load.confirmed)
        wait_for(lambda b=before: len(load.confirmed) > b + 150, timeout=30)  # type: ignore[misc]
        broker.kill()
        broker = brokers.start(tmp_path)
    wait_for(lambda: len(load.committed) > 300, timeout=30)
    load.stop.set()
    for thread in threads:
        thread.join(30)

    assert load.errors == []
    engine = NativeEngine((broker.host, broker.native_port))
    deadline = time.monotonic() + 30
    last = ConsumerSpec("last", "g", lease_ms=60_000)
    while any(lag.messages for lag in engine.lag("t", last)):
        assert time.monotonic() < deadline
        taken = engine.read("t", last, 100)
        if taken.claim:
            engine.commit("t", last, taken.claim)
            load.committed += [(one.priority, one.id, one.body) for one in taken.messages]
    everything: list[bytes] = []
    while taken := _next(engine):
        everything += [one.body for one in taken.messages]
    engine.close()
    broker.stop()

    assert load.confirmed <= set(everything)
    assert set(everything) <= load.sent
    places = [(priority, number) for priority, number, _ in load.committed]
    assert len(places) == len(set(places)), "committed twice"
    # A commit whose answer the crash cut off was done without our knowing.
    assert {body for _, _, body in load.committed} <= set(everything)


def _next(engine: NativeEngine) -> ReadResult | None:
    taken = engine.read("t", ALONE, 1000)
    if not taken.claim:
        return None
    engine.commit("t", ALONE, taken.claim)
    return taken
