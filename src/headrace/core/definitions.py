"""Definitions in RabbitMQ's JSON: import and export of everything that is declared.

Users, permissions and limits; vhosts, parameters and policies; exchanges, queues and bindings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from headrace import __version__
from headrace.core.access.users import Account, Users
from headrace.core.broker import DEFAULT_VHOST, Broker
from headrace.core.exchange import Exchange, binding_entry
from headrace.core.loop_turn import Steps
from headrace.core.parameters import REPORT, Parameter
from headrace.core.policies import OPERATOR_POLICY
from headrace.core.queues.queue import Queue
from headrace.core.topics.exchange_bridge import X_TOPIC
from headrace.core.vhost import Vhost
from headrace.errors import BrokerError, ConfigError, PreconditionFailed
from headrace.model.passwords import NO_PASSWORD, PasswordHash, guessed_algorithm
from headrace.model.policy import Policy

VHOST_LIMITS = "vhost-limits"  # the component of its parameters

Entry = Mapping[str, Any]

# -- import -------------------------------------------------------------------------------------


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


def import_definitions(broker: Broker, data: Entry) -> Steps:
    """Vhosts first, bindings last, so that each part finds what it needs; one thing per step.

    A password in plain text is hashed here, which takes time: on a running broker call
    `hash_passwords` before.
    """
    yield from _each(data, "vhosts", partial(_import_vhost, broker))
    parameter = _with(broker.parameters.set_global, "name", "value")
    yield from _each(data, "global_parameters", parameter)
    yield from import_access(broker.users, data)
    yield from _each(data, "parameters", partial(_import_parameter, broker))
    yield from _each(data, "policies", partial(_import_policy, broker))
    yield from _each(data, "exchanges", partial(_import_exchange, broker))
    yield from _each(data, "queues", partial(_import_queue, broker))
    yield from _each(data, "bindings", partial(_import_binding, broker))


def _entries(data: Entry, kind: str) -> Iterable[Entry]:
    """The entries of one kind; TypeError unless they are a list."""
    found = data.get(kind, [])
    if not isinstance(found, list):
        raise TypeError(f"{kind} must be a list")
    return found


def _each(data: Entry, kind: str, declare: Callable[[Entry], object]) -> Steps:
    """Declare the things of one kind; PreconditionFailed names the one that cannot be."""
    for item in _entries(data, kind):
        try:
            declare(item)
        except BrokerError as error:
            raise PreconditionFailed(f"{_called(kind, item)}: {error}") from error
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            text = f"{_called(kind, item)}: malformed entry: {error!r}"
            raise PreconditionFailed(text) from error
        yield


def _called(kind: str, item: object) -> str:
    """What it is, in words: exchange 'shop' of vhost 'prod'."""
    singular = kind.replace("_", " ").removesuffix("s").replace("policie", "policy")
    if not isinstance(item, Mapping):
        return f"{singular} {item!r}"
    parts = [repr(item["name"])] if "name" in item else []
    named = ("source", "destination", "user", "vhost")
    parts += [f"of {key} {item[key]!r}" for key in named if item.get(key)]
    return " ".join([singular, *parts])


def _home(broker: Broker, item: Entry) -> Vhost:
    return broker.get_vhost(item.get("vhost", DEFAULT_VHOST))


def _import_vhost(broker: Broker, item: Entry) -> None:
    broker.add_vhost(item["name"])
    if item.get("metadata"):
        broker.parameters.describe_vhost(item["name"], dict(item["metadata"]))


def _import_parameter(broker: Broker, item: Entry) -> None:
    vhost, component = _home(broker, item), item["component"]
    if component == OPERATOR_POLICY:
        vhost.operator_policies.set(
            Policy.from_json(item["name"], vhost.name, item["value"], is_operator=True)
        )
    # Limits are known by now; a report is made of messages, and never declared.
    elif component not in (VHOST_LIMITS, REPORT):
        broker.parameters.set(vhost.name, component, item["name"], item["value"])


def _import_policy(broker: Broker, item: Entry) -> None:
    vhost = _home(broker, item)
    vhost.policies.set(Policy.from_json(item["name"], vhost.name, item))


def _import_exchange(broker: Broker, item: Entry) -> None:
    if item["type"] == X_TOPIC:
        _home(broker, item).topics.import_exchange(item["name"], item.get("arguments", {}))
        return
    _home(broker, item).declare_exchange(
        item["name"],
        item["type"],
        internal=item.get("internal", False),
        **_shared(item),
    )


def _import_queue(broker: Broker, item: Entry) -> None:
    _home(broker, item).declare_queue(item["name"], **_shared(item))


def _shared(item: Entry) -> dict[str, Any]:
    """What exchanges and queues are both declared with."""
    defaults: Entry = {"durable": True, "auto_delete": False, "arguments": {}}
    return {name: item.get(name, default) for name, default in defaults.items()}


def _import_binding(broker: Broker, item: Entry) -> None:
    vhost = _home(broker, item)
    to_queue = item.get("destination_type", "queue") == "queue"
    name = item["destination"]
    target = vhost.get_queue(name) if to_queue else vhost.get_exchange(name)
    vhost.bind(item["source"], target, item.get("routing_key", ""), item.get("arguments", {}))


# -- import of users, permissions and limits ----------------------------------------------------


async def hash_passwords(users: Users, data: Entry) -> Entry:
    """The definitions with hashes for passwords in plain text, made off the event loop."""
    prepared = []
    for item in _entries(data, "users"):
        if isinstance(item.get("password"), str) and item["password"]:
            kept = await users.hash(item["password"])
            item = {key: value for key, value in item.items() if key != "password"}
            item |= {"password_hash": kept.text, "hashing_algorithm": kept.algorithm}
        prepared.append(item)
    return {**data, "users": prepared} if prepared else data


def import_access(users: Users, data: Entry) -> Steps:
    """Users, permissions and limits; vhosts must be there. What is there already is replaced."""
    yield from _each(data, "users", partial(_import_user, users))
    permission = _with(users.set_permissions, "user", "vhost", "configure", "write", "read")
    topic = _with(users.set_topic_permissions, "user", "vhost", "exchange", "write", "read")
    yield from _each(data, "permissions", permission)
    yield from _each(data, "topic_permissions", topic)
    yield from _each(data, "parameters", partial(_import_vhost_limits, users))


def _import_user(users: Users, item: Entry) -> None:
    users.store_user(item["name"], _password(item), _tags(item.get("tags", ())))
    for name, value in dict(item.get("limits") or {}).items():
        users.set_user_limit(item["name"], name, value)


def _with(call: Callable[..., object], *names: str) -> Callable[[Entry], object]:
    """The call with these fields of an entry."""
    return lambda item: call(*[item[name] for name in names])


def _import_vhost_limits(users: Users, item: Entry) -> None:
    if item.get("component") == VHOST_LIMITS:
        for name, value in item["value"].items():
            users.set_vhost_limit(item["vhost"], name, value)


def _password(item: Entry) -> PasswordHash:
    if item.get("password"):
        return PasswordHash.of(item["password"])
    text = item.get("password_hash") or ""
    algorithm = item.get("hashing_algorithm") or guessed_algorithm(text)
    return PasswordHash.imported(algorithm, text) if text else NO_PASSWORD


def _tags(given: str | Iterable[str]) -> list[str]:
    """Before RabbitMQ 3.9 they were one text."""
    parts = given.split(",") if isinstance(given, str) else list(given)
    return [tag for tag in parts if tag.strip()]


# -- export: without exclusive queues, generated names and what every vhost has -----------------


def export_definitions(broker: Broker, version: str) -> dict[str, Any]:
    """All of it; ``version`` is the RabbitMQ version that reads it.

    There may be very many queues and bindings: their entries are made while they are read.
    """
    access = export_access(broker.users)
    vhosts = [vhost for _, vhost in sorted(broker.vhosts.items())]
    parts = [_contents(vhost) for vhost in vhosts]
    parameters = [asdict(one) for vhost in vhosts for one in _parameters(broker, vhost)]
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
        **{kind: chain.from_iterable([part[kind] for part in parts]) for kind in _KINDS},
    }


def export_vhost(broker: Broker, vhost: Vhost, version: str) -> dict[str, Any]:
    """What one vhost holds; its name is left out, so that it fits into any other."""
    parts = _contents(vhost)
    for kind in ("queues", "exchanges", "bindings"):
        parts[kind] = map(_without_vhost, parts[kind])
    return {
        "rabbit_version": version,
        "parameters": [*map(_without_vhost, map(asdict, _parameters(broker, vhost)))],
        **parts,
    }


def _parameters(broker: Broker, vhost: Vhost) -> list[Parameter]:
    """Those of a vhost; RabbitMQ has its operator policies among them."""
    return broker.parameters.listed(vhost.name) + [
        Parameter(vhost.name, OPERATOR_POLICY, name, policy.as_json())
        for name, policy in sorted(vhost.operator_policies.items())
    ]


_KINDS = ("policies", "queues", "exchanges", "bindings")


def _contents(vhost: Vhost) -> dict[str, Iterator[dict[str, Any]]]:
    return {
        "policies": (
            {"vhost": vhost.name, "name": name, **policy.as_json()}
            for name, policy in sorted(vhost.policies.items())
        ),
        "queues": (
            _exported_queue(queue) for _, queue in sorted(vhost.queues.items()) if _is_kept(queue)
        ),
        "exchanges": (
            {"vhost": vhost.name, **exchange.declaration()}
            for name, exchange in sorted(vhost.exchanges.items())
            if name and not name.startswith("amq.")
        ),
        "bindings": (
            binding_entry(vhost.name, exchange.name, *binding[1:])
            for _, exchange in sorted(vhost.exchanges.items())
            for binding in exchange.bindings
            if _is_kept(binding.target)
        ),
    }


def _without_vhost(entry: dict[str, Any]) -> dict[str, Any]:
    del entry["vhost"]
    return entry


def _is_kept(thing: object) -> bool:
    if isinstance(thing, Queue):
        return thing.owner is None and not thing.name.startswith("amq.")
    return isinstance(thing, Exchange)


def _exported_queue(queue: Queue) -> dict[str, Any]:
    return {
        "name": queue.name,
        "vhost": queue.services.name,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "arguments": dict(queue.arguments),
    }


def export_users(users: Users, accounts: Iterable[Account]) -> list[dict[str, Any]]:
    limits = users.user_limits()
    return [
        {
            "name": account.name,
            "password_hash": account.password_hash,
            "hashing_algorithm": account.hashing_algorithm,
            "tags": list(account.tags),
            "limits": dict(limits.get(account.name, {})),
        }
        for account in accounts
    ]


def export_access(users: Users) -> dict[str, list[dict[str, Any]]]:
    """Everything that import_access reads, under the keys it reads it from."""
    return {
        "users": export_users(users, users.list_users()),
        "permissions": [asdict(row) for row in users.permissions()],
        "topic_permissions": [asdict(row) for row in users.topic_permissions()],
        "parameters": [
            {"component": VHOST_LIMITS, "vhost": vhost, "name": "limits", "value": dict(value)}
            for vhost, value in users.vhost_limits().items()
        ],
    }
