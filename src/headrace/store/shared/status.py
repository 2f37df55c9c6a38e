"""What operators see of a shard: its nodes, its last commit, its last takeover, what is wrong."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from headrace.model.shard_ownership import ShardRow
from headrace.store.shared.database import ShardNode, ShardStatus, TakeOver

logger = logging.getLogger(__name__)

ALIVE_S: Final = 3.0
SLOW_S: Final = 2.0  # without a commit; an idle owner commits once a second

Alarms = dict[str, str]


class NodeWatch:
    """Which nodes are alive: those whose beats go on."""

    def __init__(self) -> None:
        self._beats: dict[str, tuple[int, float]] = {}

    def look(self, nodes: Sequence[ShardNode], now: float) -> dict[str, bool]:
        found = {}
        for one in nodes:
            beats, since = self._beats.get(one.name, (-1, now))
            if one.beats != beats:
                self._beats[one.name] = (one.beats, since := now)
            found[one.name] = now - since < ALIVE_S
        return found


class ShardReport:
    """Of the active node, kept up to date by its lease thread; read by any."""

    def __init__(self, shard: str, node: str) -> None:
        self._shard = shard
        self._node = node
        self._watch = NodeWatch()
        self._nodes: list[dict[str, object]] = []
        self._takeover: TakeOver | None = None
        self._alarms: Alarms = {}
        self._began: float | None = None

    def look(
        self, row: ShardRow, nodes: Sequence[ShardNode], takeovers: Sequence[TakeOver], now: float
    ) -> None:
        alive = self._watch.look(nodes, now)
        status = ShardStatus(row, self._node, "")
        self._nodes = [node_row(one, status, is_alive=alive[one.name]) for one in nodes]
        self._takeover = takeovers[0] if takeovers else None
        self._began = self._began or now

    def alarms(self, age: float, now: float, *, is_full: bool) -> Alarms:
        """By kind; each is logged when it begins and when it ends."""
        found: Alarms = {}
        started = self._began is not None and now - self._began >= ALIVE_S
        if started and not any(one["state"] == "standby" for one in self._nodes):
            found["no_standby"] = "no node stands by"
        if age > SLOW_S:
            found["database_slow"] = "the database is slow or unreachable"
        if is_full:
            found["database_full"] = "the database is full"
        for kind in found.keys() - self._alarms.keys():
            logger.warning("alarm: %s", found[kind])
        for kind in self._alarms.keys() - found.keys():
            logger.warning("alarm ended: %s", self._alarms[kind])
        self._alarms = found
        return found

    def shown(self, row: ShardRow, age: float, *, has_lease: bool) -> dict[str, object]:
        return {
            "shard": self._shard,
            "node": self._node,
            "epoch": row.epoch,
            "commit": row.seq,
            "seconds_since_commit": round(age, 3),
            "has_lease": has_lease,
            "nodes": self._nodes,
            "last_takeover": self._takeover._asdict() if self._takeover is not None else None,
            "alarms": self._alarms,
        }


def node_row(one: ShardNode, status: ShardStatus, *, is_alive: bool) -> dict[str, object]:
    is_active = one.name == status.node and status.row.owner is not None
    state = "active" if is_active else "standby"
    return {
        "node": one.name,
        "state": state if is_alive else "gone",
        "address": one.address,
        "version": one.version,
        "commits_behind": 0 if is_active else max(0, status.row.seq - one.cached),
    }
