"""Headers routing: the binding's arguments are compared with the message's headers.

`x-match` says how: all (the default) or any of them must fit. Arguments that begin with `x-` are
left out of the comparison, unless `x-match` is all-with-x or any-with-x. A void argument asks
only that the header is there. Without anything to compare, all fits every message and any none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import ClassVar, Final, Generic, TypeVar

from headrace.errors import PreconditionFailed
from headrace.model.arguments import comparable, plain_type_name

T = TypeVar("T")

MODES: Final = ("all", "any", "all-with-x", "any-with-x")
_MISSING: Final = object()  # equals no header value
_PRESENT: Final = object()  # a criterion that any value meets


def check_arguments(
    arguments: Mapping[str, object], type_name: Callable[[object], str] = plain_type_name
) -> None:
    """Raise PreconditionFailed when `x-match` is not one of the four words."""
    mode = arguments.get("x-match", "all")
    if not isinstance(mode, str):
        raise PreconditionFailed(
            f"Invalid x-match field type {type_name(mode)} (value {_term(mode)}); expected longstr"
        )
    if mode not in MODES:
        raise PreconditionFailed(
            f"Invalid x-match field value {_term(mode)}; "
            "expected all, any, all-with-x, or any-with-x"
        )


class _Binding(Generic[T]):
    """One rule and its target; `count` bindings have rules that cannot be told apart."""

    __slots__ = ("any_fits", "count", "criteria", "target")

    def __init__(self, arguments: Mapping[str, object], target: T) -> None:
        mode = arguments.get("x-match", "all")
        with_x = mode in ("all-with-x", "any-with-x")
        self.any_fits = mode in ("any", "any-with-x")
        self.target = target
        self.count = 0
        self.criteria = tuple(
            (name, _PRESENT if value is None else comparable(value))
            for name, value in arguments.items()
            if name != "x-match" and (with_x or not name.startswith("x-"))
        )

    def fits(self, headers: Mapping[str, Hashable]) -> bool:
        for name, wanted in self.criteria:
            value = headers.get(name, _MISSING)
            met = value is not _MISSING and (wanted is _PRESENT or value == wanted)
            if met is self.any_fits:
                return met
        return not self.any_fits


class HeadersRouter(Generic[T]):
    """Looks at each binding in turn; the headers are made comparable once per match."""

    kind: ClassVar[str] = "headers"
    by_headers: ClassVar[bool] = True
    __slots__ = ("_bindings",)

    def __init__(self) -> None:
        self._bindings: dict[Hashable, _Binding[T]] = {}

    def bind(self, key: str, arguments: Mapping[str, object], target: T) -> None:
        name = (key, comparable(arguments), target)
        binding = self._bindings.get(name)
        if binding is None:
            binding = self._bindings[name] = _Binding(arguments, target)
        binding.count += 1

    def unbind(self, key: str, arguments: Mapping[str, object], target: T) -> None:
        name = (key, comparable(arguments), target)
        binding = self._bindings[name]
        binding.count -= 1
        if not binding.count:
            del self._bindings[name]

    def match(self, key: str, headers: Mapping[str, object]) -> Collection[T]:
        values = {name: comparable(value) for name, value in headers.items()}
        found: dict[T, None] = {}
        for binding in self._bindings.values():
            if binding.target not in found and binding.fits(values):
                found[binding.target] = None
        return tuple(found)


def _term(value: object) -> str:
    """A value as RabbitMQ's message shows it; only strings, booleans and void look special."""
    if isinstance(value, str):
        return f'<<"{value}">>' if value else "<<>>"
    if value is None:
        return "undefined"
    return str(value).lower() if isinstance(value, bool) else str(value)
