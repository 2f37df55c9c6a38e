"""Checks of routing keys, binding keys and arguments that the native protocol accepts."""

from __future__ import annotations

import re
from itertools import pairwise

from headrace.errors import MalformedError, PreconditionFailed
from headrace.wire.amqp.values import encode_table
from headrace.wire.native.payloads import Request

MAX_ARGUMENT_BYTES = 1 << 16  # as much as an AMQP client can always send
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


def checked_arguments(request: Request) -> dict[str, object]:
    """The request's arguments; PreconditionFailed when AMQP had no room for them.

    Names, nesting and sizes are those of AMQP tables: everything that is declared can be shown to,
    and compared with, what AMQP clients declare.
    """
    arguments = request.table("arguments")
    if not arguments:
        return {}
    try:
        size = len(encode_table(arguments))
    except MalformedError as error:
        raise PreconditionFailed(f"arguments: {error}") from None
    if size > MAX_ARGUMENT_BYTES or not all(type(name) is str for name in arguments):
        raise PreconditionFailed(
            f"arguments: keys must be text, and all at most {MAX_ARGUMENT_BYTES} bytes"
        )
    return arguments
