"""The jar for Spark's JVM: built with the package, compared with it, and optional."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

import headrace
from headrace.spark import jar as find_jar
from headrace.spark.errors import SparkMissing

TOP = Path(__file__).parents[3]


def installed(place: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    (place / "jars").mkdir()
    for name in names:
        (place / "jars" / name).touch()
    spec = ModuleSpec("pyspark", None, origin=str(place / "__init__.py"))
    module = sys.modules["headrace.spark.jar"]
    monkeypatch.setattr(module, "find_spec", lambda name: spec)


def test_the_jar_of_this_version_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"headrace-spark-{headrace.__version__}.jar"
    installed(tmp_path, monkeypatch, name, "spark-core.jar")
    assert find_jar() == tmp_path / "jars" / name


def test_a_jar_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, monkeypatch, "headrace-spark-9.9.9.jar")
    with pytest.raises(SparkMissing, match=r"version 9\.9\.9, but headrace is"):
        find_jar()


def test_without_a_jar_the_python_source_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, monkeypatch)
    assert find_jar() is None


def test_the_extra_asks_for_the_jar_of_the_same_version() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    assert (
        f"headrace-spark-jar=={headrace.__version__}" in project["optional-dependencies"]["spark"]
    )


def test_a_build_without_javac_says_so_and_fails_in_ci(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "build_jar.py").write_bytes(
        (TOP / "scripts" / "build_jar.py").read_bytes()
    )
    package = tmp_path / "src" / "headrace"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "1.2.3"\n')

    def build(**more: str) -> subprocess.CompletedProcess[str]:
        known = {name: one for name, one in os.environ.items() if name not in ("CI", "PATH")}
        command = [sys.executable, str(tmp_path / "scripts" / "build_jar.py")]
        env = {**known, "PATH": str(tmp_path), **more}
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    done = build()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "jar: no javac: Spark reads with the Python source\n"
    assert [one.name for one in (tmp_path / "dist").iterdir()] == [
        "headrace_spark_jar-1.2.3-py3-none-any.whl"
    ]
    done = build(CI="1")
    assert done.returncode == 1
    assert "openjdk-17-jdk-headless" in done.stderr
