"""Running commands: in this process, as a process, on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

import headrace
from headrace.cli.main import main
from support.fork_server import COMMAND, ForkingPopen


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def call(capsys: pytest.CaptureFixture[str], *args: str) -> Outcome:
    """Run a command here; nothing is a terminal."""
    capsys.readouterr()
    code = main(args)
    told = capsys.readouterr()
    return Outcome(code, told.out, told.err)


def environment() -> dict[str, str]:
    """For processes: HEADRACE_URL is the test's, the code is ours."""
    return {**os.environ, "PYTHONPATH": str(Path(headrace.__file__).parents[1]), "COLUMNS": "80"}


def run(*args: str, input: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run a command as a process and wait."""
    pipe, source = subprocess.PIPE, None if input is None else subprocess.PIPE
    command = [*COMMAND, *args]
    with ForkingPopen(command, stdin=source, stdout=pipe, stderr=pipe, env=environment()) as done:
        out, err = done.communicate(input, timeout=60)
    return subprocess.CompletedProcess(command, done.returncode, out, err)


@contextmanager
def started(*args: str, **pipes: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command as a process; killed at the end if it has not ended."""
    with ForkingPopen([*COMMAND, *args], env=environment(), **pipes) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def on_terminal(*args: str, typed: bytes = b"", errors_too: bool = False) -> Outcome:
    """Run a command with a terminal of 80 columns as its input and output (and for errors)."""
    leader, follower = pty.openpty()
    environ = {**environment(), "TERM": "xterm"}
    try:
        process = ForkingPopen(
            [*COMMAND, *args],
            stdin=follower,
            stdout=follower,
            stderr=follower if errors_too else subprocess.PIPE,
            env=environ,
        )
        os.close(follower)
        if typed:
            os.write(leader, typed)
        shown = b"".join(iter(lambda: _read(leader), b""))
        err = process.communicate(timeout=30)[1]
    finally:
        os.close(leader)
    return Outcome(process.returncode, shown.decode(), (err or b"").decode())


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65536)
    except OSError:  # Linux: the last one at the other end has gone
        return b""
