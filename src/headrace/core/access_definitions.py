"""The part of definitions that says who may do what, in RabbitMQ's JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from headrace.core.access.users import Users
from headrace.core.loop_turn import Steps
from headrace.errors import BrokerError, PreconditionFailed
from headrace.model.passwords import NO_PASSWORD, PasswordHash, guessed_algorithm

VHOST_LIMITS = "vhost-limits"  # the component of its parameters


def entries(data: Mapping[str, Any], kind: str) -> Iterable[Mapping[str, Any]]:
    """The list of one kind of things; TypeError when it is none."""
    found = data.get(kind, [])
    if not isinstance(found, list):
        raise TypeError(f"{kind} must be a list")
    return found


# -- import -------------------------------------------------------------------------------------


def each(data: Mapping[str, Any], kind: str, declare: Callable[[Mapping[str, Any]], None]) -> Steps:
    """Declare the things of one kind; PreconditionFailed names the one that cannot be."""
    for item in entries(data, kind):
        try:
            declare(item)
        except BrokerError as error:
            raise PreconditionFailed(f"{_called(kind, item)}: {error}") from error
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            told = f"{_called(kind, item)}: malformed entry: {error!r}"
            raise PreconditionFailed(told) from error
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


async def hash_passwords(users: Users, data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The definitions with hashes for passwords in plain text, made off the event loop."""
    prepared = []
    for item in entries(data, "users"):
        if isinstance(item.get("password"), str) and item["password"]:
            kept = await users.hash(item["password"])
            item = {key: value for key, value in item.items() if key != "password"}
            item |= {"password_hash": kept.text, "hashing_algorithm": kept.algorithm}
        prepared.append(item)
    return {**data, "users": prepared} if prepared else data


def import_access(users: Users, data: Mapping[str, Any]) -> Steps:
    """Users, permissions and limits; vhosts must be there. What is there already is replaced."""
    yield from each(data, "users", partial(_user, users))
    yield from each(data, "permissions", partial(_permission, users))
    yield from each(data, "topic_permissions", partial(_topic_permission, users))
    yield from each(data, "parameters", partial(_vhost_limits, users))


def _user(users: Users, item: Mapping[str, Any]) -> None:
    users.store_user(item["name"], _password(item), _tags(item.get("tags", ())))
    for name, value in dict(item.get("limits") or {}).items():
        users.set_user_limit(item["name"], name, value)


def _permission(users: Users, item: Mapping[str, Any]) -> None:
    users.set_permissions(
        item["user"], item["vhost"], item["configure"], item["write"], item["read"]
    )


def _topic_permission(users: Users, item: Mapping[str, Any]) -> None:
    users.set_topic_permissions(
        item["user"], item["vhost"], item["exchange"], item["write"], item["read"]
    )


def _vhost_limits(users: Users, item: Mapping[str, Any]) -> None:
    if item.get("component") == VHOST_LIMITS:
        for name, value in item["value"].items():
            users.set_vhost_limit(item["vhost"], name, value)


def _password(item: Mapping[str, Any]) -> PasswordHash:
    if item.get("password"):
        return PasswordHash.of(item["password"])
    text = item.get("password_hash") or ""
    algorithm = item.get("hashing_algorithm") or guessed_algorithm(text)
    return PasswordHash.imported(algorithm, text) if text else NO_PASSWORD


def _tags(given: str | Iterable[str]) -> list[str]:
    """Before RabbitMQ 3.9 they were one text."""
    parts = given.split(",") if isinstance(given, str) else list(given)
    return [tag for tag in parts if tag.strip()]


# -- export -------------------------------------------------------------------------------------


def export_access(users: Users) -> dict[str, list[dict[str, Any]]]:
    """Everything that import_access reads, under the keys it reads it from."""
    limits = users.user_limits()
    return {
        "users": [
            {
                "name": account.name,
                "password_hash": account.password_hash,
                "hashing_algorithm": account.hashing_algorithm,
                "tags": list(account.tags),
                "limits": dict(limits.get(account.name, {})),
            }
            for account in users.list_users()
        ],
        "permissions": [asdict(row) for row in users.permissions()],
        "topic_permissions": [asdict(row) for row in users.topic_permissions()],
        "parameters": [
            {"component": VHOST_LIMITS, "vhost": vhost, "name": "limits", "value": dict(value)}
            for vhost, value in users.vhost_limits().items()
        ],
    }
