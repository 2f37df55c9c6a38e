"""The policies of a vhost, and what they change in its queues and exchanges.

Operator policies bound what policies set. As in RabbitMQ they are kept as parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from headrace.core.access import audit
from headrace.core.exchange import Exchange
from headrace.core.vhost_services import VhostServices
from headrace.errors import NotFound
from headrace.model.policy import NO_POLICIES, AppliedPolicies, Policy, bounded, effective
from headrace.store.api.rows import ParameterRow, PolicyRow

OPERATOR_POLICY: Final = "operator_policy"  # the component of their parameters


class Policies(Mapping[str, Policy]):
    """By name. A change takes effect at once, on everything that is there."""

    called = "policy"

    def __init__(self, services: VhostServices, changed: Callable[[], None]) -> None:
        self._services = services
        self._changed = changed  # applies all policies of the vhost
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
        self._services.storage.save(self._row(policy))
        audit.record(
            f"{self.called} set",
            vhost=self._services.name,
            policy=policy.name,
            pattern=policy.pattern,
        )
        self._changed()

    def clear(self, name: str) -> None:
        policy = self._by_name.pop(name, None)
        if policy is None:
            raise NotFound(f"no {self.called} '{name}' in vhost '{self._services.name}'")
        self._services.storage.delete(self._row(policy))
        audit.record(f"{self.called} cleared", vhost=self._services.name, policy=name)
        self._changed()

    def _row(self, policy: Policy) -> PolicyRow | ParameterRow:
        one = policy
        return PolicyRow(
            one.vhost, one.name, one.pattern, one.apply_to, one.priority, one.definition
        )

    # -- effects --------------------------------------------------------------------------------

    def for_queue(self, name: str, arguments: Mapping[str, object]) -> Policy | None:
        kind = str(arguments.get("x-queue-type", "classic"))
        return effective(self._by_name.values(), "queue", name, kind) if self._by_name else None

    def apply_to(self, exchange: Exchange) -> None:
        policy = effective(self._by_name.values(), "exchange", exchange.name)
        exchange.policy = policy.name if policy else None
        alternate = policy.definition.get("alternate-exchange") if policy else None
        exchange.policy_alternate = alternate if isinstance(alternate, str) else None


class OperatorPolicies(Policies):
    """Limits by administrators: where a policy sets the same, the smaller value counts."""

    called = "operator policy"

    def _row(self, policy: Policy) -> ParameterRow:
        return ParameterRow(policy.vhost, OPERATOR_POLICY, policy.name, {"value": policy.as_json()})


def applied_policies(
    policies: Policies, operator_policies: Policies, name: str, arguments: Mapping[str, object]
) -> AppliedPolicies:
    """The policies of the queue of that name, and the settings they make together."""
    policy = policies.for_queue(name, arguments)
    operator = operator_policies.for_queue(name, arguments)
    if policy is None and operator is None:
        return NO_POLICIES
    return AppliedPolicies(
        policy.name if policy else None,
        operator.name if operator else None,
        bounded(policy, operator),
    )
