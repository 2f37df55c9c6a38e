"""Maps in JSON bodies <-> typed values, one frozen class per kind of map.

Attributes of the types str, int, bool, float and ``str | None`` need no more than a name, which
follows the rule of headers; for others the field says how they are read and written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from enum import IntEnum
from typing import Any, ClassVar, NamedTuple, Protocol, Self, dataclass_transform

from headrace.wire.remoting.headers.fields import named, wire_name
from headrace.wire.remoting.json_values import (
    body_map,
    items,
    json_bytes,
    member,
    real,
    table,
    text,
    truth,
    whole,
)

Read = Callable[[str, object], object]
Write = Callable[[Any], object]


class _Element(Protocol):
    def as_map(self) -> dict[str, object]: ...

    @classmethod
    def take(cls, value: object, /) -> Self: ...


def special(name: str, read: Read, write: Write, default: Any = MISSING) -> Any:  # noqa: ANN401
    return named(name, default, read=read, write=write)


def listed(name: str, kind: type[_Element], default: Any = MISSING) -> Any:  # noqa: ANN401
    """A list of maps, as a tuple."""
    return special(
        name,
        lambda name, value: tuple([kind.take(one) for one in items(name, value)]),
        lambda many: [one.as_map() for one in many],
        default,
    )


def enumerated(name: str, default: IntEnum) -> Any:  # noqa: ANN401
    """A member of an enumeration, by its name."""
    kind = type(default)
    return special(
        name,
        lambda name, value: member(name, value, kind, default),
        lambda one: one.name,
        default,
    )


@dataclass_transform(frozen_default=True)
class _Fields:
    """Base of both; subclasses are frozen dataclasses."""

    CONSTANTS: ClassVar[Mapping[str, object]] = {}  # written for readers that expect them, not read

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)

    def as_map(self) -> dict[str, object]:
        """Names in alphabetical order, as Java writes them."""
        found = {one.name: one.write(getattr(self, one.attribute)) for one in _places(type(self))}
        return dict(sorted({**found, **self.CONSTANTS}.items()))

    @classmethod
    def _take(cls, found: Mapping[str, Any]) -> Self:
        return cls(*[one.read(one.name, found.get(one.name)) for one in _places(cls)])


class JsonMap(_Fields):
    """Base of the maps inside a body; ``name`` stands in errors."""

    NAME: ClassVar[str]

    def __init_subclass__(cls, name: str = "") -> None:
        super().__init_subclass__()
        cls.NAME = name

    @classmethod
    def take(cls, value: object) -> Self:
        """Tolerant of unknown and missing names; MalformedError when a value makes no sense."""
        return cls._take(table(cls.NAME, value))


class JsonBody(_Fields):
    """Base of whole bodies."""

    def encode(self) -> bytes:
        return json_bytes(self.as_map())

    @classmethod
    def take(cls, body: bytes) -> Self:
        """As for maps."""
        return cls._take(body_map(body))


# -- how classes are read and written ------------------------------------------------------------


class _Place(NamedTuple):
    attribute: str
    name: str
    read: Read
    write: Write


_KINDS: dict[str, tuple[Callable[[str, object, Any], object], object]] = {
    "str": (text, ""),
    "int": (whole, 0),
    "bool": (truth, False),
    "float": (real, 0.0),
    "str | None": (lambda name, value, _: text(name, value) or None, None),
}
_PLACES: dict[type[_Fields], tuple[_Place, ...]] = {}


def _places(kind: type[_Fields]) -> tuple[_Place, ...]:
    found = _PLACES.get(kind)
    if found is None:
        found = _PLACES[kind] = tuple([_place(one) for one in fields(kind)])  # type: ignore[arg-type]
    return found


def _place(one: Field[Any]) -> _Place:
    name = one.metadata.get("wire") or wire_name(one.name)
    if "read" in one.metadata:
        return _Place(one.name, name, one.metadata["read"], one.metadata["write"])
    convert, nothing = _KINDS[str(one.type)]
    missing = one.metadata.get("missing", nothing if one.default is MISSING else one.default)
    read: Read = lambda name, value: convert(name, value, missing)  # noqa: E731
    return _Place(one.name, name, read, lambda value: value)
