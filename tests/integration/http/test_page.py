"""What / answers: the page when it is built, how to build it when not; and its headers."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from headrace.server.http import page


def test_without_a_built_page_the_broker_prints_how_to_build_it(
    raw: httpx.Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(page, "DIST", tmp_path)
    answer = raw.get("/")
    assert answer.status_code == 200
    assert "make console" in answer.text
    assert "/api/openapi.json" in answer.text


def test_a_built_page_is_served_and_nothing_beside_it(
    raw: httpx.Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    dist = tmp_path / "dist"
    (dist / "assets").mkdir(parents=True)
    (dist / "index.html").write_text("<title>built</title>")
    (dist / "assets" / "app-1.js").write_text("export {}")
    (tmp_path / "secret.txt").write_text("secret")
    monkeypatch.setattr(page, "DIST", dist)

    index, script = raw.get("/"), raw.get("/assets/app-1.js")
    assert "built" in index.text
    assert "script-src 'self'" in index.headers["content-security-policy"]
    assert "unsafe" not in index.headers["content-security-policy"]
    assert script.headers["content-type"].startswith("text/javascript")
    assert "immutable" in script.headers["cache-control"]
    for path in ("/..%2Fsecret.txt", "/assets/..%2F..%2Fsecret.txt", "/assets/%2e%2e"):
        assert raw.get(path).status_code == 404
