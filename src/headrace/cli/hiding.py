"""Passwords in URLs, taken off the command line: everybody on the machine can read that one.

The process starts itself again, under the same number, with the password replaced by stars; what
was really said travels in its environment, which only its owner can read.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Sequence

VARIABLE = "HEADRACE_HIDDEN_COMMAND_LINE"
_PASSWORD = re.compile(r"(://[^/@:\s]*:)[^@\s]+(?=@)")


def shown(words: Sequence[str]) -> list[str]:
    """The words of a command line with stars for passwords."""
    return [_PASSWORD.sub(r"\1***", word) for word in words]


def hide_passwords() -> list[str] | None:
    """The words of the command line; None: they are where they always are.

    Does not return when it starts the process again.
    """
    given = os.environ.pop(VARIABLE, None)
    if given is not None:
        words: list[str] = json.loads(given)
        return words
    said = sys.argv[1:]
    hidden = shown(said)
    before = sys.orig_argv[: len(sys.orig_argv) - len(said)]
    if hidden == said or not sys.executable or sys.orig_argv != [*before, *said]:
        return None
    with contextlib.suppress(OSError):  # it is a precaution: without it the command still works
        os.execve(sys.executable, [*before, *hidden], {**os.environ, VARIABLE: json.dumps(said)})
    return None
