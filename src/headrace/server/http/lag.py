"""How late the event loop is: a timer that knows when it should have fired."""

from __future__ import annotations

import asyncio

from headrace.model.histogram import Histogram

EVERY_SECONDS = 0.5


class LagMeter:
    """Two wake-ups a second, and a number in a bucket for each."""

    def __init__(self) -> None:
        self.lag = Histogram()
        self.last = 0.0
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + EVERY_SECONDS

        def fire() -> None:
            self.last = max(0.0, loop.time() - due)
            self.lag.observe(self.last)
            self.start()

        self._handle = loop.call_at(due, fire)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
