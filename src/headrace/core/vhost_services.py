"""What every part of a vhost may use: it gets this instead of the vhost."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.clock import Clock, Timers
from headrace.core.loop_turn import LoopTurn
from headrace.core.storage import Storage


@dataclass(frozen=True, slots=True)
class VhostServices:
    """The vhost's name, and what it shares with all others."""

    name: str
    clock: Clock
    timers: Timers
    turn: LoopTurn
    storage: Storage
