"""Offset stores: nothing that was not stored is forgotten, and files survive accidents."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.rocketmq import (
    LocalOffsetStore,
    MessageQueue,
    OffsetEntry,
    OffsetFileError,
    OffsetStoreError,
    ReadOffsetType,
    RemoteOffsetStore,
)
from headrace.rocketmq.errors import RequestTimeoutError
from headrace.rocketmq.offsets.local import dump, parse

Q0, Q1, Q2 = (MessageQueue("T", "broker-a", number) for number in range(3))
MEMORY, STORE = ReadOffsetType.READ_FROM_MEMORY, ReadOffsetType.READ_FROM_STORE


class Brokers:
    """A gateway that remembers, refuses and fails as it is told."""

    def __init__(self) -> None:
        self.offsets: dict[MessageQueue, int] = {}
        self.batches: list[list[MessageQueue]] = []
        self.failures = 0
        self.refused: set[MessageQueue] = set()

    def _maybe_fail(self) -> None:
        if self.failures:
            self.failures -= 1
            raise RequestTimeoutError("no answer")

    def query_offset(self, queue: MessageQueue) -> int:
        self._maybe_fail()
        return self.offsets.get(queue, -1)

    def commit_offsets(self, entries: Sequence[OffsetEntry]) -> list[OffsetEntry]:
        self.batches.append([entry.queue for entry in entries])
        self._maybe_fail()
        stored = [entry for entry in entries if entry.queue not in self.refused]
        self.offsets |= {entry.queue: entry.offset for entry in stored}
        return stored


# -- remote --------------------------------------------------------------------------------------


def test_remote_offsets_are_cached_until_persisted() -> None:
    brokers = Brokers()
    store = RemoteOffsetStore(brokers)
    store.load()
    store.update_offset(Q0, 5)
    assert store.read_offset(Q0, MEMORY) == 5
    assert store.read_offset(Q0, STORE) == -1
    store.persist(Q0)
    assert brokers.offsets == {Q0: 5}
    assert store.read_offset(Q0, STORE) == 5
    store.persist(Q0)
    store.persist_all()
    assert brokers.batches == [[Q0]]


def test_remote_commits_come_in_batches() -> None:
    brokers = Brokers()
    store = RemoteOffsetStore(brokers, persist_batch_size=2)
    for queue in (Q0, Q1, Q2):
        store.update_offset(queue, 1)
    store.persist_all()
    assert brokers.batches == [[Q0, Q1], [Q2]]


def test_remote_reads_memory_first() -> None:
    brokers = Brokers()
    brokers.offsets = {Q0: 3, Q1: 4}
    store = RemoteOffsetStore(brokers)
    store.update_offset(Q0, 9)
    assert store.read_offset(Q0) == 9
    assert store.read_offset(Q1, MEMORY) == -1
    assert store.read_offset(Q1) == 4
    assert store.read_offset(Q1, MEMORY) == 4
    assert store.read_offset(Q0, STORE) == 3
    assert store.read_offset(Q0, MEMORY) == 9, "what is not stored yet is newer"
    assert store.read_offset(Q2) == -1


def test_remote_offsets_may_be_kept_from_going_back() -> None:
    store = RemoteOffsetStore(Brokers())
    store.update_offset(Q0, 9)
    store.update_offset(Q0, 4, increase_only=True)
    assert store.read_offset(Q0) == 9
    store.update_offset(Q0, 4)
    assert store.read_offset(Q0) == 4


def test_the_remote_offset_store_retries_and_then_raises_an_error() -> None:
    brokers = Brokers()
    store = RemoteOffsetStore(brokers, max_retry_times=2)
    store.update_offset(Q0, 1)
    brokers.failures = 2
    store.persist_all()
    assert brokers.offsets == {Q0: 1}
    store.update_offset(Q0, 2)
    brokers.failures = 3
    with pytest.raises(OffsetStoreError, match="tried again"):
        store.persist_all()
    store.persist_all()
    assert brokers.offsets == {Q0: 2}
    brokers.failures = 3
    with pytest.raises(OffsetStoreError):
        store.read_offset(Q1)


def test_one_broker_that_refuses_does_not_stop_the_others() -> None:
    brokers = Brokers()
    brokers.refused = {Q0}
    store = RemoteOffsetStore(brokers, persist_batch_size=1, max_retry_times=0)
    for queue in (Q0, Q1):
        store.update_offset(queue, 7)
    with pytest.raises(OffsetStoreError, match="T@broker-a:0"):
        store.persist_all()
    assert brokers.offsets == {Q1: 7}


def test_the_cache_never_forgets_what_is_not_stored() -> None:
    brokers = Brokers()
    store = RemoteOffsetStore(brokers, max_cache_size=2)
    queues = [MessageQueue("T", "b", number) for number in range(10)]
    for queue in queues:
        store.update_offset(queue, 1)
    assert all(store.read_offset(queue, MEMORY) == 1 for queue in queues)
    store.persist_all()
    assert len(store.entries()) == 2
    assert all(store.read_offset(queue) == 1 for queue in queues)


def test_an_offset_that_moves_while_it_is_stored_is_stored_again() -> None:
    brokers = Brokers()
    store = RemoteOffsetStore(brokers)
    store.update_offset(Q0, 1)
    commit = brokers.commit_offsets

    def slow(entries: Sequence[OffsetEntry]) -> list[OffsetEntry]:
        store.update_offset(Q0, 2)
        return commit(entries)

    brokers.commit_offsets = slow  # type: ignore[method-assign]
    store.persist_all()
    brokers.commit_offsets = commit  # type: ignore[method-assign]
    store.persist_all()
    assert brokers.offsets == {Q0: 2}


def test_negative_offsets_are_refused() -> None:
    with pytest.raises(OffsetStoreError):
        RemoteOffsetStore(Brokers()).update_offset(Q0, -1)


# -- local ---------------------------------------------------------------------------------------


def local(directory: Path, **options: bool) -> LocalOffsetStore:
    store = LocalOffsetStore(directory, "group", "10.0.0.1@DEFAULT", **options)
    store.load()
    return store


def test_local_offsets_survive_a_restart(tmp_path: Path) -> None:
    store = local(tmp_path)
    store.update_offset(Q0, 5)
    store.update_offset(Q1, 6)
    store.persist_all()
    again = local(tmp_path)
    assert [again.read_offset(queue) for queue in (Q0, Q1, Q2)] == [5, 6, -1]
    assert again.path == tmp_path / "10.0.0.1@DEFAULT" / "group" / "offsets.json"


def test_persisting_one_queue_keeps_the_others(tmp_path: Path) -> None:
    store = local(tmp_path)
    store.update_offset(Q0, 5)
    store.persist_all()
    store.update_offset(Q0, 7)
    store.update_offset(Q1, 6)
    store.persist(Q1)
    again = local(tmp_path)
    assert (again.read_offset(Q0), again.read_offset(Q1)) == (5, 6)
    assert store.read_offset(Q0, STORE) == 5


def test_no_temporary_file_is_left(tmp_path: Path) -> None:
    store = local(tmp_path)
    for offset in range(3):
        store.update_offset(Q0, offset)
        store.persist_all()
    assert sorted(os.listdir(store.path.parent)) == ["offsets.json", "offsets.json.bak"]


def damaged(tmp_path: Path, damage: bytes) -> LocalOffsetStore:
    store = local(tmp_path)
    for offset in (5, 6):
        store.update_offset(Q0, offset)
        store.persist_all()
    store.path.write_bytes(damage)
    return store


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\x00", b'{"offsets":[{"topic":1}]}', b"junk"])
def test_a_damaged_file_is_recovered_from_the_backup(
    tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    damaged(tmp_path, damage)
    assert local(tmp_path).read_offset(Q0) == 5
    assert "offsets.json.bak" in caplog.text


def test_a_damaged_file_is_an_error_when_recovery_is_off(tmp_path: Path) -> None:
    damaged(tmp_path, b"{")
    with pytest.raises(OffsetFileError, match="enable_auto_recovery"):
        local(tmp_path, enable_auto_recovery=False)


def test_a_missing_file_is_replaced_by_the_backup(tmp_path: Path) -> None:
    damaged(tmp_path, b"{").path.unlink()
    assert local(tmp_path).read_offset(Q0) == 5


def test_two_damaged_files_are_an_error(tmp_path: Path) -> None:
    damaged(tmp_path, b"{").backup.write_bytes(b"{")
    with pytest.raises(OffsetFileError, match="remove both"):
        local(tmp_path)


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = LocalOffsetStore(tmp_path / "file", "group")
    store.update_offset(Q0, 1)
    with pytest.raises(OffsetStoreError, match="kept in memory"):
        store.persist_all()
    assert store.read_offset(Q0, MEMORY) == 1


def test_names_cannot_leave_the_directory(tmp_path: Path) -> None:
    store = LocalOffsetStore(tmp_path, "../../g", "..")
    store.update_offset(Q0, 1)
    store.persist_all()
    assert tmp_path in store.path.resolve().parents


JAVA = """{
	"offsetTable":{{
			"brokerName":"broker-a",
			"queueId":0,
			"topic":"T"
		}:12,{
			"brokerName":"broker-a",
			"queueId":1,
			"topic":"T"
		}:7
	}
}"""
GO = json.dumps(
    {"offsetTable": {json.dumps({"topic": "T", "brokerName": "broker-a", "queueId": 0}): 12}}
)
LINES = "T@broker-a:0=12\nodd@name@broker-a:1=7\n"


@pytest.mark.parametrize("text", [JAVA, GO, LINES], ids=["java", "go", "lines"])
def test_files_of_others_can_be_imported(tmp_path: Path, text: str) -> None:
    (tmp_path / "foreign").write_text(text)
    store = local(tmp_path)
    assert store.import_file(tmp_path / "foreign") >= 1
    store.persist_all()
    assert local(tmp_path).read_offset(Q0) == 12


def test_importing_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OffsetStoreError, match="does not exist"):
        local(tmp_path).import_file(tmp_path / "nothing")


TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
ENTRIES = st.builds(
    OffsetEntry,
    st.builds(MessageQueue, TEXTS, TEXTS, st.integers(0, 1 << 31)),
    st.integers(0, 1 << 62),
    st.integers(0, 1 << 62),
)


@given(st.lists(ENTRIES, unique_by=lambda one: one.queue))
def test_files_round_trip(entries: list[OffsetEntry]) -> None:
    assert parse(dump(entries)) == sorted(entries, key=lambda one: one.queue)


@given(st.binary(max_size=200))
def test_any_bytes_are_offsets_or_one_error(data: bytes) -> None:
    try:
        parse(data)
    except OffsetFileError:
        pass


def test_threads_persist_at_the_same_time(tmp_path: Path) -> None:
    store = local(tmp_path)
    queues = [MessageQueue("T", "b", number) for number in range(8)]

    def work(queue: MessageQueue) -> None:
        for offset in range(20):
            store.update_offset(queue, offset)
            store.persist(queue)

    threads = [Thread(target=work, args=(queue,)) for queue in queues]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    again = local(tmp_path)
    assert [again.read_offset(queue) for queue in queues] == [19] * 8
