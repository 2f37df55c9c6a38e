"""Recovery: derived files are made again, a torn tail is cut, and everything wrong is told."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from headrace.store.api.message_log import DurabilityLevel
from headrace.store.log.checkpoint_file import NAMES
from headrace.store.log.segment import segment_name
from support.faulty_disk import ForgetfulDisk
from support.storage.log_stage import EAGER, LogStage

DELIVERED = "a damaged message was delivered"


@pytest.fixture
def disk() -> ForgetfulDisk:
    return ForgetfulDisk()


@pytest.fixture
def stage(disk: ForgetfulDisk) -> LogStage:
    return LogStage(disk, segment_size=1024)


def fill(stage: LogStage, count: int = 10) -> dict[int, bytes]:
    """Several segments; every third message is settled. Returns what is alive."""
    for number in range(count):
        stage.put(b"%d" % number * 300)
        stage.commit()
    stage.log.settle(1, range(0, count, 3))
    stage.commit()
    return {number: b"%d" % number * 300 for number in range(count) if number % 3}


def spoil(data: bytearray) -> None:
    data[len(data) // 2] ^= 1


SPOILERS: dict[str, Callable[[bytearray], None]] = {
    "flipped": spoil,
    "cut": lambda data: data.__delitem__(slice(len(data) - 3, None)),
    "empty": bytearray.clear,
    "longer": lambda data: data.extend(b"more"),
}
spoilers = pytest.mark.parametrize("spoiler", SPOILERS.values(), ids=SPOILERS)


# -- derived files ------------------------------------------------------------------------------


@spoilers
def test_damaged_indexes_are_made_again(
    stage: LogStage, disk: ForgetfulDisk, spoiler: Callable[[bytearray], None]
) -> None:
    alive = fill(stage)
    stage.log.close()
    indexes = [name for name in disk.names() if name.endswith(".idx")]
    for name in indexes:
        spoiler(disk.contents(name))

    stage.open()

    assert stage.held() == alive
    assert len(stage.log.report.rebuilt) == len(indexes) > 2


def test_missing_indexes_are_made_again(stage: LogStage, disk: ForgetfulDisk) -> None:
    alive = fill(stage)
    stage.log.close()
    for name in [name for name in disk.names() if name.endswith(".idx")]:
        disk.remove(name)

    assert stage.open().report.rebuilt
    assert stage.held() == alive


def test_sound_indexes_are_used(stage: LogStage) -> None:
    alive = fill(stage)

    report = stage.restart().report

    assert (report.rebuilt, report.scanned_bytes, report.clean) == ([], 0, True)
    assert stage.held() == alive
    assert report.messages == len(alive)


@pytest.mark.parametrize(
    "end",
    [LogStage.checkpoint, lambda stage: stage.log.close()],
    ids=["checkpoint", "close"],
)
def test_what_was_scanned_once_has_an_index_from_the_next_checkpoint_on(
    stage: LogStage, disk: ForgetfulDisk, end: Callable[[LogStage], None]
) -> None:
    alive = fill(stage)
    stage.log.close()
    for name in [name for name in disk.names() if name.endswith(".idx")]:
        disk.remove(name)
    rebuilt = stage.open().report.rebuilt
    end(stage)

    report = stage.open().report

    assert len(rebuilt) > 2
    assert (report.rebuilt, report.scanned_bytes) == ([], 0)
    assert stage.held() == alive


def test_a_segment_cut_after_a_crash_is_scanned_once(stage: LogStage) -> None:
    stage.put(b"a" * 300)
    stage.commit()
    assert stage.crash().report.scanned_bytes > 0
    stage.checkpoint()

    report = stage.crash().report

    assert (report.rebuilt, report.scanned_bytes) == ([], 0)
    assert stage.held() == {0: b"a" * 300}


def test_a_missing_checkpoint_costs_nothing_while_all_segments_are_there(
    stage: LogStage, disk: ForgetfulDisk
) -> None:
    alive = fill(stage)
    stage.log.close()
    for name in NAMES:
        disk.remove(name)

    stage.open()

    assert stage.held() == alive
    assert not stage.log.report.clean
    assert any("checkpoints are missing" in text for text in stage.log.report.damage)


@spoilers
def test_a_damaged_checkpoint_is_reported_and_no_message_is_lost(
    stage: LogStage, disk: ForgetfulDisk, spoiler: Callable[[bytearray], None]
) -> None:
    alive = fill(stage)
    stage.log.close()
    for name in NAMES:
        spoiler(disk.contents(name))

    stage.open()

    assert any("delivered again" in text for text in stage.log.report.damage)
    assert alive.items() <= stage.held().items()


@pytest.mark.parametrize("is_synced", [True, False])
def test_checkpoints_are_durable_before_a_segment_goes(
    stage: LogStage,
    disk: ForgetfulDisk,
    is_synced: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the sync of their names a power cut could leave neither: three in a row are needed
    for that, too rare for a random life."""
    fill(stage)
    removed: list[bool] = []
    remove = disk.remove

    def noting(name: str) -> None:
        if name.endswith(".log"):
            removed.append(all(map(disk.is_durable, NAMES)))
        remove(name)

    monkeypatch.setattr(disk, "remove", noting)
    if not is_synced:
        disk.ignores = lambda operation, name: name.startswith("checkpoint")
    stage.log.settle(1, range(10))
    stage.commit()
    stage.compact()

    assert removed
    assert all(removed) == is_synced


@pytest.mark.parametrize("lost", NAMES)
@pytest.mark.parametrize("is_gone", [False, True], ids=["damaged", "gone"])
def test_one_of_two_checkpoints_is_enough(
    stage: LogStage, disk: ForgetfulDisk, lost: str, is_gone: bool
) -> None:
    """Also when segments with acknowledgements were removed meanwhile."""
    alive = fill(stage)
    for _ in range(4):
        stage.checkpoint()
    stage.log.settle(1, [next(iter(alive))])
    next_offset = stage.log.reads.next_offset(1)
    stage.log.close()
    if is_gone:
        disk.remove(lost)
    else:
        spoil(disk.contents(lost))

    report = stage.open().report

    del alive[next(iter(alive))]
    assert stage.held() == alive
    assert stage.log.reads.next_offset(1) == next_offset
    assert [text for text in report.damage if text.startswith(f"{lost}: ")]
    assert not report.clean


def test_leftovers_of_interrupted_writes_do_no_harm(stage: LogStage, disk: ForgetfulDisk) -> None:
    alive = fill(stage)
    stage.log.close()
    for name in ("checkpoint.new", f"{0:020d}.idx.new", "something else"):
        disk.create(name).write(b"rubbish", 0)

    stage.restart()
    stage.checkpoint()

    assert stage.held() == alive


# -- the tail -----------------------------------------------------------------------------------


def torn(disk: ForgetfulDisk, start: int, stop: int, lost: str) -> None:
    """Sectors of a write that did not reach the disk: they are zeros."""
    sectors = list(range(start // 512, -(-stop // 512)))
    data = disk.contents(segment_name(0))
    for sector in {"first": sectors[:1], "last": sectors[-1:], "inner": sectors[1:-1]}[lost]:
        low, high = max(start, sector * 512), min(stop, sector * 512 + 512)
        data[low:high] = bytes(high - low)


@pytest.mark.parametrize("lost", ["first", "last", "inner"])
@pytest.mark.parametrize("size", [900, 1500])
def test_a_torn_last_record_is_cut_and_reported(lost: str, size: int) -> None:
    disk = ForgetfulDisk()
    stage = LogStage(disk, segment_size=8192)
    stage.put(b"a" * 200)
    stage.commit()
    used = next(iter(stage.log.segments)).used
    stage.put(b"b" * size, b"c" * size, to=[1, 2])
    stage.commit()
    torn(disk, used, next(iter(stage.log.segments)).used, lost)

    stage.crash()

    assert (stage.held(1), stage.held(2)) == ({0: b"a" * 200}, {})
    assert len(disk.contents(segment_name(0))) == used
    assert (len(stage.log.report.cut), stage.log.report.damage) == (1, [])
    assert not stage.crash().report.cut


def test_a_settlement_of_a_message_that_is_gone_keeps_its_number_taken(
    stage: LogStage, disk: ForgetfulDisk
) -> None:
    """Both were written and not synced; of the message nothing stayed."""
    stage.put(b"a")
    start = next(iter(stage.log.segments)).used
    stage.put(b"b")
    stop = next(iter(stage.log.segments)).used
    stage.log.settle(1, [1])
    stage.commit()
    disk.contents(segment_name(0))[start:stop] = bytes(stop - start)

    stage.crash()
    stage.put(b"c")
    stage.restart()

    assert stage.held() == {0: b"a", 2: b"c"}


def test_positions_go_on_behind_a_checkpoint_that_knows_more_than_the_log(
    stage: LogStage, disk: ForgetfulDisk
) -> None:
    """Messages that need no sync may be lost before a checkpoint; what follows must count."""
    stage.put(b"a" * 500, level=DurabilityLevel.OS)
    stage.checkpoint()
    disk.contents(segment_name(0))[:] = bytes(1024)

    stage.crash()
    stage.put(b"b")
    stage.commit()
    stage.log.settle(1, [1])
    stage.commit()
    stage.crash()

    assert stage.held() == {}


# -- groups -------------------------------------------------------------------------------------


def move(stage: LogStage, content: bytes) -> int:
    """From queue 1 to queue 2 at once; returns where the group begins."""
    start = next(iter(stage.log.segments)).used
    with stage.log.atomic():
        stage.put(content, to=[2])
        stage.log.settle(1, [0])
    stage.put(b"behind", to=[3])
    stage.commit()
    return start


@pytest.mark.parametrize("at", [0, 40, 100, 250], ids=["head", "record", "content", "settlement"])
def test_a_torn_group_did_not_happen_now_or_later(
    stage: LogStage, disk: ForgetfulDisk, at: int
) -> None:
    content = b"m" * 100
    stage.put(content)
    stage.commit()
    start = move(stage, content)
    disk.contents(segment_name(0))[start + at] ^= 1

    for again in (stage.crash, stage.restart, stage.crash):
        again()
        assert (stage.held(1), stage.held(2)) == ({0: content}, {})
        assert stage.held(3) == {0: b"behind"}
    for name in [name for name in disk.names() if name.endswith(".idx")]:
        disk.remove(name)
    stage.crash()
    assert (stage.held(1), stage.held(2)) == ({0: content}, {})


def test_damage_in_an_old_group_costs_one_message(stage: LogStage, disk: ForgetfulDisk) -> None:
    with stage.log.atomic():
        stage.put(b"a" * 100, b"b" * 100, b"c" * 100)
    stage.checkpoint()
    data = disk.contents(segment_name(0))
    data[data.index(b"bbb")] ^= 1

    stage.crash()

    assert stage.held() == {0: b"a" * 100, 2: b"c" * 100}
    assert stage.log.reader.damaged == 1


# -- what recovery found is safe from then on ---------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_what_was_found_after_a_kill_survives_a_power_cut(seed: int) -> None:
    disk = ForgetfulDisk()
    stage = LogStage(disk, segment_size=1024)
    stage.put(b"a" * 700)
    stage.put(b"b" * 700)
    disk.ignores = lambda operation, name: operation == "sync"
    stage.commit()
    disk.ignores = lambda operation, name: False

    stage.crash()
    found = stage.held()
    stage.disk = disk.crash(Random(seed))
    stage.crash()

    assert stage.held() == found == {0: b"a" * 700, 1: b"b" * 700}


def test_empty_segments_are_removed(stage: LogStage, disk: ForgetfulDisk) -> None:
    stage.put(b"a")
    stage.commit()
    disk.create(segment_name(1024), 1024)

    stage.crash()

    assert segment_name(1024) not in disk.names()
    assert stage.held() == {0: b"a"}


# -- damage in the middle -----------------------------------------------------------------------


@pytest.mark.parametrize("compacting", [False, True], ids=["plain", "compacted"])
def test_flipped_bits_cost_exactly_the_messages_they_are_in(compacting: bool) -> None:
    assert spoiled_rounds(Random(1), 200, compacting=compacting) == []


def test_without_sums_damaged_messages_would_be_delivered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A guard of the guard: with the check taken out, the test above must fail."""

    class Agreeable(int):
        def __eq__(self, other: object) -> bool:
            return True

        def __ne__(self, other: object) -> bool:
            return False

        __hash__ = int.__hash__

    for module in ("record", "record_reader"):
        name = f"headrace.store.log.{module}.crc32"
        monkeypatch.setattr(name, lambda *given: Agreeable(0), raising=False)

    assert any(DELIVERED in text for text in spoiled_rounds(Random(1), 40, compacting=False))


def spoiled_rounds(rng: Random, rounds: int, *, compacting: bool) -> list[str]:
    """Flip one bit per round; returns what did not go as it must."""
    wrong = []
    for number in range(rounds):
        complaint = spoiled_round(Random(rng.random()), compacting=compacting)
        if complaint:
            wrong.append(f"round {number}: {complaint}")
    return wrong


def spoiled_round(rng: Random, *, compacting: bool) -> str | None:
    disk = ForgetfulDisk()
    stage = LogStage(disk, segment_size=1024, rule=EAGER)
    alive: dict[int, bytes] = {}
    for number in range(8):
        contents = [rng.randbytes(rng.randrange(1, 150)) for _ in range(3)]
        alive |= dict(enumerate(contents, number * 3))
        stage.put(*contents)
        stage.commit()
    stage.log.close()
    name = rng.choice([name for name in disk.names() if name.endswith(".log")])
    data = disk.contents(name)
    at = rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)

    stage.open()
    if compacting:
        stage.log.settle(1, [0])
        stage.commit()
        del alive[0]
        stage.compact()
    found = stage.held()
    stage.commit()
    missing = alive.keys() - found.keys()
    if any(alive.get(offset) != content for offset, content in found.items()):
        return DELIVERED
    if len({offset // 3 for offset in missing}) > 1:
        return f"more than one record is gone: {sorted(missing)}"
    if stage.log.reader.damaged != len(missing):
        return f"{len(missing)} are gone, {stage.log.reader.damaged} were reported"
    return None
