"""Everything declared, as definitions in RabbitMQ's JSON. The counterpart of core.definitions.

Exclusive queues, names the broker gave, and what every vhost has anyway are left out.
"""

from __future__ import annotations

from typing import Any

from headrace import __version__
from headrace.core.access_definitions import export_access
from headrace.core.broker import Broker
from headrace.core.exchange import Exchange
from headrace.core.parameters import Parameter
from headrace.core.policies import OPERATOR_POLICY
from headrace.core.queues.queue import Queue
from headrace.core.vhost import Vhost

Entry = dict[str, Any]


def export_definitions(broker: Broker, version: str) -> Entry:
    """All of it; ``version`` is the RabbitMQ version that reads it."""
    access = export_access(broker.users)
    vhosts = [vhost for _, vhost in sorted(broker.vhosts.items())]
    parts = [_contents(vhost) for vhost in vhosts]
    parameters = [
        {"value": one.value, "vhost": one.vhost, "component": one.component, "name": one.name}
        for vhost in vhosts
        for one in _parameters(broker, vhost)
    ]
    return {
        "rabbit_version": version,
        "rabbitmq_version": version,
        "product_name": "Headrace",
        "product_version": __version__,
        "users": access["users"],
        "vhosts": [
            {"name": one.name, "metadata": broker.parameters.vhost_metadata(one.name)}
            for one in vhosts
        ],
        "permissions": access["permissions"],
        "topic_permissions": access["topic_permissions"],
        "parameters": [*access["parameters"], *parameters],
        "global_parameters": [
            {"name": name, "value": value} for name, value in broker.parameters.globals().items()
        ],
        **{kind: [entry for part in parts for entry in part[kind]] for kind in _KINDS},
    }


def export_vhost(broker: Broker, vhost: Vhost, version: str) -> Entry:
    """What one vhost holds; its name is left out, so that it fits into any other."""
    parts = _contents(vhost)
    for kind in ("queues", "exchanges", "bindings"):
        for entry in parts[kind]:
            del entry["vhost"]
    return {
        "rabbit_version": version,
        "parameters": [
            {"component": one.component, "name": one.name, "value": one.value}
            for one in _parameters(broker, vhost)
        ],
        **parts,
    }


def _parameters(broker: Broker, vhost: Vhost) -> list[Parameter]:
    """Those of a vhost; RabbitMQ has its operator policies among them."""
    return broker.parameters.listed(vhost.name) + [
        Parameter(vhost.name, OPERATOR_POLICY, name, policy.as_json())
        for name, policy in sorted(vhost.operator_policies.items())
    ]


_KINDS = ("policies", "queues", "exchanges", "bindings")


def _contents(vhost: Vhost) -> dict[str, list[Entry]]:
    return {
        "policies": [
            {"vhost": vhost.name, "name": name, **policy.as_json()}
            for name, policy in sorted(vhost.policies.items())
        ],
        "queues": [_queue(queue) for _, queue in sorted(vhost.queues.items()) if _is_kept(queue)],
        "exchanges": [
            _exchange(vhost, exchange)
            for name, exchange in sorted(vhost.exchanges.items())
            if name and not name.startswith("amq.")
        ],
        "bindings": [
            {
                "source": exchange.name,
                "vhost": vhost.name,
                "destination": binding.target.name,
                "destination_type": "queue" if isinstance(binding.target, Queue) else "exchange",
                "routing_key": binding.key,
                "arguments": dict(binding.arguments),
            }
            for _, exchange in sorted(vhost.exchanges.items())
            for binding in exchange.bindings
            if _is_kept(binding.target)
        ],
    }


def _is_kept(thing: object) -> bool:
    if isinstance(thing, Queue):
        return thing.owner is None and not thing.name.startswith("amq.")
    return isinstance(thing, Exchange)


def _queue(queue: Queue) -> Entry:
    return {
        "name": queue.name,
        "vhost": queue.vhost.name,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "arguments": dict(queue.arguments),
    }


def _exchange(vhost: Vhost, exchange: Exchange) -> Entry:
    return {
        "name": exchange.name,
        "vhost": vhost.name,
        "type": exchange.kind,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": dict(exchange.arguments),
    }
