"""The sources of the page: types, unit tests, a lock file that names no registry."""

from __future__ import annotations

import json
import subprocess

from support.console_page import SOURCES, need, need_node


def run(*command: str) -> None:
    need_node()
    need((SOURCES / "node_modules").is_dir(), "the page's tools are not installed: make console")
    done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_types_are_correct() -> None:
    run("node_modules/.bin/tsc", "--noEmit")


def test_the_unit_tests_of_the_page_pass() -> None:
    run("node", "build.mjs", "--test")


def test_versions_are_pinned_and_the_lock_file_names_no_registry() -> None:
    package = json.loads((SOURCES / "package.json").read_text())
    lock = json.loads((SOURCES / "package-lock.json").read_text())
    assert all(version[0].isdigit() for version in package["devDependencies"].values())
    assert [name for name, one in lock["packages"].items() if "resolved" in one] == []
    assert all("integrity" in one for name, one in lock["packages"].items() if name)
