"""For tests of programs that use a broker: a real one in a thread, a clock to move, patience.

Importing this package must stay free of cost: pytest loads the plugin in every run, needed or not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.core.clock import VirtualClock
    from headrace.server.embedded import QueueState
    from headrace.testing.broker import RunningBroker, run_broker
    from headrace.testing.wait import wait_for

__all__ = ["QueueState", "RunningBroker", "VirtualClock", "run_broker", "wait_for"]

_HOMES = {
    "QueueState": "headrace.server.embedded",
    "RunningBroker": "headrace.testing.broker",
    "VirtualClock": "headrace.core.clock",
    "run_broker": "headrace.testing.broker",
    "wait_for": "headrace.testing.wait",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
