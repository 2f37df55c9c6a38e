"""Runs `headrace` command lines quickly, if need be on a disk with an unreadable place.

Run as a program it forks a process for each line that it reads from its input: Python and the
package are loaded once for hundreds of cases.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

_SOURCE = Path(__file__).with_name("unreadable.c")


class Unreadable(NamedTuple):
    """Bytes of a file that the disk cannot read."""

    file: Path
    start: int
    stop: int


def compile_library(directory: Path) -> Path | None:
    """None where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    target = directory / "unreadable.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", str(target), str(_SOURCE), "-ldl"], check=True
    )
    return target


class Programs:
    """Starts command lines; use it in a `with` block."""

    def __init__(self, library: Path | None) -> None:
        from support import brokers  # not known to the program below

        self.library = library
        preload = {} if library is None else {"LD_PRELOAD": str(library)}
        self._server = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=brokers._environment({**preload, "UNREADABLE": str(library or "")}),
            text=True,
        )

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.communicate(timeout=30)  # it ends with its input

    def start(self, args: list[str], output: Path, unreadable: Unreadable | None = None) -> int:
        """The process id."""
        bad = None if unreadable is None else [str(unreadable[0]), *unreadable[1:]]
        return int(self._ask(start=args, output=str(output), unreadable=bad))

    def wait(self, pid: int, seconds: float = 60) -> int | None:
        """The exit code; None when it still runs after that time."""
        answer = self._ask(wait=pid, seconds=seconds)
        return None if answer is None else int(answer)

    def run(self, args: list[str], output: Path, unreadable: Unreadable | None = None) -> int:
        pid = self.start(args, output, unreadable)
        code = self.wait(pid)
        if code is None:
            os.kill(pid, signal.SIGKILL)
            self.wait(pid)
            raise AssertionError(f"headrace {args[0]} did not end within 60 s")
        return code

    def _ask(self, **request: object) -> Any:  # noqa: ANN401 - a number or nothing
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())


# -- the program --------------------------------------------------------------------------------


def _child(request: dict[str, Any]) -> None:
    """Never returns."""
    from headrace.cli.main import main

    code = 70
    try:
        output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if request["unreadable"] is not None:
            file, start, stop = request["unreadable"]
            library = ctypes.CDLL(os.environ["UNREADABLE"])
            place = (os.fsencode(file), ctypes.c_long(start), ctypes.c_long(stop))
            assert library.make_unreadable(*place) == 0
        code = main(request["start"])
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(pid: int, seconds: float) -> int | None:
    import time

    deadline = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            return None
        time.sleep(0.005)


def _serve() -> None:
    import headrace.cli.main
    import headrace.server.app  # noqa: F401 - loaded before the forks

    for line in sys.stdin:
        request = json.loads(line)
        if "start" in request:
            answer: int | None = os.fork()
            if answer == 0:
                _child(request)
        else:
            answer = _wait(request["wait"], request["seconds"])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
