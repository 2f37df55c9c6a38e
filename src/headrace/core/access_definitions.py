"""The part of definitions that says who may do what, in RabbitMQ's JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.core.users import Users
from headrace.model.passwords import NO_PASSWORD, PasswordHash, guessed_algorithm

VHOST_LIMITS = "vhost-limits"  # the component of its parameters


def entries(data: Mapping[str, Any], kind: str) -> Iterable[Mapping[str, Any]]:
    """The list of one kind of things; TypeError when it is none."""
    found = data.get(kind, [])
    if not isinstance(found, list):
        raise TypeError(f"{kind} must be a list")
    return found


# -- import -------------------------------------------------------------------------------------


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


def import_access(users: Users, data: Mapping[str, Any]) -> None:
    """Users, permissions and limits; vhosts must be there. What is there already is replaced."""
    for item in entries(data, "users"):
        users.store_user(item["name"], _password(item), _tags(item.get("tags", ())))
        for name, value in dict(item.get("limits") or {}).items():
            users.set_user_limit(item["name"], name, value)
    for item in entries(data, "permissions"):
        users.set_permissions(
            item["user"], item["vhost"], item["configure"], item["write"], item["read"]
        )
    for item in entries(data, "topic_permissions"):
        users.set_topic_permissions(
            item["user"], item["vhost"], item["exchange"], item["write"], item["read"]
        )
    for item in entries(data, "parameters"):
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
        "permissions": [
            {
                "user": row.user,
                "vhost": row.vhost,
                "configure": row.configure,
                "write": row.write,
                "read": row.read,
            }
            for row in users.permissions()
        ],
        "topic_permissions": [
            {
                "user": row.user,
                "vhost": row.vhost,
                "exchange": row.exchange,
                "write": row.write,
                "read": row.read,
            }
            for row in users.topic_permissions()
        ],
        "parameters": [
            {"component": VHOST_LIMITS, "vhost": vhost, "name": "limits", "value": dict(value)}
            for vhost, value in users.vhost_limits().items()
        ],
    }
