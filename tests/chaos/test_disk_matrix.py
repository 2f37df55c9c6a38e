"""Every file of a data directory, damaged in every way: nothing is lost without being named."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from matrix import faults
from matrix.judge import judge, run
from matrix.original import Original, make
from matrix.programs import Programs, compile_library

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
    # The newest records of a crashed broker may be an unfinished write: nothing later shows more.
    is_tail = not original.is_clean and name == "active segment" and fault in ("older copy", "cut")
    judge(outcome, original, file, may_be_tail=is_tail)
    _note(original, name, fault, outcome.verdict)
    assert outcome.faults == [], f"\n{outcome.log}\n{outcome.fsck_text}"


def _note(original: Original, name: str, fault: str, verdict: str) -> None:
    """A row of the table that DISK_MATRIX names."""
    if table := os.environ.get("DISK_MATRIX"):
        end = "stop" if original.is_clean else "kill -9"
        with Path(table).open("a") as rows:
            rows.write(f"| {name} | {fault} | {end} | {verdict.replace('|', '/')} |\n")
