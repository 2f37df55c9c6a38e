"""The stores of a broker: what is said about the state they were found in."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import cast

import pytest

from headrace.core.clock import Clock
from headrace.core.turn import Turn
from headrace.server.stores import JOURNAL, Stores
from headrace.store.api import Level, Placed
from headrace.store.directory import DataDirectory
from headrace.store.disk import RealDisk
from headrace.store.log.log import CommitLog
from headrace.store.offline import LogDriver


class IdleLoop:
    """Nothing is ever due."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A data directory with one message in its journal, closed cleanly."""
    DataDirectory(tmp_path).close()
    driver = LogDriver(CommitLog(RealDisk(tmp_path / JOURNAL), now_ms=lambda: 1000))
    driver.log.append(
        exchange="",
        key="q",
        origin=0,
        ttl_ms=None,
        contents=[b"message"],
        placed=[Placed(1, 0, 1)],
        level=Level.FSYNC,
    )
    driver.commit()
    driver.log.close()
    return tmp_path


def said_by_recovery(path: Path, caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    """Level and text of the summary."""
    caplog.set_level(logging.INFO)
    stores = Stores(path, Turn(cast(asyncio.AbstractEventLoop, IdleLoop())), Clock())
    stores.storage.close()
    stores.close()
    return [
        (one.levelno, one.getMessage())
        for one in caplog.records
        if one.name == "headrace.server.stores"
    ]


def test_nothing_is_said_when_everything_is_in_order(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert said_by_recovery(path, caplog) == []


def test_an_unfinished_write_is_no_damage(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (segment,) = (path / JOURNAL).glob("*.log")
    with segment.open("ab") as file:
        file.write(b"unfinished")

    assert said_by_recovery(path, caplog) == [
        (logging.INFO, "recovery: 1 unfinished writes cut off")
    ]
    assert "damage" not in caplog.text


def test_damage_is_a_warning(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (path / JOURNAL / "checkpoint").write_bytes(b"damaged")

    assert said_by_recovery(path, caplog) == [(logging.WARNING, "recovery: 1 places damaged")]
