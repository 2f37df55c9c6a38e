"""The broker's log: who writes to it, and in which form."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from headrace.server.logs import configure_logging

NAMES = ("headrace", "uvicorn", "asyncio")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = [
        (one, one.handlers[:], one.level, one.propagate) for one in map(logging.getLogger, NAMES)
    ]
    yield
    for logger, handlers, level, propagate in before:
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagate


def test_what_uvicorn_says_is_a_json_line_like_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "json")
    logging.getLogger("headrace.server").info("ready")
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["logger"], line["level"], line["message"]) for line in lines] == [
        ("headrace.server", "info", "ready"),
        ("uvicorn.error", "warning", "Invalid HTTP request received."),
    ]


def test_times_are_exact_to_the_millisecond_and_name_their_zone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging("info", "json")
    before = datetime.now(UTC)
    logging.getLogger("headrace.server").info("ready")
    written = datetime.fromisoformat(json.loads(capsys.readouterr().err)["time"])
    assert before - timedelta(milliseconds=1) < written <= datetime.now(UTC)


def test_a_mishap_that_nobody_caught_is_a_json_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "json")
    logging.getLogger("asyncio").error("Task exception was never retrieved")
    assert json.loads(capsys.readouterr().err)["logger"] == "asyncio"
