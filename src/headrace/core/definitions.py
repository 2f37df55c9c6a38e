"""Definitions in RabbitMQ's JSON: users, vhosts, policies, exchanges, queues, bindings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.core.access_definitions import VHOST_LIMITS, entries, import_access
from headrace.core.broker import DEFAULT_VHOST, Broker
from headrace.core.parameters import REPORT
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
        import_definitions(broker, data)
    except (KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"definitions {path}: malformed entry: {error!r}") from error
    except BrokerError as error:
        raise ConfigError(f"definitions {path}: {error}") from error


def import_definitions(broker: Broker, data: Mapping[str, Any]) -> None:
    """Vhosts first, bindings last, so that each part finds what it needs.

    A password in plain text is hashed here, which takes time: on a running broker call
    `hash_passwords` before.
    """
    for item in entries(data, "vhosts"):
        broker.add_vhost(item["name"])
        if item.get("metadata"):
            broker.parameters.describe_vhost(item["name"], dict(item["metadata"]))
    for item in entries(data, "global_parameters"):
        broker.parameters.set_global(item["name"], item["value"])
    import_access(broker.users, data)
    for item in entries(data, "parameters"):
        # Limits are known by now; a report is made of messages, and never declared.
        if item["component"] not in (VHOST_LIMITS, REPORT):
            where = broker.get_vhost(item.get("vhost", DEFAULT_VHOST)).name
            broker.parameters.set(where, item["component"], item["name"], item["value"])
    for item in entries(data, "policies"):
        broker.get_vhost(item.get("vhost", DEFAULT_VHOST)).policies.set(
            Policy.checked(
                name=item["name"],
                vhost=item.get("vhost", DEFAULT_VHOST),
                pattern=item["pattern"],
                apply_to=item.get("apply-to", "all"),
                priority=item.get("priority", 0),
                definition=item["definition"],
            )
        )
    for item in entries(data, "exchanges"):
        broker.get_vhost(item.get("vhost", DEFAULT_VHOST)).declare_exchange(
            item["name"],
            item["type"],
            durable=item.get("durable", True),
            auto_delete=item.get("auto_delete", False),
            internal=item.get("internal", False),
            arguments=item.get("arguments", {}),
        )
    for item in entries(data, "queues"):
        broker.get_vhost(item.get("vhost", DEFAULT_VHOST)).declare_queue(
            item["name"],
            durable=item.get("durable", True),
            auto_delete=item.get("auto_delete", False),
            arguments=item.get("arguments", {}),
        )
    for item in entries(data, "bindings"):
        vhost = broker.get_vhost(item.get("vhost", DEFAULT_VHOST))
        to_queue = item.get("destination_type", "queue") == "queue"
        name = item["destination"]
        target = vhost.get_queue(name) if to_queue else vhost.get_exchange(name)
        vhost.bind(item["source"], target, item.get("routing_key", ""), item.get("arguments", {}))
