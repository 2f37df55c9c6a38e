"""A bounded cache: a dict that drops its oldest half when it is full."""

from __future__ import annotations

from itertools import islice
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(dict[K, V]):
    """Read with ``get`` as any dict, at no extra cost; add with ``keep``."""

    __slots__ = ("limit",)

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def keep(self, key: K, value: V) -> V:
        """Add a value and return it."""
        if len(self) >= self.limit:
            for old in list(islice(self, (self.limit + 1) // 2)):
                self.pop(old, None)  # another thread may do the same
        self[key] = value
        return value
