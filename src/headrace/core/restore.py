"""Bringing back what was declared before a restart."""

from __future__ import annotations

import logging

from headrace.core.broker import Broker
from headrace.core.delays import NAME_PREFIX
from headrace.core.exchange import Target
from headrace.errors import BrokerError
from headrace.model.policy import Policy
from headrace.store.api import BindingRow, Catalogue

logger = logging.getLogger(__name__)


def restore(broker: Broker, catalogue: Catalogue) -> None:
    """Declare everything in the catalogue again. What cannot be is reported and left out."""
    for name in catalogue.vhosts:
        broker.add_vhost(name)
    for policy in catalogue.policies:
        broker.vhosts[policy.vhost].policies[policy.name] = Policy(
            policy.name,
            policy.vhost,
            policy.pattern,
            policy.apply_to,
            policy.priority,
            policy.definition,
        )
    for exchange in catalogue.exchanges:
        broker.vhosts[exchange.vhost].declare_exchange(
            exchange.name,
            exchange.kind,
            durable=True,
            auto_delete=exchange.auto_delete,
            internal=exchange.internal,
            arguments=exchange.arguments,
        )
    for queue in catalogue.queues:
        if queue.name.startswith(NAME_PREFIX):
            broker.vhosts[queue.vhost].restore_waiting(queue)
            continue
        broker.vhosts[queue.vhost].declare_queue(
            queue.name,
            durable=True,
            auto_delete=queue.auto_delete,
            arguments=queue.arguments,
            stored=queue,
        )
    for binding in catalogue.bindings:
        try:
            _bind(broker, binding)
        except BrokerError as error:
            logger.error("a binding could not be restored: %s", error)


def _bind(broker: Broker, binding: BindingRow) -> None:
    vhost = broker.vhosts[binding.vhost]
    name = binding.destination
    target: Target = vhost.get_queue(name) if binding.to_queue else vhost.get_exchange(name)
    vhost.bind(binding.source, target, binding.key, binding.arguments)
