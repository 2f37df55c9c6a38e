"""Expressions which choose among the messages of a topic: tags, or conditions in SQL.

Pure rules, used by the broker, the client and Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from headrace.errors import SelectorError
from headrace.model.selectors.sql import SqlSelector
from headrace.model.selectors.tags import EVERYTHING, TagSelector, tag_code

TAG = "TAG"
SQL92 = "SQL92"

__all__ = [
    "EVERYTHING",
    "SQL92",
    "TAG",
    "Selector",
    "SqlSelector",
    "TagSelector",
    "compile_selector",
    "tag_code",
]


class Selector(Protocol):
    """What both kinds can do."""

    @property
    def expression(self) -> str: ...

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Whether a message with these properties is chosen; its tag is one of them."""
        ...


def compile_selector(kind: str | None, expression: str) -> Selector:
    """The selector of a subscription; SelectorError when it cannot be understood."""
    if not kind or kind.upper() == TAG:
        return TagSelector.parse(expression)
    if kind.upper() == SQL92:
        return SqlSelector.parse(expression)
    raise SelectorError(f"expressions are of the types TAG and SQL92, not '{kind:.64}'")
