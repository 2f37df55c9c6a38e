"""The parts of an SQL condition, as they were written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

Value: TypeAlias = str | int | float | bool | None  # None: not known


@dataclass(frozen=True, slots=True)
class Constant:
    value: Value


@dataclass(frozen=True, slots=True)
class Property:
    """The value of a property, always text."""

    name: str


@dataclass(frozen=True, slots=True)
class Negation:
    """A minus before something that is no number: not known, whatever it is."""

    inner: Node


@dataclass(frozen=True, slots=True)
class Not:
    inner: Node


@dataclass(frozen=True, slots=True)
class And:
    """All of them: AND."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One of them: OR."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Equal:
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Comparison:
    """`sign` is one of < <= > >=."""

    sign: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class IsNull:
    inner: Node


@dataclass(frozen=True, slots=True)
class In:
    """IN: the property is one of these texts."""

    name: str
    values: frozenset[str]


@dataclass(frozen=True, slots=True)
class TextMatch:
    """`how` is one of CONTAINS, STARTSWITH, ENDSWITH; with NOT before it, ``inverted``."""

    how: str
    inner: Node
    text: str
    inverted: bool


Node: TypeAlias = (
    Constant | Property | Negation | Not | And | Or | Equal | Comparison | IsNull | In | TextMatch
)

CONDITIONS = (Not, And, Or, Equal, Comparison, IsNull, In, TextMatch)


def encoded(node: Node) -> list[object]:
    """The name of its class, then its fields, as nested lists: for programs in other languages."""
    return [type(node).__name__, *(_plain(getattr(node, name)) for name in node.__slots__)]


def _plain(value: Any) -> object:  # noqa: ANN401 - a field
    if isinstance(value, tuple | frozenset):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, str | int | float) else encoded(value)


def is_condition(node: Node) -> bool:
    """Whether it says yes or no by itself."""
    if isinstance(node, Constant):
        return node.value is None or isinstance(node.value, bool)
    return isinstance(node, CONDITIONS)
