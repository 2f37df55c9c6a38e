"""Named fields of commands, and maps in JSON bodies <-> typed values: one frozen class per kind.

Attributes have the types str, int and bool, those of headers perhaps ``| None``; the name on the
wire is the attribute's in camel case, unless ``named`` says another. Other fields of JSON maps say
how they are read and written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import IntEnum
from typing import Any, ClassVar, NamedTuple, Protocol, Self, dataclass_transform

from headrace.errors import MalformedError
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.json_values import (
    body_map,
    items,
    json_bytes,
    member,
    table,
    text,
    truth,
    whole,
)

Read = Callable[[str, object], object]
Write = Callable[[Any], object]


def named(wire_name: str, default: Any = MISSING, **more: Any) -> Any:  # noqa: ANN401
    """A field whose name on the wire is its own; ``missing``: what a JSON map without it has."""
    return field(default=default, metadata={"wire": wire_name, **more})


def _wire_name(one: Field[Any]) -> str:
    """broker_name -> brokerName"""
    first, *others = one.name.split("_")
    return one.metadata.get("wire") or first + "".join([word.capitalize() for word in others])


# -- headers ---------------------------------------------------------------------------------------


class _HeaderField(NamedTuple):
    attribute: str
    name: str
    convert: Callable[[str, object], Any] | None
    default: Any


_CONVERT: dict[str, Callable[[str, object], Any] | None] = {
    "str": None,
    "int": whole,
    "bool": truth,
}


def _header_field(one: Field[Any]) -> _HeaderField:
    convert = _CONVERT[str(one.type).removesuffix(" | None")]
    return _HeaderField(one.name, _wire_name(one), convert, one.default)


@dataclass_transform(frozen_default=True)
class Header:
    """Base of the typed headers; subclasses are frozen dataclasses. ``code``: of the request."""

    CODE: ClassVar[int]
    _fields: ClassVar[tuple[_HeaderField, ...]]

    def __init_subclass__(cls, code: int | None = None) -> None:
        dataclass(frozen=True)(cls)
        if code is not None:
            cls.CODE = code
        cls._fields = tuple([_header_field(one) for one in fields(cls)])  # type: ignore[arg-type]

    @classmethod
    def take(cls, ext: Mapping[str, str]) -> Self:
        """Tolerant of unknown fields; MalformedError when one is missing or makes no sense."""
        values = {}
        get = ext.get
        for attribute, name, convert, default in cls._fields:
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
        for attribute, name, _, _ in self._fields:
            value = getattr(self, attribute)
            if value is True:
                found[name] = "true"
            elif value is False:
                found[name] = "false"
            elif value is not None:
                found[name] = str(value)
        return found

    def command(self, remark: str | None = None) -> Command:
        """The request with this header and no body."""
        return Command(self.CODE, self.ext(), remark=remark)


# -- maps in bodies --------------------------------------------------------------------------------


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


class _Place(NamedTuple):
    attribute: str
    name: str
    read: Read
    write: Write


_KINDS: dict[str, tuple[Callable[[str, object, Any], object], object]] = {
    "str": (text, ""),
    "int": (whole, 0),
    "bool": (truth, False),
    "str | None": (lambda name, value, _: text(name, value) or None, None),
}


def _place(one: Field[Any]) -> _Place:
    name = _wire_name(one)
    if "read" in one.metadata:
        return _Place(one.name, name, one.metadata["read"], one.metadata["write"])
    convert, nothing = _KINDS[str(one.type)]
    missing = one.metadata.get("missing", nothing if one.default is MISSING else one.default)
    read: Read = lambda name, value: convert(name, value, missing)  # noqa: E731
    return _Place(one.name, name, read, lambda value: value)


@dataclass_transform(frozen_default=True)
class _Fields:
    """Base of both; subclasses are frozen dataclasses."""

    CONSTANTS: ClassVar[Mapping[str, object]] = {}  # written for readers that expect them, not read

    _places: ClassVar[tuple[_Place, ...]]

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)
        cls._places = tuple([_place(one) for one in fields(cls)])  # type: ignore[arg-type]

    def as_map(self) -> dict[str, object]:
        """Names in alphabetical order, as Java writes them."""
        found = {one.name: one.write(getattr(self, one.attribute)) for one in self._places}
        return dict(sorted({**found, **self.CONSTANTS}.items()))

    @classmethod
    def _take(cls, found: Mapping[str, Any]) -> Self:
        return cls(*[one.read(one.name, found.get(one.name)) for one in cls._places])


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
