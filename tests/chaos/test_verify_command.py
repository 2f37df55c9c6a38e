"""`headrace verify`, and whether the crash test would notice a broker that breaks its promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.verify.crash_test import CrashTest
from support.chaos.failing_disk_broker import LIES, Saboteur


def test_a_crash_test_on_ones_own_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["verify", str(tmp_path), "--rounds", "1", "--seconds", "0.3", "--seed", "7"])

    said = capsys.readouterr().out
    assert code == 0, said
    assert "seed 7" in said
    assert "0 lost, 0 ghosts, 0 unmarked duplicates" in said
    assert "power" in said
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_there_is_not_touched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "headrace-verify").mkdir()

    assert main(["verify", str(tmp_path)]) == 2
    assert "exists" in capsys.readouterr().err


def test_a_broker_that_confirms_before_it_has_written_is_found(
    saboteur: Saboteur, seed: int
) -> None:
    test = CrashTest(saboteur, seed)
    saboteur.order(LIES)

    test.round(20, HEADRACE_FAILPOINT="journal.synced:3")

    saboteur.order("")
    assert test.conclude().count("LOST") > 0
