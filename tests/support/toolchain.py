"""Builds the foreign programs once, in the user's cache; a missing tool is a reason to skip."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1] / "interop"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace-interop"
BUILD_LIMIT = 300
AMQPLIB = "amqplib@2.3.1"


def build(client: str) -> list[str]:
    """The command that runs the program of ``client``: node, go or java."""
    return {"node": _node, "go": _go, "java": _java}[client]()


def unavailable(reason: str) -> None:
    """Skip on a laptop; on a build machine a missing tool is a failure."""
    if os.environ.get("CI") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def _node() -> list[str]:
    need("node", "npm")
    target = cache_for("node", AMQPLIB.encode())
    if not (target / "node_modules" / "amqplib").is_dir():
        (target / "package.json").write_text('{"private": true}')
        fetch(["npm", "install", "--no-audit", "--no-fund", AMQPLIB], target)
    # a required module is searched from the program's own directory upwards, so it runs there
    for source in (HERE / "node").glob("*.js"):
        shutil.copy(source, target)
    return ["node", str(target / "client.js")]


def _go() -> list[str]:
    need("go")
    sources = sorted((HERE / "go").iterdir())
    target = cache_for("go", *(source.read_bytes() for source in sources))
    program = target / "client"
    if not program.exists():
        for source in sources:
            shutil.copy(source, target)
        fetch(["go", "mod", "download"], target)
        compile_program(["go", "build", "-o", str(program), "."], target)
    return [str(program)]


def _java() -> list[str]:
    need("java", "javac", "mvn")
    sources = sorted((HERE / "java").glob("*.java"))
    pom = HERE / "java" / "pom.xml"
    target = cache_for("java", pom.read_bytes(), *(source.read_bytes() for source in sources))
    libraries, classes = target / "lib", target / "classes"
    classpath = f"{classes}{os.pathsep}{libraries}/*"
    if not (classes / "Client.class").exists():
        copy = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
        fetch([*copy, f"-DoutputDirectory={libraries}"], target)
        compile_program(["javac", "-d", str(classes), "-cp", classpath, *map(str, sources)], target)
    return ["java", "-XX:TieredStopAtLevel=1", "-cp", classpath, "Client"]


def need(*tools: str) -> None:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        unavailable(f"not installed: {', '.join(missing)}")


def cache_for(name: str, *contents: bytes) -> Path:
    """A directory which changes its name whenever what is built in it changes."""
    target = CACHE / f"{name}-{hashlib.sha256(b'|'.join(contents)).hexdigest()[:12]}"
    target.mkdir(parents=True, exist_ok=True)
    return target


def fetch(command: list[str], directory: Path) -> None:
    """Get a library; being offline is a reason to skip."""
    try:
        done = _run(command, directory)
    except subprocess.TimeoutExpired:
        unavailable(f"{command[0]} took more than {BUILD_LIMIT} s")
        return
    if done.returncode != 0:
        unavailable(f"{' '.join(command[:2])} failed: {done.stdout[-600:]}")


def compile_program(command: list[str], directory: Path) -> None:
    """Build our own program; a failure is a mistake in it."""
    done = _run(command, directory)
    assert done.returncode == 0, done.stdout


def _run(command: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_LIMIT,
    )
