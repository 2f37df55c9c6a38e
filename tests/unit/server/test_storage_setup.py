"""Opening the storage engines of a broker: what stands in the way is told in one line."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headrace.core.clock import VirtualClock
from headrace.core.loop_turn import LoopTurn
from headrace.errors import StoreError
from headrace.server import storage_setup


def test_files_of_another_user_are_reported_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "journal/checkpoint")

    monkeypatch.setattr(storage_setup, "CommitLog", forbidden)
    loop = asyncio.new_event_loop()
    loop.close()
    for _ in range(2):  # the lock is let go of
        with pytest.raises(StoreError) as raised:
            storage_setup.BrokerStorage(tmp_path, LoopTurn(loop), VirtualClock())
        assert str(raised.value) == (
            f"cannot use data directory {tmp_path}: journal/checkpoint: Permission denied; "
            "everything in it must belong to the user that runs the broker"
        )
