"""The policies of a vhost, and what they change in its queues and exchanges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.core import audit
from headrace.errors import NotFound
from headrace.model.arguments import queue_settings
from headrace.model.policy import Policy, effective
from headrace.store.api import PolicyRow

if TYPE_CHECKING:
    from headrace.core.exchange import Exchange
    from headrace.core.vhost import Vhost


class Policies(Mapping[str, Policy]):
    """By name. A change takes effect at once, on everything that is there."""

    def __init__(self, vhost: Vhost) -> None:
        self._vhost = vhost
        self._by_name: dict[str, Policy] = {}

    def __getitem__(self, name: str) -> Policy:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    # -- changes --------------------------------------------------------------------------------

    def restore(self, policy: Policy) -> None:
        """One found at start, before queues and exchanges are there."""
        self._by_name[policy.name] = policy

    def set(self, policy: Policy) -> None:
        self._by_name[policy.name] = policy
        self._vhost.storage.save(_row(policy))
        audit.record(
            "policy set", vhost=self._vhost.name, policy=policy.name, pattern=policy.pattern
        )
        self._apply()

    def clear(self, name: str) -> None:
        policy = self._by_name.pop(name, None)
        if policy is None:
            raise NotFound(f"no policy '{name}' in vhost '{self._vhost.name}'")
        self._vhost.storage.delete(_row(policy))
        audit.record("policy cleared", vhost=self._vhost.name, policy=name)
        self._apply()

    # -- effects --------------------------------------------------------------------------------

    def for_queue(self, name: str, arguments: Mapping[str, object]) -> Policy | None:
        kind = str(arguments.get("x-queue-type", "classic"))
        return effective(self._by_name.values(), "queue", name, kind)

    def apply_to(self, exchange: Exchange) -> None:
        policy = effective(self._by_name.values(), "exchange", exchange.name)
        exchange.policy = policy.name if policy else None
        alternate = policy.definition.get("alternate-exchange") if policy else None
        exchange.policy_alternate = alternate if isinstance(alternate, str) else None

    def _apply(self) -> None:
        for queue in self._vhost.queues.values():
            policy = self.for_queue(queue.name, queue.arguments)
            queue.policy = policy.name if policy else None
            queue.configure(queue_settings(queue.arguments, policy.definition if policy else {}))
        for exchange in self._vhost.exchanges.values():
            self.apply_to(exchange)
        self._vhost.routes.changed()


def _row(policy: Policy) -> PolicyRow:
    return PolicyRow(
        policy.vhost,
        policy.name,
        policy.pattern,
        policy.apply_to,
        policy.priority,
        policy.definition,
    )
