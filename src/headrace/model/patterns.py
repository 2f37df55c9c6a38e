"""Regular expressions of users: they can neither hold the event loop nor fill the memory.

RE2 matches in time that is linear in the name. What it cannot express (lookaround, references to
groups) is matched by backtracking within a budget of processor time. Both search anywhere in the
name, as RabbitMQ does.
"""

from __future__ import annotations

import contextlib
import logging
import math
import re
import warnings
from collections.abc import Callable
from typing import Final

import re2
import regex

from headrace.errors import PreconditionFailed

logger = logging.getLogger(__name__)

MAX_PATTERN: Final = 1024  # characters
MAX_PROGRAM: Final = 2048  # instructions of RE2: at most 0.4 ms for a name of 255 bytes
MAX_MEMORY: Final = 1 << 20  # bytes of RE2 for one pattern
# Backtracking engines unroll counted repeats: the length times all counts. Measured: 15 ms, 10 MiB.
MAX_UNROLLED: Final = 1 << 15
BUDGET_SECONDS: Final = 0.0005  # of the process, for one name; ordinary ones take 0.00001
MAX_TIMEOUTS: Final = 16  # after them a pattern matches nothing more
MAX_ANSWERS: Final = 4096  # remembered per pattern: names come from clients


class Pattern:
    """One pattern; `matches` remembers its answers."""

    __slots__ = ("_answers", "_search", "_timeouts", "text")

    def __init__(self, text: str, search: Callable[[str], object]) -> None:
        self.text = text
        self._search = search
        self._answers: dict[str, bool] = {}
        self._timeouts = 0

    def matches(self, name: str) -> bool:
        """Whether the pattern is found in the name; False if that takes too long to find out."""
        answer = self._answers.get(name)
        if answer is None:
            answer = self._timeouts < MAX_TIMEOUTS and self._found(name)
            if len(self._answers) >= MAX_ANSWERS:
                self._answers.clear()
            self._answers[name] = answer
        return answer

    def _found(self, name: str) -> bool:
        for _ in range(2):  # another thread of the process may have used up the first budget
            with contextlib.suppress(TimeoutError):
                return self._search(name) is not None
        self._timeouts += 1
        if self._timeouts in (1, MAX_TIMEOUTS):
            rest = "" if self._timeouts == 1 else "; it is off until it is set again"
            logger.warning(
                "pattern %r takes too long for the name %r and counts as no match%s",
                self.text, name, rest,
            )  # fmt: skip
        return False


def compile_pattern(text: str, *, ignore_case: bool = False) -> Pattern:
    """Raise PreconditionFailed for text that is no regular expression, or is too large."""
    if len(text) > MAX_PATTERN:
        raise PreconditionFailed(
            f"pattern is too long: {len(text)} characters, at most {MAX_PATTERN} are allowed"
        )
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = MAX_MEMORY
    options.case_sensitive = not ignore_case
    try:
        linear = re2._Regexp(text, options)  # re2.compile would keep 128 of them
    except (re2.error, UnicodeEncodeError):
        return _backtracking(text, ignore_case)
    if linear.programsize > MAX_PROGRAM:
        raise _too_large(text)
    return Pattern(text, lambda name: linear.search(name.encode("utf-8", "replace")))


def stored_pattern(text: str) -> Pattern:
    """The same for text that was accepted before: if it is refused now, it matches nothing."""
    try:
        return compile_pattern(text)
    except PreconditionFailed as error:
        logger.warning("a stored pattern matches nothing: %s", error)
        return Pattern(text, lambda name: None)


def _backtracking(text: str, ignore_case: bool) -> Pattern:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Python warns where its syntax is about to change
            re.compile(text)
            if _unrolled(text) > MAX_UNROLLED:
                raise _too_large(text)
            search = regex.compile(text, regex.IGNORECASE if ignore_case else 0).search
    except (re.error, regex.error, RecursionError, OverflowError, Warning) as error:
        raise PreconditionFailed(f"invalid pattern '{text}': {error}") from None
    return Pattern(text, lambda name: search(name, timeout=BUDGET_SECONDS))


def _unrolled(text: str) -> int:
    """At least as many characters as the pattern has with its counted repeats written out."""
    counts = (re.findall(r"[0-9]+", part) for part in re.findall(r"\{[^}]*", text))
    return len(text) * math.prod(max(map(int, part), default=1) or 1 for part in counts)


def _too_large(text: str) -> PreconditionFailed:
    return PreconditionFailed(f"pattern '{text}' is too large: write fewer or smaller repeats")
