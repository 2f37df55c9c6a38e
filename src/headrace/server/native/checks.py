"""Keys of topic exchanges, which the native protocol is stricter about than AMQP."""

from __future__ import annotations

import re
from itertools import pairwise

from headrace.errors import PreconditionFailed

_ROUTING = re.compile(r"[A-Za-z0-9_.]*").fullmatch
_WORD = re.compile(r"[A-Za-z0-9_]*|\*|#").fullmatch


def check_routing_key(key: str) -> None:
    """Letters, digits, `_` and `.`; may be empty."""
    if _ROUTING(key) is None:
        raise PreconditionFailed(
            f"routing key '{key}' of a topic exchange may have letters, digits, _ and . only"
        )


def check_binding_key(key: str) -> None:
    """The same, and `*` and `#` as whole words; `#` may stand neither beside `#` nor `*`."""
    words = key.split(".")
    if not all(map(_WORD, words)):
        raise PreconditionFailed(
            f"binding key '{key}' of a topic exchange may have letters, digits, _ and . only, "
            "and * and # as whole words"
        )
    for left, right in pairwise(words):
        if "#" in (left, right) and left in ("#", "*") and right in ("#", "*"):
            raise PreconditionFailed(f"binding key '{key}': # may not stand beside # or *")
