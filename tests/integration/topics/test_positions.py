"""Positions of readers and the log agree, after a backup of a running broker and after losses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.store.backup import backup, restore
from headrace.store.fsck import check
from headrace.store.repair import repair
from headrace.store.topics import Entry, Reader, TopicSpec
from headrace.testing import run_broker
from nativetopics import NativeEngine

ANN, BEA = Reader("ann", "g"), Reader("bea", "h")


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


def drained(engine: NativeEngine, reader: Reader = ANN, topic: str = "t") -> list[str]:
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
            """The journal is copied, the declarations are not."""
            if done == total:
                append(engine, *"cdefg")
                drained(engine)
                engine.create(TopicSpec("new"))
                append(engine, "1", "2", topic="new")
                drained(engine, BEA, "new")

        backup(data, copy, meanwhile)
    restore(copy, again)

    with engine_of(again) as engine:
        append(engine, "x", "y")
        append(engine, "3", topic="new")
        assert drained(engine) == ["x", "y"]
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
