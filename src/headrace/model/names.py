"""Names of queues, exchanges and consumers: which are allowed, and which the broker makes up.

Randomness is passed in; nothing here draws it.
"""

from __future__ import annotations

import base64

from headrace.errors import AccessRefused, PreconditionFailed

RESERVED_PREFIX = "amq."
MAX_NAME_BYTES = 255
RANDOM_BYTES = 16


def generated_queue_name(random: bytes) -> str:
    """The name of a queue declared without one, from 16 random bytes."""
    return "amq.gen-" + _suffix(random)


def generated_consumer_tag(random: bytes) -> str:
    """The tag of a consumer registered without one, from 16 random bytes."""
    return "amq.ctag-" + _suffix(random)


def check_new_name(kind: str, name: str) -> None:
    """Refuse a reserved or invalid name; `kind` is "queue" or "exchange"."""
    if name.startswith(RESERVED_PREFIX):
        raise AccessRefused(f"{kind} name '{name}' contains reserved prefix '{RESERVED_PREFIX}*'")
    size = len(name.encode("utf-8", "surrogateescape"))
    if size > MAX_NAME_BYTES:
        raise PreconditionFailed(
            f"{kind} name is too long: {size} bytes, at most {MAX_NAME_BYTES} are allowed"
        )


def _suffix(random: bytes) -> str:
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"{RANDOM_BYTES} random bytes are needed, not {len(random)}")
    return base64.urlsafe_b64encode(random).rstrip(b"=").decode("ascii")
