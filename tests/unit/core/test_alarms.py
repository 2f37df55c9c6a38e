"""Alarms: raised at the limit, cleared well below it, told to those who listen."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core import alarms as alarms_module
from headrace.core.alarms import CHECK_EVERY_MS, Alarms
from support.fake_loop import Stage


class Machine:
    """A machine whose memory and disk are what a test says."""

    used = 0
    free = 1 << 40


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(alarms_module, "resident_bytes", lambda: machine.used)
    monkeypatch.setattr(alarms_module, "free_bytes", lambda _: machine.free)
    return machine


@pytest.fixture
def alarms(stage: Stage, machine: Machine) -> Alarms:
    return Alarms(stage.timers, Path("."), memory_limit=1000, disk_free_limit=500)


def test_a_memory_alarm_ends_only_well_below_the_limit(alarms: Alarms, machine: Machine) -> None:
    seen = []
    for machine.used in (1000, 1001, 960, 951, 950, 1000, 1001):
        alarms.check()
        seen.append(alarms.memory)

    assert seen == [False, True, True, True, False, False, True]


def test_the_reason_names_what_is_low(alarms: Alarms, machine: Machine) -> None:
    alarms.check()
    assert alarms.reason is None
    machine.free = 499
    alarms.check()
    assert alarms.reason == "low on disk"
    machine.used = 2000
    alarms.check()
    assert alarms.reason == "low on memory & disk"
    machine.free = 500
    alarms.check()
    assert alarms.reason == "low on memory"


def test_listeners_hear_of_changes_only(alarms: Alarms, machine: Machine) -> None:
    heard: list[str | None] = []

    def listen() -> None:
        heard.append(alarms.reason)

    alarms.subscribe(listen)
    for machine.used in (0, 2000, 2000, 0):
        alarms.check()
    alarms.unsubscribe(listen)
    alarms.unsubscribe(listen)
    machine.used = 2000
    alarms.check()

    assert heard == ["low on memory", None]


def test_a_listener_may_unsubscribe_during_notification(alarms: Alarms, machine: Machine) -> None:
    def leave() -> None:
        alarms.unsubscribe(leave)

    alarms.subscribe(leave)
    alarms.subscribe(lambda: None)
    machine.used = 2000

    alarms.check()

    assert alarms.memory


def test_it_looks_again_and_again(alarms: Alarms, machine: Machine, stage: Stage) -> None:
    alarms.start()
    machine.used = 2000
    assert not alarms.memory

    stage.advance(CHECK_EVERY_MS)
    assert alarms.memory
    machine.used = 0
    stage.advance(CHECK_EVERY_MS)
    assert not alarms.memory


def test_the_real_figures_make_sense(tmp_path: Path) -> None:
    assert 1 << 20 < alarms_module.resident_bytes() < 1 << 40
    assert alarms_module.free_bytes(tmp_path) >= 0


def test_the_log_says_how_much_there_is_and_who_waits(
    stage: Stage, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    mib = 1 << 20
    alarms = Alarms(stage.timers, Path("."), memory_limit=4000 * mib, disk_free_limit=50 * mib)
    machine.used, machine.free = 100 * mib, 20 * mib
    alarms.check()
    machine.free = 60 * mib
    alarms.check()

    assert caplog.messages == [
        "alarm: low on disk; publishers are blocked. Memory: 100 MiB used, limit 4,000 MiB. "
        "Disk: 20 MiB free, limit 50 MiB",
        "alarm: cleared; publishers continue",
    ]


def test_a_failed_check_of_memory_and_disk_is_logged_once_and_checks_continue(
    stage: Stage, alarms: Alarms, machine: Machine, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def exhausted() -> int:
        raise OSError(5, "Input/output error", "/proc/self/statm")

    alarms.start()
    with monkeypatch.context() as patched:
        patched.setattr(alarms_module, "resident_bytes", exhausted)
        for _ in range(3):
            stage.advance(CHECK_EVERY_MS)
    assert [line for line in caplog.messages if "cannot check" in line] == [
        "alarm: cannot check memory and disk: [Errno 5] Input/output error: '/proc/self/statm'"
    ]

    machine.used = 2000
    stage.advance(CHECK_EVERY_MS)
    assert alarms.memory


def test_a_lack_of_descriptors_raises_an_alarm_of_its_own(
    alarms: Alarms, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted() -> int:
        raise OSError(24, "Too many open files", "/proc/self/statm")

    with monkeypatch.context() as patched:
        patched.setattr(alarms_module, "resident_bytes", exhausted)
        alarms.set_disk_full(False)  # the log has found none
        assert alarms.reason == "low on file descriptors"
        machine.free = 499
        alarms.check()
        assert alarms.reason == "low on disk & file descriptors"

    machine.free = 500
    alarms.check()
    assert alarms.reason is None
