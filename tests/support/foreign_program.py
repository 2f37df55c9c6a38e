"""Runs one scenario of a foreign program and does what the program asks for while it runs.

A program gets a scenario, a URL and a name as arguments, writes requests for help ("cut", "stop")
as single lines to its output, reads "done" for each, and ends with one line of JSON.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping

LIMIT = 40.0


def run_scenario(
    command: list[str], scenario: str, url: str, name: str, help_with: Mapping[str, Callable]
) -> object:
    """What the program reported; an AssertionError with its output when it failed."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [*command, scenario, url, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        # a killed process ends its output, so this bounds the reading below as well
        watchdog = threading.Timer(LIMIT, process.kill)
        watchdog.start()
        try:
            lines = _converse(process, help_with)
            code = process.wait(LIMIT)
        finally:
            watchdog.cancel()
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
        errors.seek(0)
        assert code == 0 and lines, f"exit code {code}: {lines}\n{errors.read()}"
        return json.loads(lines[-1])


def _converse(process: subprocess.Popen[str], help_with: Mapping[str, Callable]) -> list[str]:
    lines = []
    for line in process.stdout:
        word = line.strip()
        if word in help_with:
            help_with[word]()
            process.stdin.write("done\n")
            process.stdin.flush()
        elif word:
            lines.append(word)
    return lines
