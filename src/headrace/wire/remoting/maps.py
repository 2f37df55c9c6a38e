"""Maps in JSON bodies <-> typed values, one frozen class per kind of map.

A map declares attributes of the types str, int, bool and float; their names on the wire follow
the rule of headers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, ClassVar, NamedTuple, Self

from headrace.wire.remoting.fields import wire_name
from headrace.wire.remoting.values import real, table, text, truth, whole


class JsonMap:
    """Base of the typed maps; subclasses are frozen dataclasses with slots."""

    __slots__ = ()
    NAME: ClassVar[str]  # in errors
    CONSTANTS: ClassVar[Mapping[str, object]] = {}  # written for those who expect them, never read

    def as_map(self) -> dict[str, object]:
        """Names in alphabetical order, as Java writes them."""
        found = {one.name: getattr(self, one.attribute) for one in _places(type(self))}
        return dict(sorted({**found, **self.CONSTANTS}.items()))

    @classmethod
    def take(cls, value: object) -> Self:
        """Tolerant of unknown and missing names; MalformedError when a value makes no sense."""
        get = table(cls.NAME, value).get
        return cls(*[one.convert(one.name, get(one.name), one.missing) for one in _places(cls)])


class _Place(NamedTuple):
    attribute: str
    name: str
    convert: Callable[[str, object, Any], object]
    missing: object


_KINDS: dict[str, tuple[Callable[[str, object, Any], object], object]] = {
    "str": (text, ""),
    "int": (whole, 0),
    "bool": (truth, False),
    "float": (real, 0.0),
}


_PLACES: dict[type[JsonMap], tuple[_Place, ...]] = {}


def _places(kind: type[JsonMap]) -> tuple[_Place, ...]:
    found = _PLACES.get(kind)
    if found is None:
        found = _PLACES[kind] = tuple([_place(one) for one in fields(kind)])  # type: ignore[arg-type]
    return found


def _place(one: Field[Any]) -> _Place:
    convert, nothing = _KINDS[str(one.type)]
    missing = one.metadata.get("missing", nothing if one.default is MISSING else one.default)
    return _Place(one.name, one.metadata.get("wire") or wire_name(one.name), convert, missing)
