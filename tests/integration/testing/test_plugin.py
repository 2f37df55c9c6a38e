"""The pytest plugin, and the page about it: both in a pytest of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import headrace

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "testing.md"
_FILE = re.compile(r"<!-- file: (\S+) -->\n```python\n(.*?)^```$", re.M | re.S)


def run_pytest(directory: Path, *args: str) -> str:
    """What pytest prints; the plugin is loaded by name, whether or not it is installed."""
    source = str(Path(headrace.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "headrace.testing.plugin", "-W", "error"]
    command += ["--strict-markers", "-p", "no:cacheprovider", *args]
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=100
    ).stdout


def write(directory: Path, name: str, text: str) -> None:
    (directory / name).write_text(text, "utf-8")


def test_programs_of_the_page_pass(tmp_path: Path) -> None:
    for name, text in _FILE.findall(PAGE.read_text("utf-8")):
        write(tmp_path, name, text)

    printed = run_pytest(tmp_path)

    assert "4 passed" in printed, printed


def test_each_test_has_a_broker_of_its_own_and_the_session_has_one(tmp_path: Path) -> None:
    write(
        tmp_path,
        "test_it.py",
        """
import pytest
own, shared = [], []

@pytest.mark.parametrize("n", [1, 2])
def test_both(n, headrace_broker, headrace_broker_session):
    assert headrace_broker.is_running and headrace_broker_session.is_running
    own.append(headrace_broker)
    shared.append(headrace_broker_session)

def test_afterwards():
    assert own[0] is not own[1] and not own[0].is_running
    assert shared[0] is shared[1] and shared[0].is_running
""",
    )

    printed = run_pytest(tmp_path)

    assert "3 passed" in printed, printed


def test_options_come_from_the_fixture_and_the_closest_marker(tmp_path: Path) -> None:
    write(
        tmp_path,
        "test_it.py",
        """
import pytest
pytestmark = pytest.mark.headrace(heartbeat=2, channel_max=20)

@pytest.fixture(scope="session")
def headrace_options():
    return {"heartbeat": 1, "channel_max": 10, "cluster_name": "mine"}

@pytest.mark.headrace(heartbeat=3)
def test_own(headrace_broker):
    config = headrace_broker.config
    assert (config.heartbeat, config.channel_max, config.cluster_name) == (3, 20, "mine")

def test_session(headrace_broker_session):
    assert headrace_broker_session.config.heartbeat == 1
""",
    )

    printed = run_pytest(tmp_path)

    assert "2 passed" in printed, printed


def test_pytest_finds_the_plugin_once_headrace_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    assert project["entry-points"]["pytest11"] == {"headrace": "headrace.testing.plugin"}
