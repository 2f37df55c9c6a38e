"""What a confirm waits for besides the log: other engines, counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class EngineConfirms:
    """Done when every engine has answered; one failure makes it a refusal."""

    __slots__ = ("_then", "_waiting", "failed")

    def __init__(self) -> None:
        self._waiting = 0
        self._then: Callable[[], None] | None = None
        self.failed = False

    @property
    def is_done(self) -> bool:
        return not self._waiting

    def add(self) -> None:
        """One more engine has to answer."""
        self._waiting += 1

    def done(self, *, ok: bool) -> None:
        """One engine has answered."""
        self._waiting -= 1
        self.failed = self.failed or not ok
        if not self._waiting and self._then is not None:
            then, self._then = self._then, None
            then()

    def when_done(self, then: Callable[[], None]) -> None:
        """Call back once all have answered; at once if they have."""
        if self.is_done:
            then()
        else:
            self._then = then


def when_all_done(engine_confirms: Sequence[EngineConfirms], then: Callable[[], None]) -> None:
    """Call back once all engines have replied."""
    left = len(engine_confirms)

    def one_done() -> None:
        nonlocal left
        left -= 1
        if not left:
            then()

    for confirms in engine_confirms:
        confirms.when_done(one_done)
