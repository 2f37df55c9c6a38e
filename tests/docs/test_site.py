"""Hooks of the documentation site: what they make of the Markdown files."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "scripts" / "site_hooks.py")
assert spec is not None and spec.loader is not None
hooks: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(hooks)


def test_a_program_and_its_twin_on_pika_are_two_tabs() -> None:
    page = (ROOT / "docs" / "tutorials" / "work-queues.md").read_text("utf-8")
    made = hooks.on_page_markdown(page, None, None, None)
    assert made.count('=== "headrace.client"\n\n    ```python\n    import') == 2
    assert made.count('=== "pika"\n\n    ```python\n    import') == 2
    assert "<!-- file: " not in made
    for line in page.splitlines():  # no line of the page is lost
        assert line.startswith("<!--") or line in made


def test_a_picture_for_light_pages_has_its_twin_for_dark_ones() -> None:
    made = hooks.on_page_markdown("![Map](pictures/map-light.png)", None, None, None)
    light, dark = "pictures/map-light.png#only-light", "pictures/map-dark.png#only-dark"
    assert made == f"![Map]({light})![Map]({dark})"
