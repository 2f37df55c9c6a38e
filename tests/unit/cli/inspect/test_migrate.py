"""`headrace migrate check`: definitions of RabbitMQ, examined and imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.main import main

SHOP = {
    "rabbit_version": "3.12.1",
    "vhosts": [{"name": "/"}],
    "exchanges": [{"name": "shop", "vhost": "/", "type": "topic", "durable": True,
                   "auto_delete": False, "internal": False, "arguments": {}}],
    "queues": [{"name": "orders", "vhost": "/", "durable": True, "auto_delete": False,
                "arguments": {"x-queue-type": "quorum"}}],
    "bindings": [{"source": "shop", "vhost": "/", "destination": "orders",
                  "destination_type": "queue", "routing_key": "order.*", "arguments": {}}],
    "policies": [{"name": "ha", "vhost": "/", "pattern": ".*", "apply-to": "queues",
                  "priority": 0, "definition": {"ha-mode": "all"}}],
}  # fmt: skip


def check(data: object, place: Path) -> int:
    file = place / "definitions.json"
    file.write_text(json.dumps(data))
    return main(["migrate", "check", str(file), "--json"])


def findings(capsys: pytest.CaptureFixture[str]) -> Any:  # noqa: ANN401 - JSON
    return json.loads(capsys.readouterr().out)


def test_differences_are_listed_and_the_rest_is_importable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(SHOP, tmp_path) == 0
    report = findings(capsys)
    assert report["importable"]
    assert report["counts"]["queues"] == 1
    texts = [one["text"] for one in report["findings"]]
    assert texts == [
        "queue orders is a quorum queue: it has one copy",
        "policy ha: no effect of ha-mode",
    ]


def test_a_stream_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queue = {**SHOP["queues"][0], "arguments": {"x-queue-type": "stream"}}  # type: ignore[dict-item]
    assert check({**SHOP, "queues": [queue]}, tmp_path) == 1
    assert findings(capsys)["findings"][0]["kind"] == "refused"


def test_what_only_the_import_notices_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = {**SHOP["queues"][0], "arguments": {"x-max-length": -1}}  # type: ignore[dict-item]
    assert check({**SHOP, "queues": [queue]}, tmp_path) == 1
    assert "x-max-length" in findings(capsys)["findings"][-1]["text"]


def test_what_is_not_json_is_a_usage_error(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("{")
    assert main(["migrate", "check", str(file)]) == 2
