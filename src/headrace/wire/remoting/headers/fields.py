"""Named fields of a command <-> typed headers, one frozen class per kind of request.

A header declares attributes of the types str, int and bool, each perhaps ``| None``; the name on
the wire is the attribute's in camel case, unless ``named`` says another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, Self, dataclass_transform

from headrace.errors import MalformedError
from headrace.wire.remoting.json_values import truth, whole


def named(wire_name: str, default: Any = MISSING, **more: Any) -> Any:  # noqa: ANN401
    """A field whose name on the wire is its own; ``missing``: what a JSON map without it has."""
    return field(default=default, metadata={"wire": wire_name, **more})


@dataclass_transform(frozen_default=True)
class Header:
    """Base of the typed headers; subclasses are frozen dataclasses. ``code``: of the request."""

    CODE: ClassVar[int]

    def __init_subclass__(cls, code: int | None = None) -> None:
        dataclass(frozen=True)(cls)
        if code is not None:
            cls.CODE = code

    @classmethod
    def take(cls, ext: Mapping[str, str]) -> Self:
        """Tolerant of unknown fields; MalformedError when one is missing or makes no sense."""
        values = {}
        get = ext.get
        for attribute, name, convert, default in _plan(cls).places:
            raw = get(name)
            if raw is None or (raw == "" and convert is not None):
                if default is MISSING:
                    raise MalformedError(f"{cls.__name__}: the field '{name}' is missing")
                values[attribute] = default
            else:
                values[attribute] = raw if convert is None else convert(name, raw)
        header = cls.__new__(cls)
        header.__dict__.update(values)  # a frozen class would set them one by one
        return header

    def ext(self) -> dict[str, str]:
        """Strict: all text, nothing for None."""
        found: dict[str, str] = {}
        for attribute, name in _plan(type(self)).names:
            value = getattr(self, attribute)
            if value is True:
                found[name] = "true"
            elif value is False:
                found[name] = "false"
            elif value is not None:
                found[name] = str(value)
        return found


class _FieldPosition(NamedTuple):
    attribute: str
    name: str
    convert: Callable[[str, object], Any] | None
    default: Any


_CONVERT: dict[str, Callable[[str, object], Any] | None] = {
    "str": None,
    "int": whole,
    "bool": truth,
}


def wire_name(attribute: str) -> str:
    """broker_name -> brokerName"""
    first, *others = attribute.split("_")
    return first + "".join([word.capitalize() for word in others])


class _HeaderPlan(NamedTuple):
    places: tuple[_FieldPosition, ...]
    names: tuple[tuple[str, str], ...]  # attribute, name on the wire


_PLANS: dict[type[Header], _HeaderPlan] = {}


def _plan(kind: type[Header]) -> _HeaderPlan:
    found = _PLANS.get(kind)
    if found is None:
        attributes = fields(kind)  # type: ignore[arg-type]
        names = [one.metadata.get("wire") or wire_name(one.name) for one in attributes]
        places = [
            _FieldPosition(
                one.name, name, _CONVERT[str(one.type).removesuffix(" | None")], one.default
            )
            for one, name in zip(attributes, names, strict=True)
        ]
        pairs = [(one.name, name) for one, name in zip(attributes, names, strict=True)]
        found = _PLANS[kind] = _HeaderPlan(tuple(places), tuple(pairs))
    return found
