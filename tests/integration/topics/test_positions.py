"""Positions of readers and the log agree, after a backup of a running broker and after losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from headrace.bulk.client import BulkConnection
from headrace.client.errors import HeadraceError
from headrace.client.settings import Settings
from headrace.store.tools.backup import backup, restore
from headrace.store.tools.fsck import check
from headrace.store.tools.repair import repair
from headrace.store.topics.types import ConsumerSpec, Entry, TopicSpec
from headrace.testing import run_broker
from headrace.wire.native.payloads import Op
from support.native_topics import NativeEngine

ANN, BEA = ConsumerSpec("ann", "g"), ConsumerSpec("bea", "h")


@contextmanager
def engine_of(path: Path) -> Iterator[NativeEngine]:
    """The SPI over the native port of a broker on that data directory."""
    with run_broker(data_dir=path) as broker:
        assert broker.native_port is not None
        engine = NativeEngine((broker.host, broker.native_port))
        try:
            yield engine
        finally:
            engine.close()


def append(engine: NativeEngine, *bodies: str, topic: str = "t") -> None:
    engine.append(topic, [Entry(body.encode()) for body in bodies])


def drained(engine: NativeEngine, reader: ConsumerSpec = ANN, topic: str = "t") -> list[str]:
    """Everything that the reader has not had yet, committed."""
    bodies: list[str] = []
    while (taken := engine.read(topic, reader, 100)).messages:
        bodies += [message.body.decode() for message in taken.messages]
        engine.commit(topic, reader, taken.claim)
    return bodies


def test_a_group_in_a_backup_reads_all_that_comes_after_the_restore(tmp_path: Path) -> None:
    data, copy, again = tmp_path / "data", tmp_path / "copy", tmp_path / "again"
    with engine_of(data) as engine:
        engine.create(TopicSpec("t"))
        append(engine, "a", "b")
        assert drained(engine) == ["a", "b"]

        def meanwhile(done: int, total: int) -> None:
            """The log is copied, the declarations are not."""
            if done == total:
                append(engine, *"cdefg")
                drained(engine)
                drained(engine, BEA)
                engine.create(TopicSpec("new"))
                append(engine, "1", "2", topic="new")
                drained(engine, BEA, "new")

        backup(data, copy, meanwhile)
    restore(copy, again)

    with engine_of(again) as engine:
        append(engine, "x", "y")
        append(engine, "3", topic="new")
        assert drained(engine) == ["x", "y"]
        assert drained(engine, BEA) == ["x", "y"]
        assert drained(engine, BEA, "new") == ["3"]


@pytest.mark.parametrize("fault", ["gone", "damaged"])
def test_groups_skip_nothing_after_the_checkpoint_is_lost(
    tmp_path: Path, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As after retention has removed every segment: only the checkpoint knew the offsets."""
    data = tmp_path / "data"
    with engine_of(data) as engine:
        engine.create(TopicSpec("t"))
        append(engine, *"abcde")
        assert drained(engine) == [*"abcde"]
    lose(data, fault)
    assert [place.what for place in check(data).places if place.file == "meta.db"] == [
        "'topic.t/middle.0' in vhost '/': the log ends at offset 0, group 'g' is at 5: "
        "messages 0 to 4 are missing"
    ]

    with engine_of(data) as engine:
        append(engine, "x")
        assert drained(engine) == ["x"]

    assert "group 'g' is at 5" in caplog.text
    assert check(data).is_sound


def test_a_repair_lets_the_log_go_on_behind_the_groups(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with engine_of(data) as engine:
        engine.create(TopicSpec("t"))
        append(engine, *"abcde")
        assert drained(engine) == [*"abcde"]
    lose(data, "gone")
    assert not check(data).is_sound

    repair(data, check(data))

    assert check(data).is_sound


def lose(data: Path, fault: str) -> None:
    """The segments are gone, and so is the checkpoint, or it is damaged."""
    for file in (data / "journal").iterdir():
        if file.name.startswith("checkpoint") and fault == "damaged":
            file.write_bytes(file.read_bytes()[:-1] + b"?")
        else:
            file.unlink()


# -- epochs ----------------------------------------------------------------------------------------


@contextmanager
def bulk_of(path: Path) -> Iterator[tuple[NativeEngine, BulkConnection]]:
    with run_broker(data_dir=path) as broker:
        assert broker.native_port is not None
        engine = NativeEngine((broker.host, broker.native_port))
        with BulkConnection(Settings(port=broker.native_port)) as bulk:
            yield engine, bulk
        engine.close()


def epochs_of(bulk: BulkConnection) -> list[tuple[int, int]]:
    [found] = bulk.sources([{"topic": "t"}])
    return [*found.epochs[0]]


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(HeadraceError) as caught:
        call()
    return str(caught.value.code)


def test_a_reader_that_has_seen_more_than_a_restored_backup_gets_data_lost(tmp_path: Path) -> None:
    data, copy, again, third = (tmp_path / name for name in ("data", "copy", "again", "third"))
    with bulk_of(data) as (engine, bulk):
        engine.create(TopicSpec("t"))
        append(engine, "a", "b")
        backup(data, copy)
        append(engine, *"cde")  # a reader outside has them, the backup does not
        assert epochs_of(bulk) == []
        uuid = bulk.sources([{"topic": "t"}])[0].uuid
    restore(copy, again)

    with bulk_of(again) as (engine, bulk):
        [(epoch, first)] = epochs_of(bulk)
        assert (epoch > 0, first) == (True, 2)
        pin = partial(bulk.pin, "q", "topic", {"t": (uuid, {0: 5})}, 1 << 20)
        assert code_of(pin) == "data_lost"  # the log ends before it
        assert code_of(lambda: [*bulk.fetch(5, 6, topic="t")]) == "data_lost"
        append(engine, *"uvwxyz")  # now it does not
        assert code_of(lambda: [*bulk.fetch(2, 5, topic="t", epoch=0)]) == "data_lost"
        assert code_of(partial(pin, {"t": {0: 0}})) == "data_lost"
        assert [*bulk.fetch(0, 2, topic="t", epoch=0)]
        assert [*bulk.fetch(2, 5, topic="t", epoch=epoch)]
        pin({"t": {0: epoch}})
        assert bulk.call(Op.TOPIC_DESCRIBE, name="t")["epoch"] == epoch
        seek = partial(bulk.call, Op.SEEK, topic="t", token="alone", positions={"middle": 5})
        assert code_of(partial(seek, epoch=0)) == "data_lost"
        seek(epoch=epoch)

    with bulk_of(again) as (engine, bulk):
        assert epochs_of(bulk) == [(epoch, 2)]  # a restart is no loss
    restore(copy, third)
    with bulk_of(third) as (engine, bulk):
        append(engine, *"uvwxyz")
        [(other, first)] = epochs_of(bulk)
        assert (other > epoch, first) == (True, 2)
        assert code_of(lambda: [*bulk.fetch(2, 5, topic="t", epoch=epoch)]) == "data_lost"


def test_a_recovery_that_lost_messages_begins_an_epoch(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with bulk_of(data) as (engine, bulk):
        engine.create(TopicSpec("t"))
        append(engine, *"abcde")
        assert drained(engine) == [*"abcde"]
    lose(data, "gone")

    with bulk_of(data) as (engine, bulk):
        append(engine, "x")
        [(_, first)] = epochs_of(bulk)
        assert first == 5
        assert code_of(lambda: [*bulk.fetch(2, 6, topic="t", complete=True)]) == "data_lost"
