"""Arguments of declarations and bindings, checked before the core keeps them."""

from __future__ import annotations

from headrace.errors import MalformedError, PreconditionFailed
from headrace.wire.amqp.values import encode_table
from headrace.wire.native.payloads import Request

MAX_BYTES = 1 << 16  # as much as an AMQP client could send at the very least


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
    if size > MAX_BYTES or not all(type(name) is str for name in arguments):
        raise PreconditionFailed(f"arguments: text keys and at most {MAX_BYTES} bytes are allowed")
    return arguments
