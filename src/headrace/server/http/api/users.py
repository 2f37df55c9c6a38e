"""/api/users: who may log in. Passwords come in and never go out."""

from __future__ import annotations

from secrets import token_urlsafe
from typing import Any

from headrace.core.access.users import Account
from headrace.errors import HttpRefused, NotFound
from headrace.server.http import replies
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.listing import ListColumns, listed, reduced
from headrace.server.http.replies import Reply
from headrace.server.http.router import ADMINISTRATOR, ApiRoute

SECRET_BYTES = 24


def _fields(call: ApiRequest) -> ListColumns[Account]:
    limits = call.broker.users.user_limits()
    return ListColumns(
        {
            "name": lambda account: account.name,
            "password_hash": lambda account: account.password_hash,
            "hashing_algorithm": lambda account: account.hashing_algorithm,
            "tags": lambda account: list(account.tags),
            "limits": lambda account: limits.get(account.name, {}),
        }
    )


def _account(call: ApiRequest) -> Account:
    try:
        return call.broker.users.get_user(call.name)
    except NotFound:
        raise replies.not_found() from None


async def _users(call: ApiRequest) -> Reply:
    return await listed(call, call.broker.users.list_users(), _fields(call))


async def _without_permissions(call: ApiRequest) -> Reply:
    users = call.broker.users
    without = [one for one in users.list_users() if not users.permissions(one.name)]
    return await listed(call, without, _fields(call))


async def _user(call: ApiRequest) -> Reply:
    return replies.data(reduced(call, _fields(call).row(_account(call))))


def _tags(body: dict[str, Any]) -> list[str]:
    if "tags" not in body:
        raise replies.bad_request("tags_not_present")
    given = body["tags"]
    if isinstance(given, str):
        given = given.split(",")
    if not isinstance(given, list) or not all(isinstance(tag, str) for tag in given):
        raise replies.bad_request("'tags' must be a string or an array of strings")
    return [tag.strip() for tag in given if tag.strip()]


async def _put(call: ApiRequest) -> Reply:
    body = call.json()
    tags = _tags(body)
    password, hashed = call.value("password", str, None), call.value("password_hash", str, None)
    algorithm = call.value("hashing_algorithm", str, "rabbit_password_hashing_sha256")
    new = await call.broker.users.put_user(
        call.name, password=password, password_hash=hashed, hashing=algorithm, tags=tags
    )
    return replies.created(new=new)


async def _set_secret(call: ApiRequest) -> Reply:
    """Secret for RocketMQ clients; one that is generated is shown in this reply only."""
    name = _account(call).name
    given = call.value("secret", str, None)
    secret = token_urlsafe(SECRET_BYTES) if given is None else given
    call.broker.users.set_secret(name, secret)
    shown = {"access_key": name} if given is not None else {"access_key": name, "secret": secret}
    return replies.data(shown)


async def _clear_secret(call: ApiRequest) -> Reply:
    call.broker.users.set_secret(_account(call).name, None)
    return replies.DONE


def _not_oneself(call: ApiRequest, name: str) -> None:
    if name == call.user.name:
        raise HttpRefused(
            f"you are logged in as user '{name}': delete it as another administrator",
            400,
            "bad_request",
        )


async def _delete(call: ApiRequest) -> Reply:
    name = _account(call).name
    _not_oneself(call, name)
    call.broker.users.delete_user(name)
    return replies.DONE


async def _delete_many(call: ApiRequest) -> Reply:
    names = call.value("users", list)
    known = {account.name for account in call.broker.users.list_users()}
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise replies.bad_request(f"no_such_user {name}")
        _not_oneself(call, name)
    for name in dict.fromkeys(names):
        call.broker.users.delete_user(name)
    return replies.DONE


ROUTES = (
    ApiRoute("GET", "/api/users", _users, ADMINISTRATOR, "All users"),
    ApiRoute("GET", "/api/users/without-permissions", _without_permissions, ADMINISTRATOR,
          "Users without permissions in any vhost"),
    ApiRoute("POST", "/api/users/bulk-delete", _delete_many, ADMINISTRATOR, "Delete users",
          {"users": "array"}),
    ApiRoute("GET", "/api/users/{name}", _user, ADMINISTRATOR, "One user"),
    ApiRoute("PUT", "/api/users/{name}", _put, ADMINISTRATOR, "Create or update a user",
          {"password": "string", "password_hash": "string", "hashing_algorithm": "string",
           "tags": "string"}),
    ApiRoute("PUT", "/api/users/{name}/rocketmq-secret", _set_secret, ADMINISTRATOR,
          "Set the secret of a user for RocketMQ clients; generated if the body has none",
          {"secret": "string"}),
    ApiRoute("DELETE", "/api/users/{name}/rocketmq-secret", _clear_secret, ADMINISTRATOR,
          "Delete the secret of a user for RocketMQ clients"),
    ApiRoute("DELETE", "/api/users/{name}", _delete, ADMINISTRATOR,
          "Delete a user and close its connections"),
)  # fmt: skip
