"""Attacks by an ordinary user, and what each of them costs the broker and other users.

An attack is a generator function with the decorator ``attack``. What it does before its ``yield``
prepares the attack and is not measured; what it does afterwards is. A refusal by the broker ends
an attack without an error. ``python -m support.attacks`` prints a table (see ``__main__``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from support.attacks.target import Target

Run: TypeAlias = "Callable[[Target], Generator[None, None, None]]"

# Modules with attacks, in the order of the table.
MODULES = ("connections", "shares", "messages", "bindings", "decoders")


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack and its bounds."""

    name: str
    run: Run
    memory_mib: int = 256
    """How much the broker's resident memory may grow."""
    p99_ms: float = 50.0
    """Processor time of the loop that a bystander's round trip may cost, 99th percentile."""
    flags: tuple[str, ...] = ()
    """Flags of ``headrace serve``."""
    env: Mapping[str, str] = field(default_factory=dict)


ATTACKS: list[Attack] = []


def attack(
    name: str,
    *,
    memory_mib: int = 256,
    p99_ms: float = 50.0,
    flags: tuple[str, ...] = (),
    env: Mapping[str, str] | None = None,
) -> Callable[[Run], Run]:
    """Add the function to the list of attacks."""

    def register(run: Run) -> Run:
        ATTACKS.append(Attack(name, run, memory_mib, p99_ms, flags, env or {}))
        return run

    return register


def load() -> list[Attack]:
    """All attacks, and first the control run, in which nothing is attacked."""
    if not ATTACKS:
        for module in MODULES:
            import_module(f"support.attacks.{module}")
    return ATTACKS
