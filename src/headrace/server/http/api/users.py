"""/api/users: who may log in. Passwords come in and never go out."""

from __future__ import annotations

from secrets import token_urlsafe

from headrace.core.access.users import Account
from headrace.core.definitions import export_users
from headrace.errors import HttpRefused
from headrace.server.http import replies
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.listing import listed_rows, reduced
from headrace.server.http.router import ADMINISTRATOR, ApiRoutes

ROUTES = ApiRoutes()

SECRET_BYTES = 24


def _account(call: ApiRequest) -> Account:
    return replies.found(call.broker.users.find_user(call.name))


@ROUTES.get("/api/users", ADMINISTRATOR, "All users")
async def _users(call: ApiRequest) -> replies.Reply:
    users = call.broker.users
    return await listed_rows(call, export_users(users, users.list_users()))


@ROUTES.get(
    "/api/users/without-permissions", ADMINISTRATOR, "Users without permissions in any vhost"
)
async def _without_permissions(call: ApiRequest) -> replies.Reply:
    users = call.broker.users
    without = [one for one in users.list_users() if not users.permissions(one.name)]
    return await listed_rows(call, export_users(users, without))


@ROUTES.get("/api/users/{name}", ADMINISTRATOR, "One user")
async def _user(call: ApiRequest) -> object:
    return reduced(call, *export_users(call.broker.users, [_account(call)]))


@ROUTES.put("/api/users/{name}", ADMINISTRATOR, "Create or update a user",
    {"password": "string", "password_hash": "string", "hashing_algorithm": "string",
     "tags": "string"})  # fmt: skip
async def _put(call: ApiRequest) -> replies.Reply:
    if "tags" not in call.json():
        raise replies.bad_request("tags_not_present")
    tags = [tag.strip() for tag in call.tags() if tag.strip()]
    password, hashed = call.value("password", str, None), call.value("password_hash", str, None)
    algorithm = call.value("hashing_algorithm", str, "rabbit_password_hashing_sha256")
    new = await call.broker.users.put_user(
        call.name, password=password, password_hash=hashed, hashing=algorithm, tags=tags
    )
    return replies.created(new=new)


@ROUTES.put("/api/users/{name}/rocketmq-secret", ADMINISTRATOR,
    "Set the secret of a user for RocketMQ clients; generated if the body has none",
    {"secret": "string"})  # fmt: skip
async def _set_secret(call: ApiRequest) -> object:
    """Secret for RocketMQ clients; one that is generated is shown in this reply only."""
    name = _account(call).name
    given = call.value("secret", str, None)
    secret = token_urlsafe(SECRET_BYTES) if given is None else given
    call.broker.users.set_secret(name, secret)
    return {"access_key": name} if given is not None else {"access_key": name, "secret": secret}


@ROUTES.delete("/api/users/{name}/rocketmq-secret", ADMINISTRATOR,
    "Delete the secret of a user for RocketMQ clients")  # fmt: skip
async def _clear_secret(call: ApiRequest) -> None:
    call.broker.users.set_secret(_account(call).name, None)


def _not_oneself(call: ApiRequest, name: str) -> None:
    if name == call.user.name:
        raise HttpRefused(
            f"you are logged in as user '{name}': delete it as another administrator",
            400,
            "bad_request",
        )


@ROUTES.delete("/api/users/{name}", ADMINISTRATOR, "Delete a user and close its connections")
async def _delete(call: ApiRequest) -> None:
    name = _account(call).name
    _not_oneself(call, name)
    call.broker.users.delete_user(name)


@ROUTES.post("/api/users/bulk-delete", ADMINISTRATOR, "Delete users", {"users": "array"})
async def _delete_many(call: ApiRequest) -> None:
    names = call.value("users", list)
    known = {account.name for account in call.broker.users.list_users()}
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise replies.bad_request(f"no_such_user {name}")
        _not_oneself(call, name)
    for name in dict.fromkeys(names):
        call.broker.users.delete_user(name)
