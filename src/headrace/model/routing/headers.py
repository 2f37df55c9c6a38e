"""Headers routing: the binding's arguments are compared with the message's headers.

`x-match` says how: all (the default) or any of them must fit. Arguments that begin with `x-` are
left out of the comparison, unless `x-match` is all-with-x or any-with-x. A void argument asks
only that the header is there. Without anything to compare, all fits every message and any none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import ClassVar, Final, Generic, TypeVar

from headrace.errors import PreconditionFailed
from headrace.model.exchange_arguments import comparable, plain_type_name
from headrace.model.routing.direct import BoundTargets

T = TypeVar("T")

MODES: Final = ("all", "any", "all-with-x", "any-with-x")
_MISSING: Final = object()  # equals no header value
_PRESENT: Final = object()  # a criterion that any value meets
Criterion = tuple[str, Hashable]  # name of a header, its value
_ALWAYS: Final[Criterion] = ("", _MISSING)  # where rules without criteria are


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


class _Rule(Generic[T]):
    """What bindings ask of a message, and their targets with the number of bindings of each."""

    __slots__ = ("any_fits", "criteria", "places", "targets")

    def __init__(self, any_fits: bool, criteria: frozenset[Criterion]) -> None:
        self.any_fits = any_fits
        self.criteria = criteria
        self.places: tuple[Criterion, ...] = ()  # in the index
        self.targets: BoundTargets[T] = BoundTargets()

    def fits(self, headers: Mapping[str, Hashable]) -> bool:
        """Whether all criteria are met."""
        for name, wanted in self.criteria:
            value = headers.get(name, _MISSING)
            if value is _MISSING or (wanted is not _PRESENT and value != wanted):
                return False
        return True


class HeadersRouter(Generic[T]):
    """Finds rules by the headers that a message has; the others are not looked at.

    A rule of which any part may fit is indexed by all of its criteria. One of which all parts must
    fit is indexed by the criterion that the fewest others are indexed by.
    """

    kind: ClassVar[str] = "headers"
    by_headers: ClassVar[bool] = True
    __slots__ = ("_index", "_rules")

    def __init__(self) -> None:
        self._rules: dict[tuple[bool, frozenset[Criterion]], _Rule[T]] = {}
        self._index: dict[Criterion, dict[_Rule[T], None]] = {}

    def bind(self, key: str, arguments: Mapping[str, object], target: T) -> None:
        identity = _identity(arguments)
        rule = self._rules.get(identity)
        if rule is None:
            rule = self._rules[identity] = _Rule(*identity)
            rule.places = self._places(rule)
            for place in rule.places:
                self._index.setdefault(place, {})[rule] = None
        rule.targets.bind(target)

    def _places(self, rule: _Rule[T]) -> tuple[Criterion, ...]:
        if rule.any_fits:
            return tuple(rule.criteria)
        if not rule.criteria:
            return (_ALWAYS,)
        return (min(rule.criteria, key=lambda one: len(self._index.get(one, ()))),)

    def unbind(self, key: str, arguments: Mapping[str, object], target: T) -> None:
        identity = _identity(arguments)
        rule = self._rules[identity]
        rule.targets.unbind(target)
        if rule.targets:
            return
        del self._rules[identity]
        for place in rule.places:
            del self._index[place][rule]
            if not self._index[place]:
                del self._index[place]

    def match(self, key: str, headers: Mapping[str, object]) -> Collection[T]:
        values = {name: comparable(value) for name, value in headers.items()}
        places = [_ALWAYS]
        for name, value in values.items():
            places += ((name, value), (name, _PRESENT))
        matched: dict[_Rule[T], None] = {}
        for place in places:
            for rule in self._index.get(place, ()):
                if rule.any_fits or rule.fits(values):
                    matched[rule] = None
        found: dict[T, int] = {}
        for rule in matched:
            found.update(rule.targets)
        return tuple(found)


def _identity(arguments: Mapping[str, object]) -> tuple[bool, frozenset[Criterion]]:
    """Whether any criterion will do, and the criteria."""
    mode = arguments.get("x-match", "all")
    with_x = mode in ("all-with-x", "any-with-x")
    return mode in ("any", "any-with-x"), frozenset(
        (name, _PRESENT if value is None else comparable(value))
        for name, value in arguments.items()
        if name != "x-match" and (with_x or not name.startswith("x-"))
    )


def _term(value: object) -> str:
    """A value as RabbitMQ's message shows it; only strings, booleans and void look special."""
    if isinstance(value, str):
        return f'<<"{value}">>' if value else "<<>>"
    if value is None:
        return "undefined"
    return str(value).lower() if isinstance(value, bool) else str(value)
