"""A living exchange: its bindings and where they lead."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Union

from headrace.model.message import Destination
from headrace.model.routing import ROUTERS, Router

if TYPE_CHECKING:
    from headrace.core.queue import Queue

Target = Union["Exchange", "Queue", Destination]

DIRECT_TO_QUEUE = "x-direct-to-queue"
DELAYED = "x-delayed-message"
KINDS = (*ROUTERS, DELAYED)


def freeze(value: object) -> object:
    """A hashable image of an argument value; equal values give equal images."""
    if isinstance(value, Mapping):
        return tuple(sorted((key, freeze(item)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(freeze(item) for item in value)
    return (type(value).__name__ if isinstance(value, bool) else "", value)


class Binding(NamedTuple):
    """One arrow from an exchange to a queue or another exchange."""

    source: Exchange
    target: Target
    key: str
    arguments: Mapping[str, object]


class Exchange:
    """One exchange of one vhost."""

    __slots__ = (
        "_by_target",
        "arguments",
        "auto_delete",
        "bindings",
        "durable",
        "internal",
        "is_tailed",
        "kind",
        "name",
        "policy",
        "policy_alternate",
        "published",
        "routed",
        "router",
        "sink",
    )

    def __init__(
        self,
        name: str,
        kind: str,
        *,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, object] | None = None,
        router: Router[Target] | None = None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments or {}
        self.policy: str | None = None
        self.policy_alternate: str | None = None
        self.sink: Destination | None = None  # of an x-topic exchange: its topic
        self.is_tailed = False  # what is bound gets messages only when they come from the topic
        self.published = 0  # messages in
        self.routed = 0  # messages out, one for each queue
        self.bindings: dict[tuple[object, ...], Binding] = {}
        self._by_target: dict[Target, set[tuple[object, ...]]] = {}
        inner = str(self.arguments.get("x-delayed-type", "")) if self.delayed else kind
        self.router: Router[Target] = router or ROUTERS[inner]()

    @property
    def delayed(self) -> bool:
        """Messages may wait here before they are routed."""
        return self.kind == DELAYED

    @property
    def direct_to_queue(self) -> bool:
        """Messages also go to the queue that the routing key names."""
        return self.kind == "direct" and self.arguments.get(DIRECT_TO_QUEUE) is True

    @property
    def alternate(self) -> str | None:
        """Where messages go that no binding wants."""
        own = self.arguments.get("alternate-exchange")
        return own if isinstance(own, str) else self.policy_alternate

    def bind(self, target: Target, key: str, arguments: Mapping[str, object]) -> bool:
        """Add a binding; False when it is there already."""
        identity = (target, key, freeze(arguments))
        if identity in self.bindings:
            return False
        self.bindings[identity] = Binding(self, target, key, arguments)
        self._by_target.setdefault(target, set()).add(identity)
        self.router.bind(key, arguments, target)
        return True

    def unbind(self, target: Target, key: str, arguments: Mapping[str, object]) -> Binding | None:
        """Remove a binding and return it as it was made; None when there is none."""
        identity = (target, key, freeze(arguments))
        binding = self.bindings.get(identity)
        if binding is not None:
            self._remove(identity)
        return binding

    def unbind_all(self, target: Target) -> bool:
        """Remove every binding to ``target``; False when there was none."""
        gone = tuple(self._by_target.get(target, ()))
        for identity in gone:
            self._remove(identity)
        return bool(gone)

    def bindings_to(self, target: Target) -> list[Binding]:
        """The bindings that lead to ``target``."""
        return [self.bindings[identity] for identity in self._by_target.get(target, ())]

    def _remove(self, identity: tuple[object, ...]) -> None:
        binding = self.bindings.pop(identity)
        others = self._by_target[binding.target]
        others.discard(identity)
        if not others:
            del self._by_target[binding.target]
        self.router.unbind(binding.key, binding.arguments, binding.target)

    def match(self, keys: Iterable[str], headers: Mapping[str, object]) -> Collection[Target]:
        """Targets that want a message with one of these keys."""
        found: dict[Target, None] = {}
        for key in keys:
            found.update(dict.fromkeys(self.router.match(key, headers)))
        return found
