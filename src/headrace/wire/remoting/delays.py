"""Delay levels: a message says how long it waits by a number from 1 to 18."""

from __future__ import annotations

LEVELS = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
FIRST_RETRY_LEVEL = 3  # 10 seconds; each retry waits one level longer


def delay_seconds(level: int) -> int:
    """Seconds to wait; 0 for no delay. A level above the highest is the highest."""
    if level <= 0:
        return 0
    return LEVELS[min(level, len(LEVELS)) - 1]


def retry_level(reconsume_times: int) -> int:
    """The level of the next try when the consumer leaves it to the broker."""
    return min(FIRST_RETRY_LEVEL + max(reconsume_times, 0), len(LEVELS))
