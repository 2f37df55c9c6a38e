"""What a topic, a token and a group may be called."""

from __future__ import annotations

import re
from typing import Final

from headrace.errors import BadTopicName, BadTopicValue

MAX_TOPIC: Final = 40
MAX_TOKEN: Final = 255
_TOPIC: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
_PRIORITY_ENDINGS: Final = ("_low", "_middle", "_high")
_TOKEN: Final = re.compile(r"[!-~]{1,255}")


def check_topic(name: str) -> str:
    """The name, or BadTopicName. It becomes part of table names: nothing else is let through, and
    case is never folded, because databases differ in how they do it."""
    if not isinstance(name, str) or not _TOPIC.fullmatch(name):
        raise BadTopicName(
            f"topic name {name!r} is refused: 1 to {MAX_TOPIC} of a-z, 0-9 and _, a letter first"
        )
    if name.endswith(_PRIORITY_ENDINGS):
        raise BadTopicName(
            f"topic name {name!r} is refused: it ends like a priority (_low, _middle, _high)"
        )
    return name


def check_token(token: str, what: str = "token") -> str:
    """Tokens and group names: printable ASCII without spaces, case-sensitive."""
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise BadTopicValue(
            f"{what} {token!r} is refused: 1 to {MAX_TOKEN} printable ASCII characters, no spaces"
        )
    return token
