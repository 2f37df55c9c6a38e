"""Lock-out after wrong passwords: some are free, then the waits grow.

Counted per user and address: guesses from one address lock out neither other addresses nor other
users of the same address.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from headrace.errors import LoginLocked

logger = logging.getLogger(__name__)

FREE_FAILURES = 5  # typing errors, a deployment with the old password
LONGEST_SECONDS = 300.0
FORGOTTEN_AFTER = 900.0  # seconds without a failure
MAX_REMEMBERED = 10_000


@dataclass(slots=True)
class _FailureRecord:
    failures: int = 0
    last: float = 0.0
    locked_until: float = 0.0


class LoginGuard:
    """Remembers failures; bounded, the longest quiet are forgotten first."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._records: OrderedDict[tuple[str, str], _FailureRecord] = OrderedDict()

    def __len__(self) -> int:
        return len(self._records)

    def remembers(self, user: str, address: str) -> bool:
        """Whether the pair has failed lately."""
        return (user, address) in self._records

    def check(self, user: str, address: str) -> None:
        """LoginLocked while the pair has to wait; even the right password does not help then."""
        record = self._records.get((user, address))
        if record is None:
            return
        left = record.locked_until - self._now()
        if left > 0:
            raise LoginLocked(
                f"locked for {left:.0f} s more after {record.failures} failed logins of user "
                f"{user!r} from {address}"
            )

    def failed(self, user: str, address: str) -> None:
        now = self._now()
        record = self._records.pop((user, address), None)
        if record is None or now - record.last > FORGOTTEN_AFTER:
            record = _FailureRecord()
        record.failures += 1
        record.last = now
        over = record.failures - FREE_FAILURES
        if over >= 0:
            seconds = min(2.0 ** min(over, 30), LONGEST_SECONDS)
            record.locked_until = now + seconds
            logger.warning(
                "user %r from %s is locked for %.0f s after %d failed logins",
                user,
                address,
                seconds,
                record.failures,
            )
        self._records[user, address] = record
        if len(self._records) > MAX_REMEMBERED:
            self._records.popitem(last=False)

    def succeeded(self, user: str, address: str) -> None:
        self._records.pop((user, address), None)

    def forgive(self, user: str) -> None:
        """An operator set a new password: the lock-out of the user ends."""
        for key in [key for key in self._records if key[0] == user]:
            del self._records[key]
