"""The broker's log: who writes to it, and in which form."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from headrace.server.logs import configure_logging

NAMES = ("headrace", "uvicorn")


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
