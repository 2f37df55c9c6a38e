"""Signal handlers for the time of a block."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], object]


@contextmanager
def handled_signals(handler: Handler, *numbers: int, once: bool = False) -> Iterator[None]:
    """With ``once``, the first signal brings the earlier handlers back. Only the main thread can
    have handlers; in another one nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in numbers}

    def restore() -> None:
        for number, previous in before.items():
            signal.signal(number, previous)

    def handle(number: int, frame: FrameType | None) -> None:
        if once:
            restore()
        handler(number, frame)

    for number in numbers:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()


def interrupt(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends like Ctrl-C: what was started is stopped on the way out."""
    raise KeyboardInterrupt
