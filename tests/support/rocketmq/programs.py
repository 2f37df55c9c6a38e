"""The programs in other languages, each built once; all know the same scenarios.

    PROGRAM SCENARIO NAMESERVER TOPIC

What a program has to say begins with `> `. The scenarios `member` and `broadcasting` consume until
they are killed, with the group `C` + TOPIC, and say the body of every message.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
from pathlib import Path

from support.rocketmq.apache import OLD_VERSION, VERSION, libraries
from support.rocketmq.sql_expressions import PROPERTIES
from support.toolchain import cache_for, compile_program, fetch, need

HERE = Path(__file__).parents[2] / "interop" / "rocketmq"
CPP = "rocketmq==0.4.4"
NODE = "ali-ons@3.12.0"


def program(client: str) -> list[str]:
    """The command of a client: java, old-java, cpp, go or node."""
    if client in ("java", "old-java"):
        return java(OLD_VERSION if client == "old-java" else VERSION)
    return {"cpp": cpp, "go": go, "node": node}[client]()


def filtered(expressions: list[str]) -> list[str]:
    """The verdict of Apache's filter on each: match, no match or refused."""
    properties = [f"{name}={value}" for name, value in PROPERTIES.items()]
    lines = "".join(f"{base64.b64encode(one.encode()).decode()}\n" for one in expressions)
    done = subprocess.run(
        [*java(VERSION, "Filter"), *properties],
        input=lines,
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    return [line[2:] for line in done.stdout.splitlines() if line.startswith("> ")]


def java(version: str, name: str = "Scenarios") -> list[str]:
    need("javac")
    classpath = libraries(version)
    source = HERE / "java" / f"{name}.java"
    target = cache_for(f"rocketmq-java-{version}", source.read_bytes())
    if not (target / f"{name}.class").exists():
        compile_program(
            ["javac", "-nowarn", "-d", str(target), "-cp", classpath, str(source)], target
        )
    home = f"-Duser.home={target}"
    return ["java", "-XX:TieredStopAtLevel=1", home, "-cp", f"{target}:{classpath}", name]


def cpp() -> list[str]:
    target = cache_for("rocketmq-cpp", CPP.encode(), sys.version.encode())
    python = target / "venv" / "bin" / "python"
    if not (target / "complete").exists():
        fetch([sys.executable, "-m", "venv", str(target / "venv")], target)
        fetch([str(python), "-m", "pip", "install", "-q", CPP], target)
        (target / "complete").touch()
    return [str(python), str(HERE / "cpp" / "scenarios.py")]


def go() -> list[str]:
    need("go")
    sources = sorted((HERE / "go").iterdir())
    target = cache_for("rocketmq-go", *(source.read_bytes() for source in sources))
    program = target / "scenarios"
    if not program.exists():
        for source in sources:
            shutil.copy(source, target)
        fetch(["go", "mod", "download"], target)
        compile_program(["go", "build", "-o", str(program), "."], target)
    return [str(program)]


def node() -> list[str]:
    need("node", "npm")
    target = cache_for("rocketmq-node", NODE.encode())
    if not (target / "node_modules" / "ali-ons").is_dir():
        (target / "package.json").write_text('{"private": true}')
        fetch(["npm", "install", "--no-audit", "--no-fund", NODE], target)
    # a required module is searched from the program's own directory upwards, so it runs there
    shutil.copy(HERE / "node" / "scenarios.js", target)
    return ["node", str(target / "scenarios.js")]
