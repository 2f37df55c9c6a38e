"""The policies of a vhost, and what they change in its queues and exchanges.

Operator policies bound what policies set. As in RabbitMQ they are kept as parameters.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.core.access import audit
from headrace.errors import NotFound, PreconditionFailed
from headrace.model.policy import Policy, bounded, effective
from headrace.model.queue_arguments import queue_settings
from headrace.store.api.rows import ParameterRow, PolicyRow

if TYPE_CHECKING:
    from headrace.core.exchange import Exchange
    from headrace.core.vhost import Vhost


logger = logging.getLogger(__name__)

OPERATOR_POLICY: Final = "operator_policy"  # the component of their parameters


class AppliedPolicies(NamedTuple):
    """What counts for one queue: names of policies, and the settings they make together."""

    policy: str | None = None
    operator_policy: str | None = None
    definition: Mapping[str, object] = {}


NO_POLICIES: Final = AppliedPolicies()


class Policies(Mapping[str, Policy]):
    """By name. A change takes effect at once, on everything that is there."""

    called = "policy"

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
        self._vhost.storage.save(self._row(policy))
        audit.record(
            f"{self.called} set",
            vhost=self._vhost.name,
            policy=policy.name,
            pattern=policy.pattern,
        )
        _apply(self._vhost)

    def clear(self, name: str) -> None:
        policy = self._by_name.pop(name, None)
        if policy is None:
            raise NotFound(f"no {self.called} '{name}' in vhost '{self._vhost.name}'")
        self._vhost.storage.delete(self._row(policy))
        audit.record(f"{self.called} cleared", vhost=self._vhost.name, policy=name)
        _apply(self._vhost)

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


def policies_for(vhost: Vhost, name: str, arguments: Mapping[str, object]) -> AppliedPolicies:
    """What counts for the queue of that name."""
    policy = vhost.policies.for_queue(name, arguments)
    operator = vhost.operator_policies.for_queue(name, arguments)
    if policy is None and operator is None:
        return NO_POLICIES
    return AppliedPolicies(
        policy.name if policy else None,
        operator.name if operator else None,
        bounded(policy, operator),
    )


def _apply(vhost: Vhost) -> None:
    for queue in vhost.queues.values():
        queue.policies = policies_for(vhost, queue.name, queue.arguments)
        queue.configure(queue_settings(queue.arguments, queue.policies.definition))
    for exchange in vhost.exchanges.values():
        vhost.policies.apply_to(exchange)
    vhost.routes.changed()


def restore_operator_policies(
    vhosts: Mapping[str, Vhost], rows: Iterable[ParameterRow]
) -> list[ParameterRow]:
    """Take the operator policies out of stored parameters, before there are queues; the rest."""
    for row in rows:
        if row.component == OPERATOR_POLICY:
            try:
                value: Any = row.settings["value"]
                policy = Policy.from_json(row.name, row.vhost, value, is_operator=True)
                vhosts[row.vhost].operator_policies.restore(policy)
            except (PreconditionFailed, LookupError, TypeError) as error:
                logger.error(
                    "operator policy '%s' of vhost '%s' is not valid and is ignored: %s",
                    row.name, row.vhost, error,
                )  # fmt: skip
    return [row for row in rows if row.component != OPERATOR_POLICY]
