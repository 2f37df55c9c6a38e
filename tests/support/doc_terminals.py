"""Programs of a page, run as a reader would: some stay in their terminals, others come and go."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.testing import wait_for
from support import doc_pages

SECONDS = 30


@dataclass(frozen=True)
class Program:
    """One that stays, and what it has printed."""

    process: subprocess.Popen[bytes]
    command: doc_pages.Command
    screen: Path

    def has_lines(self, count: int) -> bool:
        printed = self.screen.read_text("utf-8")
        assert self.process.poll() is None, f"it has ended by itself:\n{printed}"
        return printed.count("\n") >= count


class Terminals:
    """One reader's terminals in one directory. close() ends what still runs."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._directory = directory
        self._environment = {**environment, "PYTHONUNBUFFERED": "1"}
        self._programs: list[Program] = []

    def play(self, command: doc_pages.Command) -> None:
        if command.stays:
            self._start(command)
        else:
            _compare(command, "".join(self._run(line) for line in command.lines))

    def _run(self, line: list[str]) -> str:
        done = subprocess.run(
            _arguments(line),
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _start(self, command: doc_pages.Command) -> None:
        """Returns when its first line is there: it is ready then."""
        (line,) = command.lines
        screen = self._directory / f"screen-{command.line}.txt"
        with screen.open("wb") as output:
            process = subprocess.Popen(
                _arguments(line),
                cwd=self._directory,
                env=self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        program = Program(process, command, screen)
        self._programs.append(program)
        wait_for(lambda: program.has_lines(1), timeout=SECONDS)

    def check(self) -> None:
        """What stays prints what the page shows, and no more."""
        for one in self._programs:
            lines = one.command.output.count("\n")
            wait_for(lambda one=one, lines=lines: one.has_lines(lines), timeout=SECONDS)
        for one in self._programs:
            _compare(one.command, one.screen.read_text("utf-8"))

    def close(self) -> None:
        for one in self._programs:
            one.process.kill()
            one.process.wait(SECONDS)


def _compare(command: doc_pages.Command, printed: str) -> None:
    assert doc_pages.pattern(command.output).fullmatch(printed.strip()), (
        f"line {command.line} printed:\n{printed}\nbut the page says:\n{command.output}"
    )


def _arguments(line: list[str]) -> list[str]:
    assert line[0] == "python", "pages run programs of their own"
    return [sys.executable, *line[1:]]
