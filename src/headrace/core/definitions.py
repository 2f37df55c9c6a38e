"""Definitions in RabbitMQ's JSON: users, vhosts, policies, exchanges, queues, bindings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from headrace.core.access_definitions import VHOST_LIMITS, each, import_access
from headrace.core.broker import DEFAULT_VHOST, Broker
from headrace.core.loop_turn import Steps
from headrace.core.parameters import REPORT
from headrace.core.policies import OPERATOR_POLICY
from headrace.core.vhost import Vhost
from headrace.errors import BrokerError, ConfigError
from headrace.model.policy import Policy


def load_definitions(broker: Broker, path: Path) -> None:
    """Apply a definitions file; what is there already must agree with it."""
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read definitions {path}: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"definitions {path}: expected a JSON object")
    try:
        for _ in import_definitions(broker, data):
            pass
    except (KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"definitions {path}: malformed entry: {error!r}") from error
    except BrokerError as error:
        raise ConfigError(f"definitions {path}: {error}") from error


def import_definitions(broker: Broker, data: Mapping[str, Any]) -> Steps:
    """Vhosts first, bindings last, so that each part finds what it needs; one thing per step.

    A password in plain text is hashed here, which takes time: on a running broker call
    `hash_passwords` before.
    """
    yield from each(data, "vhosts", partial(_vhost, broker))
    yield from each(data, "global_parameters", partial(_global_parameter, broker))
    yield from import_access(broker.users, data)
    yield from each(data, "parameters", partial(_parameter, broker))
    yield from each(data, "policies", partial(_policy, broker))
    yield from each(data, "exchanges", partial(_exchange, broker))
    yield from each(data, "queues", partial(_queue, broker))
    yield from each(data, "bindings", partial(_binding, broker))


Item = Mapping[str, Any]


def _home(broker: Broker, item: Item) -> Vhost:
    return broker.get_vhost(item.get("vhost", DEFAULT_VHOST))


def _vhost(broker: Broker, item: Item) -> None:
    broker.add_vhost(item["name"])
    if item.get("metadata"):
        broker.parameters.describe_vhost(item["name"], dict(item["metadata"]))


def _global_parameter(broker: Broker, item: Item) -> None:
    broker.parameters.set_global(item["name"], item["value"])


def _parameter(broker: Broker, item: Item) -> None:
    vhost, component = _home(broker, item), item["component"]
    if component == OPERATOR_POLICY:
        vhost.operator_policies.set(
            Policy.from_json(item["name"], vhost.name, item["value"], is_operator=True)
        )
    # Limits are known by now; a report is made of messages, and never declared.
    elif component not in (VHOST_LIMITS, REPORT):
        broker.parameters.set(vhost.name, component, item["name"], item["value"])


def _policy(broker: Broker, item: Item) -> None:
    vhost = _home(broker, item)
    vhost.policies.set(Policy.from_json(item["name"], vhost.name, item))


def _exchange(broker: Broker, item: Item) -> None:
    _home(broker, item).declare_exchange(
        item["name"],
        item["type"],
        durable=item.get("durable", True),
        auto_delete=item.get("auto_delete", False),
        internal=item.get("internal", False),
        arguments=item.get("arguments", {}),
    )


def _queue(broker: Broker, item: Item) -> None:
    _home(broker, item).declare_queue(
        item["name"],
        durable=item.get("durable", True),
        auto_delete=item.get("auto_delete", False),
        arguments=item.get("arguments", {}),
    )


def _binding(broker: Broker, item: Item) -> None:
    vhost = _home(broker, item)
    to_queue = item.get("destination_type", "queue") == "queue"
    name = item["destination"]
    target = vhost.get_queue(name) if to_queue else vhost.get_exchange(name)
    vhost.bind(item["source"], target, item.get("routing_key", ""), item.get("arguments", {}))
