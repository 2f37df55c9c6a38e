"""Every file of a data directory, damaged in every way: nothing is lost without being named."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.disk_matrix import faults
from support.disk_matrix.judge import judge, run
from support.disk_matrix.original import Original, make
from support.disk_matrix.programs import Programs, compile_library

pytestmark = pytest.mark.chaos


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    with Programs(compile_library(tmp_path_factory.mktemp("library"))) as programs:
        yield programs


@pytest.fixture(scope="module", params=["stopped", "killed"])
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Original:
    return make(tmp_path_factory.mktemp(request.param), clean=request.param == "stopped")


@pytest.mark.parametrize(("name", "fault", "repeat"), faults.parameters())
def test_what_is_lost_is_named(
    original: Original,
    programs: Programs,
    tmp_path: Path,
    seed: int,
    name: str,
    fault: str,
    repeat: int,
) -> None:
    if fault == "unreadable" and programs.library is None:
        pytest.skip("needs a C compiler")
    work = tmp_path / "work"
    work.mkdir()
    copy = Original(
        tmp_path / "data", original.older, original.foreign, original.is_clean, original.ledger
    )
    shutil.copytree(original.data, copy.data)
    file = faults.chosen(copy, name)
    unreadable = faults.FAULTS[fault](file, copy, random.Random(f"{seed} {repeat}"))
    outcome = run(programs, copy.data, unreadable, work)
    judge(outcome, original, file, _unfinished(original, fault))
    _note(original, name, fault, outcome.verdict)
    assert outcome.faults == [], f"CHAOS_SEED={seed}\n{outcome.log}\n{outcome.fsck_text}"


@pytest.mark.parametrize("fault", ["gone", "empty", "cut"])
@pytest.mark.parametrize("name", faults.TOGETHER)
def test_what_is_lost_together_is_named(
    original: Original,
    programs: Programs,
    tmp_path: Path,
    name: str,
    fault: str,
) -> None:
    work, data = tmp_path / "work", tmp_path / "data"
    work.mkdir()
    shutil.copytree(original.data, data)
    files = [one for one in sorted(data.glob(faults.TOGETHER[name])) if one.stat().st_size]
    for file in files:
        faults.FAULTS[fault](file, original, random.Random(1))
    if name == "the log" and fault == "gone":
        (data / "journal").rmdir()
    outcome = run(programs, data, None, work)
    judge(outcome, original, files[0].parent, _unfinished(original, fault))
    _note(original, name, fault, outcome.verdict)
    assert outcome.faults == [], f"\n{outcome.log}\n{outcome.fsck_text}"


def _unfinished(original: Original, fault: str) -> str:
    """The newest records of a crashed broker: when they are cut off, no other file shows more."""
    is_shorter = fault in ("older copy", "cut", "empty")
    return original.segments()[-1].name if is_shorter and not original.is_clean else ""


def _note(original: Original, name: str, fault: str, verdict: str) -> None:
    """A row of the table that DISK_MATRIX names."""
    if table := os.environ.get("DISK_MATRIX"):
        end = "stop" if original.is_clean else "kill -9"
        with Path(table).open("a") as rows:
            rows.write(f"| {name} | {fault} | {end} | {verdict.replace('|', '/')} |\n")
