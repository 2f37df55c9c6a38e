"""The original document on RocketMQ consumers, row by row; the docs show the result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.testing import run_broker
from support import doc_pages
from support.remoting_broker import Ours
from support.rocketmq import document_subscriptions
from support.rocketmq.document_rows import ROWS, Stage

PAGE = doc_pages.DOCS / "rocketmq-sdk-reference.md"
assert document_subscriptions.ROWS is ROWS, "its import has added rows"
CASES = [(part, name) for part, rows in ROWS.items() for name in rows]


@pytest.fixture(scope="module")
def ours() -> Iterator[Ours]:
    with run_broker(sync=False) as broker:
        yield Ours(broker)


@pytest.mark.parametrize(("part", "name"), CASES, ids=[f"{part}-{name}" for part, name in CASES])
def test_a_row_of_the_document(ours: Ours, tmp_path: Path, part: str, name: str) -> None:
    verdict = ROWS[part][name](Stage(ours.name_address, tmp_path, f"t{uuid4().hex[:12]}"))
    lines = [
        line for line in PAGE.read_text("utf-8").splitlines() if line.startswith(f"| {part} |")
    ]
    works, differs = ([line for line in lines if line.endswith(end)] for end in ("| works |", " |"))
    if verdict is None:
        assert any(f"`{name}`" in line for line in works), f"{name} works: say so on {PAGE.name}"
    else:
        found = [line for line in differs if line not in works and f"`{name}`" in line]
        assert [f"| {part} | `{name}` | differs: {verdict} |"] == found
