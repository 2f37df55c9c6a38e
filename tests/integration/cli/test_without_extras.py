"""A plain `pip install headrace`: commands that need more say in one line what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support import brokers

MYSQL = ("pymysql", "MySQLdb")
SPARK = ("pyspark", "pyarrow", "deltalake", "pandas", "numpy", "connectorx", "fastavro", "yaml")
NEEDS = (
    "headrace: this command needs Spark, but {} is not installed: pip install 'headrace[spark]'\n"
)
DATABASE = "mysql://user:password@127.0.0.1:1/shop"


def run(code: str, *without: str) -> subprocess.CompletedProcess[str]:
    hidden = "".join(f"sys.modules[{name!r}] = None\n" for name in without)
    return subprocess.run(
        [sys.executable, "-c", f"import sys\n{hidden}{code}"],
        env=brokers._environment({}),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def headrace(*args: str, without: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    code = f"from headrace.cli.main import main\nsys.exit(main({list(args)!r}))"
    return run(code, *without)


@pytest.mark.parametrize(
    "args",
    [
        ("topic", "list", "--store", DATABASE),
        ("group", "list", "clicks", "--store", DATABASE),
        ("bench", "topics"),
        ("serve", "--engine", f"db={DATABASE}", "--data-dir", "data"),
    ],
    ids=lambda args: " ".join(args[:2]),
)
def test_what_needs_a_database_names_the_driver(
    args: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the last one makes its data directory
    done = headrace(*args, without=MYSQL)
    assert done.returncode in (1, 2)
    assert done.stderr.count("\n") == 1, done.stderr
    assert "pip install 'headrace[mysql]'" in done.stderr


@pytest.mark.parametrize(
    "args",
    [
        ("pipeline", "run", "shop.toml"),
        ("pipeline", "list"),
        ("archive",),
        ("sql", "SELECT 1"),
        ("replay", "--from", "2026-01-01", "--into", "q"),
        ("report",),
    ],
    ids=lambda args: " ".join(args[:2]),
)
def test_commands_that_need_spark_report_it(args: tuple[str, ...]) -> None:
    done = headrace(*args, without=SPARK)
    assert (done.returncode, done.stderr) == (1, NEEDS.format("pyspark"))


def test_a_spark_without_the_other_packages_is_refused_with_their_names() -> None:
    done = headrace("pipeline", "list", without=("deltalake",))
    assert (done.returncode, done.stderr) == (1, NEEDS.format("deltalake"))


def test_the_data_source_says_what_it_needs() -> None:
    done = run("import headrace.spark", *SPARK)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: headrace.spark needs pyarrow")
    assert last.endswith("pip install 'headrace[spark]'")


def test_the_rest_needs_neither() -> None:
    rest = "import headrace.client, headrace.rocketmq, headrace.topics, headrace.testing"
    done = run(rest, *MYSQL, *SPARK)
    assert (done.returncode, done.stderr) == (0, "")


def serve(tmp_path: Path, before: str, *without: str) -> subprocess.CompletedProcess[str]:
    """A broker that is expected to end by itself."""
    ports = ("amqp", "native", "http", "namesrv", "remoting")
    args = ["serve", "--data-dir", str(tmp_path / "data")]
    args += [one for name in ports for one in (f"--{name}-port", "0")]
    return run(f"{before}from headrace.cli.main import main\nsys.exit(main({args!r}))", *without)


@pytest.mark.parametrize("name", ["orjson", "uvicorn"])
def test_a_missing_package_stops_the_start_in_one_line(tmp_path: Path, name: str) -> None:
    done = serve(tmp_path, "", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f": the package '{name}' is not installed\n")
    assert "Traceback" not in done.stderr


def test_a_listener_that_cannot_start_stops_the_broker(tmp_path: Path) -> None:
    broken = (
        "import headrace.server.http.uvicorn_protocol as module\n"
        "def assemble(*_): raise RuntimeError('nothing fits')\n"
        "module.assemble = assemble\n"
    )
    done = serve(tmp_path, broken)
    assert done.returncode == 1
    assert "cannot serve HTTP, the broker stops: RuntimeError: nothing fits" in done.stderr
    assert "Traceback" not in done.stderr
