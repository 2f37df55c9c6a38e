"""Loading the plugin costs nothing, and the public names are there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import headrace
from headrace import testing

ROOT = str(Path(headrace.__file__).parents[1])


def test_every_public_name_can_be_imported() -> None:
    assert all(getattr(testing, name) is not None for name in testing.__all__)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'run_rabbit'"):
        testing.run_rabbit  # noqa: B018 - the access is what is tested


def test_plugin_imports_nothing_of_the_broker() -> None:
    code = (
        "import sys, pytest, headrace.testing.plugin\n"
        "print(sorted(name for name in sys.modules if name.partition('.')[0] == 'headrace'))\n"
        "print({'asyncio', 'uvloop', 'sqlite3'} & set(sys.modules))"
    )
    environment = {**os.environ, "PYTHONPATH": ROOT}
    printed = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout

    assert printed.splitlines() == [
        "['headrace', 'headrace.testing', 'headrace.testing.plugin']",
        "set()",
    ]
