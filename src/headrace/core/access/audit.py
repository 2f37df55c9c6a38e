"""Audit log: one line per administrative action, with user and address, on a separate logger.

A front door sets the user once with `acting`; the core calls `record` where things change. No
secret is ever passed here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

logger = logging.getLogger("headrace.audit")


class Actor(NamedTuple):
    user: str
    address: str


BROKER = Actor("", "")  # the broker itself: at start, from its configuration
_actor: ContextVar[Actor] = ContextVar("headrace_actor", default=BROKER)


@contextmanager
def acting(user: str, address: str) -> Iterator[None]:
    """Everything inside is done by this user, from this address."""
    token = _actor.set(Actor(user, address))
    try:
        yield
    finally:
        _actor.reset(token)


def record(action: str, **details: object) -> None:
    """Note an action. Values are quoted: a name cannot make up a line of its own."""
    actor = _actor.get()
    who = f"user {actor.user!r} from {actor.address}" if actor != BROKER else "the broker"
    what = " ".join(f"{name}={value!r}" for name, value in details.items())
    # What the broker does by itself follows from its files: no news for an operator.
    level = logging.DEBUG if actor == BROKER else logging.INFO
    logger.log(level, "%s: %s %s", who, action, what)
