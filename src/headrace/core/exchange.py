"""A living exchange: its bindings and where they lead."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple, Union

from headrace.core.loop_turn import Steps
from headrace.core.queues.queue import Queue
from headrace.model.message import Destination
from headrace.model.routing import ROUTERS, Router

Target = Union["Exchange", Queue, Destination]

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


def destination_type(target: Target) -> str:
    return "queue" if isinstance(target, Queue) else "exchange"


def binding_entry(
    vhost: str, source: str, target: Target, key: str, arguments: Mapping[str, object]
) -> dict[str, object]:
    """A binding under the names of RabbitMQ's API."""
    return {
        "source": source,
        "vhost": vhost,
        "destination": target.name,
        "destination_type": destination_type(target),
        "routing_key": key,
        "arguments": dict(arguments),
    }


class Binding(NamedTuple):
    """One arrow from an exchange to a queue or another exchange."""

    source: Exchange
    target: Target
    key: str
    arguments: Mapping[str, object]


@dataclass(slots=True, eq=False, repr=False)
class Exchange:
    """One exchange of one vhost."""

    name: str
    kind: str
    _: KW_ONLY
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Mapping[str, object] = field(default_factory=dict)
    policy: str | None = None
    policy_alternate: str | None = None
    sink: Destination | None = None  # of an x-topic exchange: its topic
    is_tailed: bool = False  # what is bound gets messages only when they come from the topic
    published: int = 0  # messages in
    routed: int = 0  # messages out, one for each queue
    router: Router[Target] = field(init=False)
    _by_target: dict[Target, dict[tuple[str, object], Binding]] = field(default_factory=dict)
    _gone: set[Target] = field(default_factory=set)  # being removed from the router

    def __post_init__(self) -> None:
        inner = str(self.arguments.get("x-delayed-type", "")) if self.delayed else self.kind
        self.router = ROUTERS[inner]()

    def declaration(self) -> dict[str, object]:
        """What it was declared with, under the names of RabbitMQ's API."""
        return {
            "name": self.name,
            "type": self.kind,
            "durable": self.durable,
            "auto_delete": self.auto_delete,
            "internal": self.internal,
            "arguments": dict(self.arguments),
        }

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

    @property
    def bindings(self) -> list[Binding]:
        """All of them, by target."""
        return [one for group in self._by_target.values() for one in group.values()]

    @property
    def is_bound(self) -> bool:
        """Whether anything is bound to it."""
        return bool(self._by_target)

    def bind(self, target: Target, key: str, arguments: Mapping[str, object]) -> bool:
        """Add a binding; False when it is there already."""
        identity = (key, freeze(arguments))
        group = self._by_target.setdefault(target, {})
        if identity in group:
            return False
        group[identity] = Binding(self, target, key, arguments)
        self.router.bind(key, arguments, target)
        return True

    def unbind(self, target: Target, key: str, arguments: Mapping[str, object]) -> Binding | None:
        """Remove a binding and return it as it was made; None when there is none."""
        group = self._by_target.get(target, {})
        binding = group.pop((key, freeze(arguments)), None)
        if binding is not None:
            self.router.unbind(key, binding.arguments, target)
            if not group:
                del self._by_target[target]
        return binding

    def unbind_all(self, *targets: Target) -> Steps | None:
        """No binding leads to the targets, which are gone, any more; None when none did.

        The steps clear the router behind it.
        """
        groups = [group for one in targets if (group := self._by_target.pop(one, None))]
        if not groups:
            return None
        self._gone.update(targets)
        return self._clear(groups, targets)

    def _clear(
        self, groups: list[dict[tuple[str, object], Binding]], targets: tuple[Target, ...]
    ) -> Steps:
        for group in groups:
            while group:
                binding = group.popitem()[1]
                self.router.unbind(binding.key, binding.arguments, binding.target)
                yield
        self._gone.difference_update(targets)

    def close(self) -> Steps | None:
        """The exchange is gone, and nothing is bound to it any more."""
        return self.unbind_all(*self._by_target)

    def bindings_to(self, target: Target) -> list[Binding]:
        """The bindings that lead to ``target``."""
        return list(self._by_target.get(target, {}).values())

    def match(self, keys: Iterable[str], headers: Mapping[str, object]) -> Collection[Target]:
        """Targets that want a message with one of these keys."""
        found: dict[Target, None] = {}
        for key in keys:
            found.update(dict.fromkeys(self.router.match(key, headers)))
        for target in self._gone:
            found.pop(target, None)
        return found
