"""Damage is named, costs only what it touches, and is told from what a crash left unfinished."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

import pytest

from headrace.store.api.message_log import DurabilityLevel
from headrace.store.log.segment import index_name, segment_name
from support.faulty_disk import ForgetfulDisk, ForgetfulFile
from support.storage.log_stage import LogStage


class BadDisk(ForgetfulDisk):
    """A disk with sectors that cannot be read."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: list[tuple[str, int]] = []  # name, byte

    def open(self, name: str) -> ForgetfulFile:
        return BadFile(self, name, super().open(name)._inode)

    def create(self, name: str, size: int = 0) -> ForgetfulFile:
        return BadFile(self, name, super().create(name, size)._inode)


class BadFile(ForgetfulFile):
    def read(self, size: int, offset: int) -> bytes:
        assert isinstance(self._disk, BadDisk)
        for name, at in self._disk.bad:
            if name == self._name and offset <= at < offset + size:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().read(size, offset)


@pytest.fixture
def disk() -> BadDisk:
    return BadDisk()


@pytest.fixture
def stage(disk: BadDisk) -> Iterator[LogStage]:
    stage = LogStage(disk, segment_size=4096)
    yield stage
    stage.log.close()


def fill(stage: LogStage, count: int = 12) -> dict[int, bytes]:
    """Three messages to a segment. The last one is followed by nothing but a crash."""
    for number in range(count):
        stage.put(b"%02d" % number * 500)
        stage.commit()
    return {number: b"%02d" % number * 500 for number in range(count)}


def without(alive: dict[int, bytes], *gone: int) -> dict[int, bytes]:
    return {number: content for number, content in alive.items() if number not in gone}


again = pytest.mark.parametrize("again", ["crash", "restart"])


def reopened(stage: LogStage, again: str) -> None:
    if again == "restart":
        stage.log.close()
    stage.open()


# -- segments that are gone ----------------------------------------------------------------------


@again
@pytest.mark.parametrize("has_index", [True, False])
@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_a_missing_segment_is_named_and_the_rest_is_served(
    stage: LogStage, disk: BadDisk, place: int, has_index: bool, again: str
) -> None:
    alive = fill(stage)
    base = [*stage.log.segments][place].base
    if again == "restart":
        stage.log.close()
    disk.remove(segment_name(base))
    if not has_index and index_name(base) in disk.names():
        disk.remove(index_name(base))

    report = stage.open().report

    lost = range(place * 3, place * 3 + 3)
    # What came after the checkpoint that follows the first commit of a segment is known to nothing.
    known = range(9, 10) if place == 3 and again == "crash" else lost
    assert stage.held() == without(alive, *lost)
    assert report.lost == [(1, known.start, known.stop)]
    assert [f"{base:020d}" in text and "missing" in text for text in report.damage] == [True]
    assert stage.log.reads.next_offset(1) == (known.stop if known != lost else 12)
    assert not stage.crash().report.damage  # reported once; it is not expected any more


@again
@pytest.mark.parametrize("has_index", [True, False])
def test_a_segment_cut_short_is_named(
    stage: LogStage, disk: BadDisk, has_index: bool, again: str
) -> None:
    alive = fill(stage)
    base = [*stage.log.segments][1].base
    if again == "restart":
        stage.log.close()
    data = disk.contents(segment_name(base))
    del data[1500:]
    if not has_index:
        disk.remove(index_name(base))

    report = stage.open().report

    assert stage.held() == without(alive, 4, 5)
    assert report.lost == [(1, 4, 6)]
    assert stage.held() == without(alive, 4, 5)
    assert f"{base:020d}" in report.damage[0]


@again
def test_a_misnamed_segment_is_reported_and_left_alone(
    stage: LogStage, disk: BadDisk, again: str
) -> None:
    alive = fill(stage)
    base = [*stage.log.segments][1].base
    if again == "restart":
        stage.log.close()
    content = bytes(disk.contents(segment_name(base)))
    disk.rename(segment_name(base), segment_name(base + 8))

    report = stage.open().report

    assert stage.held() == without(alive, 3, 4, 5)
    assert len(report.damage) == 2
    assert bytes(disk.contents(segment_name(base + 8))).rstrip(b"\0") == content.rstrip(b"\0")
    stage.put(b"next")
    for _ in range(3):
        stage.checkpoint()
    assert segment_name(base + 8) in disk.names()


# -- damaged or unfinished -----------------------------------------------------------------------


def spoil(disk: BadDisk, content: bytes) -> None:
    for name in disk.names():
        data = disk.contents(name)
        if name.endswith(".log") and content in data:
            data[data.index(content)] ^= 1
            return
    raise AssertionError(f"{content!r} is not there")


@pytest.mark.parametrize("number", [0, 499, 999])
def test_a_flipped_bit_in_the_last_record_costs_one_message(number: int) -> None:
    disk = BadDisk()
    stage = LogStage(disk, segment_size=1 << 20)
    stage.put(b"first")
    stage.commit()
    contents = [b"message %03d" % number * 9 for number in range(1000)]
    stage.put(*contents)
    stage.commit()
    spoil(disk, contents[number])

    report = stage.crash().report

    found = stage.held()
    assert sorted(set(range(1001)) - set(found)) == [number + 1]
    assert report.lost == [(1, number + 1, number + 2)]
    assert report.cut == []


def test_a_damaged_head_of_the_last_record_is_no_unfinished_write() -> None:
    disk = BadDisk()
    stage = LogStage(disk, segment_size=1 << 20)
    stage.put(b"first")
    stage.commit()
    start = next(iter(stage.log.segments)).used
    stage.put(*[b"x" * 100] * 50)
    stage.commit()
    disk.contents(segment_name(0))[start + 40] ^= 1

    report = stage.crash().report

    assert stage.held() == {0: b"first"}
    assert (len(report.damage), report.cut) == (1, [])


def zero(disk: BadDisk, content: bytes, head: int) -> None:
    """Overwrite a message, and so many bytes in front of it, with zeros."""
    data = disk.contents(segment_name(0))
    at = data.index(content)
    data[at - head : at + len(content)] = bytes(head + len(content))


def test_what_a_later_record_knows_to_be_synced_is_damaged_even_if_it_is_zeros(
    stage: LogStage, disk: BadDisk
) -> None:
    """Three commits of one segment: the third one says that the second was synced."""
    for content in (b"a" * 1000, b"b" * 1000, b"c" * 100):
        stage.put(content)
        stage.commit()
    zero(disk, b"b" * 1000, 0)

    report = stage.crash().report

    assert stage.held() == {0: b"a" * 1000, 2: b"c" * 100}
    assert report.cut == []
    assert stage.log.reader.damaged == 1


@pytest.mark.parametrize("witness", ["a later record", "a checkpoint"])
def test_a_synced_record_of_zeros_is_no_unfinished_write(
    stage: LogStage, disk: BadDisk, witness: str
) -> None:
    for content in (b"a" * 1000, b"b" * 1000):
        stage.put(content)
        stage.commit()
    if witness == "a later record":
        stage.put(b"c" * 100)
        stage.commit()
    else:
        stage.checkpoint()
    zero(disk, b"b" * 1000, 64)

    report = stage.crash().report

    assert 1 not in stage.held()
    assert (len(report.damage), report.cut) == (1, [])
    assert report.lost == [(1, 1, 2)]


def test_unfinished_writes_before_a_good_record_are_no_damage(disk: BadDisk) -> None:
    """Without a sync any sectors of the last writes may be missing, also of the first of them."""
    stage = LogStage(disk, segment_size=16384)
    stage.put(b"first")
    stage.commit()
    for content in (b"a" * 2000, b"b" * 600):
        stage.put(content, level=DurabilityLevel.OS)
        stage.commit()
    data = disk.contents(segment_name(0))
    at = data.index(b"a" * 2000)
    data[at : at + 1800] = bytes(1800)

    report = stage.crash().report

    assert stage.held() == {0: b"first", 2: b"b" * 600}
    assert (report.damage, len(report.cut)) == ([], 1)
    assert stage.log.reader.damaged == 0
    for name in [name for name in disk.names() if name.endswith(".idx")]:
        disk.remove(name)
    assert not stage.crash().report.damage  # nor is it later


# -- sectors that cannot be read -----------------------------------------------------------------


def bad_sector(disk: BadDisk, content: bytes) -> None:
    for name in disk.names():
        if name.endswith(".log") and content in disk.contents(name):
            disk.bad.append((name, disk.contents(name).index(content)))
            return
    raise AssertionError(f"{content!r} is not there")


@pytest.mark.parametrize("is_open", [True, False], ids=["while running", "after a crash"])
def test_an_unreadable_sector_costs_the_messages_that_it_touches(
    disk: BadDisk, is_open: bool, caplog: pytest.LogCaptureFixture
) -> None:
    stage = LogStage(disk, segment_size=1 << 20)
    contents = [bytes([number + 65]) * 8000 for number in range(20)]
    stage.put(*contents)
    stage.commit()
    stage.put(b"last")
    stage.commit()
    bad_sector(disk, contents[10])
    if not is_open:
        stage.crash()

    found = stage.held()

    missing = set(range(21)) - set(found)
    assert 10 in missing
    assert missing <= {9, 10, 11}
    assert stage.log.reader.damaged == len(missing)
    assert segment_name(0) in caplog.text


def test_an_unreadable_index_or_checkpoint_is_made_again(stage: LogStage, disk: BadDisk) -> None:
    alive = fill(stage)
    stage.log.close()
    disk.bad = [(name, 9) for name in disk.names() if name.endswith(".idx")]
    disk.bad.append(("checkpoint", 9))

    report = stage.open().report

    assert stage.held() == alive
    assert len(report.rebuilt) == 4
    assert any("checkpoint" in text for text in report.damage)


def test_a_checkpoint_that_ends_with_the_broker_leaves_no_missing_segment(
    stage: LogStage,
) -> None:
    stage.put(b"a" * 3000)
    stage.put(b"b" * 3000)
    stage.commit()
    stage.log.settle(1, [0])
    stage.checkpoint()  # finds the first segment dead
    stage.log.checkpoint()  # would remove it
    assert stage.writer.work()

    stage.log.close()
    assert stage.writer.call_back()  # the loop hears of the checkpoint after the end

    assert stage.open().report.damage == []
    assert stage.held() == {1: b"b" * 3000}
