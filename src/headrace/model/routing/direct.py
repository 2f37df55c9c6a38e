"""Direct routing: the routing key equals the binding key, byte for byte."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar, Generic, TypeVar

T = TypeVar("T")


class DirectRouter(Generic[T]):
    """One dict lookup per match, however many bindings there are."""

    kind: ClassVar[str] = "direct"
    by_headers: ClassVar[bool] = False
    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        # The count per target is the number of bindings which differ in their arguments only.
        self._by_key: dict[str, dict[T, int]] = {}

    def bind(self, key: str, arguments: Mapping[str, object], target: T) -> None:
        targets = self._by_key.setdefault(key, {})
        targets[target] = targets.get(target, 0) + 1

    def unbind(self, key: str, arguments: Mapping[str, object], target: T) -> None:
        targets = self._by_key[key]
        targets[target] -= 1
        if not targets[target]:
            del targets[target]
        if not targets:
            del self._by_key[key]

    def match(self, key: str, headers: Mapping[str, object]) -> Collection[T]:
        return tuple(self._by_key.get(key, ()))
