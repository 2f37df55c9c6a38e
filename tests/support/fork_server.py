"""`python -m headrace ...` by forking a process that has imported the package already.

Imports are most of what a short command or the start of a broker costs, and tests start hundreds
of them. `ForkingPopen` is `subprocess.Popen` for such commands; everything else, and what has to be
set before the first import, is started as usual. A test of imports, start-up time, memory or the
command line must use `subprocess.Popen`.
"""

from __future__ import annotations

import gc
import io
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, NoReturn

PACKAGES = ("cli", "client", "core", "model", "server", "store", "wire")
"""What is imported in advance, without what needs extras."""
HEAVY = ("headrace.cli.spark", "headrace.store.mysql", "headrace.store.sql")
COMMAND = [sys.executable, "-m", "headrace"]
_READ_AT_IMPORT = ("PYTHON", "HEADRACE_FAILPOINT")
_LARGEST = 1 << 20
_GIVEN = list(signature(subprocess.Popen._execute_child).parameters)[2:]  # type: ignore[attr-defined]
_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
_UNSUPPORTED = ("executable", "preexec_fn", "pass_fds", "shell", "gid", "gids", "uid", "umask",
                "process_group")  # fmt: skip


class ForkingPopen(subprocess.Popen[bytes]):
    """A `subprocess.Popen` whose child is forked where the package is loaded, if it can be."""

    _forked = False

    def _execute_child(self, args: Any, *rest: Any) -> None:  # noqa: ANN401
        given = dict(zip(_GIVEN, rest, strict=True))
        env = dict(os.environ if given["env"] is None else given["env"])
        if list(args[:3]) != COMMAND or not _is_plain(given) or _is_set_before_imports(env):
            super()._execute_child(args, *rest)  # type: ignore[misc]
            return
        pipes = (given["p2cread"], given["c2pwrite"], given["errwrite"])
        request = {
            "args": list(map(os.fspath, args[3:])),
            "cwd": os.fspath(given["cwd"] or os.getcwd()),
            "env": env,
            "new_session": given["start_new_session"],
        }
        fds = [fd if pipe == -1 else pipe for fd, pipe in enumerate(pipes)]
        self.pid = _server().request(request, fds)
        self._forked = self._child_created = True
        self._close_pipe_fds(*(given[name] for name in _PIPES))  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """As os.waitpid(); its parent is the server."""
        if not self._forked:
            return super()._try_wait(wait_flags)  # type: ignore[misc, no-any-return]
        if not wait_flags & os.WNOHANG:
            watch = os.pidfd_open(self.pid)
            select.select([watch], [], [])
            os.close(watch)
        status = _server().request({"wait": self.pid})
        return (0, 0) if status < 0 else (self.pid, status)

    def _internal_poll(self, *args: Any, **named: Any) -> int | None:  # noqa: ANN401
        if not self._forked:
            return super()._internal_poll(*args, **named)  # type: ignore[misc, no-any-return]
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid == self.pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


def _is_plain(given: dict[str, Any]) -> bool:
    """Whether the child needs nothing that only subprocess can do."""
    unset = (None, -1, False, ())
    return all(given[name] in unset for name in _UNSUPPORTED)


def _is_set_before_imports(env: dict[str, str]) -> bool:
    def relevant(values: dict[str, str]) -> dict[str, str]:
        return {
            key: value
            for key, value in values.items()
            if key.startswith(_READ_AT_IMPORT) and key != "PYTHONPATH"
        }

    return relevant(env) != relevant(dict(os.environ))


class _ForkServer:
    """The process to fork, as seen by the tests."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")},
            )
        self._lock = threading.Lock()

    def request(self, request: dict[str, Any], fds: list[int] | None = None) -> int:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], fds or [])
            return int(self._socket.recv(64))


_running: list[_ForkServer] = []


def _server() -> _ForkServer:
    if not _running:
        _running.append(_ForkServer())
    return _running[0]


# -- the process itself --------------------------------------------------------------------------


def _serve(connection: socket.socket) -> None:
    """Fork a child per request, and answer with its pid; or with its status once it has ended."""
    while True:
        data, fds, _, _ = socket.recv_fds(connection, _LARGEST, 3)
        if not data:
            return  # the tests have ended
        request = json.loads(data)
        if "wait" in request:
            pid, status = os.waitpid(request["wait"], os.WNOHANG)
            reply = status if pid else -1
        else:
            reply = os.fork()
            if not reply:
                connection.close()
                _run(request, fds)
        connection.send(str(reply).encode())
        for fd in fds:
            os.close(fd)


def _run(request: dict[str, Any], fds: list[int]) -> NoReturn:
    """Become the command."""
    if request["new_session"]:
        os.setsid()
    os.chdir(request["cwd"])
    for target, fd in enumerate(fds):
        os.dup2(fd, target)
    for fd in fds:
        os.close(fd)
    os.environ.clear()
    os.environ.update(request["env"])
    unbuffered = "PYTHONUNBUFFERED" in os.environ
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    for fd, name, errors in ((1, "stdout", "strict"), (2, "stderr", "backslashreplace")):
        raw = open(fd, "wb", buffering=0 if unbuffered else -1, closefd=False)  # noqa: SIM115
        stream = io.TextIOWrapper(
            raw, "utf-8", errors, line_buffering=os.isatty(fd) or fd == 2, write_through=unbuffered
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.path[0] = request["cwd"]
    sys.argv = ["headrace", *request["args"]]
    from headrace.cli.main import main

    sys.exit(main(request["args"]))


def _preload() -> None:
    import headrace

    for package in PACKAGES:
        root = f"{Path(headrace.__file__).parent / package}"
        for found in pkgutil.walk_packages([root], f"headrace.{package}."):
            if not found.name.startswith(HEAVY):
                import_module(found.name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path[0] = ""
    _preload()
    _serve(socket.socket(fileno=int(sys.argv[1])))
