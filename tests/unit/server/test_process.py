"""The broker's log: who writes to it, and in which form."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from headrace.server.process import configure_logging

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


def test_log_lines_of_uvicorn_are_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_an_uncaught_exception_is_a_json_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "json")
    logging.getLogger("asyncio").error("Task exception was never retrieved")
    assert json.loads(capsys.readouterr().err)["logger"] == "asyncio"


FORGED = "q\n2026-01-01 00:00:00,000 INFO    headrace: all is well\r\x1b[2Jé\x9b31m\u2028\u202e"


@pytest.mark.parametrize("form", ["text", "json"])
def test_names_from_outside_cannot_forge_lines(
    capsys: pytest.CaptureFixture[str], form: str
) -> None:
    configure_logging("info", form)
    logger = logging.getLogger("headrace.server")
    logger.warning("queue %s is deleted", FORGED)
    written = capsys.readouterr().err

    assert written.count("\n") == len(written.splitlines()) == 1
    assert "é" in written
    assert not set("\r\x1b\x9b\u2028\u202e") & set(written)
    if form == "json":
        assert json.loads(written)["message"] == f"queue {FORGED} is deleted"


def test_an_exception_cannot_forge_lines_either(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "text")
    try:
        raise ValueError(FORGED)
    except ValueError:
        logging.getLogger("headrace.server").exception("a session failed")
    first, *rest = capsys.readouterr().err.splitlines()

    assert first.endswith("a session failed")
    assert len(rest) > 2
    assert all(line.startswith("  | ") for line in rest)
