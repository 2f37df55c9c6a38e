"""Which targets a message reaches: one small class per exchange type, all of one shape.

A target is any hashable object (a queue, another exchange); routers never look inside it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Protocol, TypeVar

from headrace.model.routing.direct import DirectRouter, FanoutRouter
from headrace.model.routing.headers import HeadersRouter
from headrace.model.routing.topic import TagRouter, TopicRouter

T = TypeVar("T")


class Router(Protocol[T]):
    """The bindings of one exchange.

    The caller binds each (key, arguments, target) at most once and unbinds only what is bound.
    """

    kind: ClassVar[str]
    by_headers: ClassVar[bool]

    def bind(self, key: str, arguments: Mapping[str, object], target: T) -> None: ...

    def unbind(self, key: str, arguments: Mapping[str, object], target: T) -> None: ...

    def match(self, key: str, headers: Mapping[str, object]) -> Collection[T]:
        """The targets of a message, each once; later bindings never change the answer."""


_ALL: tuple[type[Router[Any]], ...] = (
    DirectRouter, FanoutRouter, TopicRouter, HeadersRouter, TagRouter,
)  # fmt: skip
ROUTERS = {one.kind: one for one in _ALL}

__all__ = [
    "ROUTERS",
    "DirectRouter",
    "FanoutRouter",
    "HeadersRouter",
    "Router",
    "TagRouter",
    "TopicRouter",
]
