"""What callers of the engine may ask for; BadTopicValue before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.errors import BadTopicValue
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.names import check_token
from headrace.store.mysql.stable_ids import Bounds
from headrace.store.topics.types import EARLIEST, LATEST, ConsumerSpec

MAX_BATCH: Final = 100_000
MAX_LEASE_MS: Final = 366 * 24 * 3_600_000
MAX_DELAY_MS: Final = 30 * 24 * 3_600_000


def check_batch(batch: int) -> None:
    if not 1 <= batch <= MAX_BATCH:
        raise BadTopicValue(f"a batch has 1 to {MAX_BATCH:,} messages, not {batch}")


def check_delay(delay_ms: int) -> None:
    if not 0 <= delay_ms <= MAX_DELAY_MS:
        raise BadTopicValue(f"a delay is from 0 to {MAX_DELAY_MS} ms, not {delay_ms}")


def check_reader(reader: ConsumerSpec, *, as_group: bool = False) -> None:
    """BadTopicValue for what no reader can be. A group needs no token to be asked about."""
    if reader.token or reader.group is None or not as_group:
        check_token(reader.token)
    if reader.group is not None:
        check_token(reader.group, "group")
    if reader.start not in (EARLIEST, LATEST):
        raise BadTopicValue(f"start {reader.start!r} is unknown: earliest or latest")
    if reader.lease_ms < 1 or reader.max_attempts < 1 or not 0 <= reader.min_share <= 50:
        raise BadTopicValue("a lease and the number of attempts are from 1 on, min_share 0 to 50")
    if reader.lease_ms > MAX_LEASE_MS:
        raise BadTopicValue(f"a lease is up to {MAX_LEASE_MS} ms, not {reader.lease_ms}")


def checked_positions(
    positions: Mapping[Priority, int], bounds: Mapping[Priority, Bounds]
) -> dict[Priority, int]:
    """Positions inside what there is: before the first message means the first."""
    if any(position < 0 for position in positions.values()):
        raise BadTopicValue("a position is from 0 on")
    return {
        priority: min(max(position, bounds[priority].low - 1), bounds[priority].stable)
        for priority, position in positions.items()
    }
