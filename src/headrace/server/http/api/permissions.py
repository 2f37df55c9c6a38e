"""/api/permissions, /api/topic-permissions and limits: what users may do, and how much."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from headrace.core.access.limits import USER_LIMITS, VHOST_LIMITS
from headrace.server.http import replies
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.router import ADMINISTRATOR, MANAGEMENT, MONITORING, SEES_VHOST, ApiRoutes

ROUTES = ApiRoutes()
_ONE = "/api/permissions/{vhost}/{user}"
_TOPIC = "/api/topic-permissions/{vhost}/{user}"
_VALUE = {"value": "integer"}


def _check_user(call: ApiRequest) -> str:
    return replies.found(call.broker.users.find_user(call.params["user"])).name


def _where(call: ApiRequest) -> dict[str, str]:
    """The user and the vhost of the path, as far as it names them; both must be there."""
    where: dict[str, str] = {}
    if "user" in call.params:
        where["user"] = _check_user(call)
    if "vhost" in call.params:
        where["vhost"] = call.vhost.name
    return where


# -- permissions ---------------------------------------------------------------------------------


@ROUTES.get("/api/permissions", ADMINISTRATOR, "All permissions")
@ROUTES.get("/api/vhosts/{vhost}/permissions", ADMINISTRATOR, "Permissions in a vhost")
@ROUTES.get("/api/users/{user}/permissions", ADMINISTRATOR, "Permissions of a user")
async def _permissions(call: ApiRequest) -> object:
    return [asdict(row) for row in call.broker.users.permissions(**_where(call))]


@ROUTES.get(_ONE, ADMINISTRATOR, "Permissions of a user in a vhost")
async def _permission(call: ApiRequest) -> object:
    return asdict(replies.found(call.broker.users.permissions(**_where(call)))[0])


def _patterns(call: ApiRequest, *names: str) -> list[str]:
    replies.require(call.json(), *names)
    return [call.value(name, str) for name in names]


@ROUTES.put(_ONE, ADMINISTRATOR, "Set permissions",
    {"configure": "string", "write": "string", "read": "string"})  # fmt: skip
async def _set(call: ApiRequest) -> replies.Reply:
    where = _where(call)
    patterns = _patterns(call, "configure", "write", "read")
    new = call.broker.users.set_permissions(where["user"], where["vhost"], *patterns)
    return replies.created(new=new)


@ROUTES.delete(_ONE, ADMINISTRATOR, "Clear permissions")
async def _clear(call: ApiRequest) -> None:
    where = _where(call)
    replies.found(call.broker.users.permissions(**where))
    call.broker.users.clear_permissions(where["user"], where["vhost"])


# -- topic permissions ---------------------------------------------------------------------------


@ROUTES.get("/api/topic-permissions", ADMINISTRATOR, "All topic permissions")
@ROUTES.get("/api/vhosts/{vhost}/topic-permissions", ADMINISTRATOR, "Topic permissions in a vhost")
@ROUTES.get("/api/users/{user}/topic-permissions", ADMINISTRATOR, "Topic permissions of a user")
async def _topics(call: ApiRequest) -> object:
    return [asdict(row) for row in call.broker.users.topic_permissions(**_where(call))]


@ROUTES.get(_TOPIC, ADMINISTRATOR, "Topic permissions of a user in a vhost")
async def _topics_of(call: ApiRequest) -> object:
    return replies.found(await _topics(call))


@ROUTES.put(_TOPIC, ADMINISTRATOR, "Set topic permissions",
    {"exchange": "string", "write": "string", "read": "string"})  # fmt: skip
async def _set_topic(call: ApiRequest) -> replies.Reply:
    where = _where(call)
    patterns = _patterns(call, "exchange", "write", "read")
    new = call.broker.users.set_topic_permissions(where["user"], where["vhost"], *patterns)
    return replies.created(new=new)


@ROUTES.delete(_TOPIC, ADMINISTRATOR, "Clear topic permissions in a vhost")
@ROUTES.delete(_TOPIC + "/{exchange}", ADMINISTRATOR, "Clear topic permissions for an exchange")
async def _clear_topics(call: ApiRequest) -> None:
    where, users = _where(call), call.broker.users
    replies.found(users.topic_permissions(**where))
    users.clear_topic_permissions(where["user"], where["vhost"], call.params.get("exchange"))


# -- limits --------------------------------------------------------------------------------------


def _rows(kind: str, limits: Any) -> list[dict[str, object]]:  # noqa: ANN401 - nested mappings
    return [{kind: name, "value": value} for name, value in limits.items()]


@ROUTES.get("/api/vhost-limits", MANAGEMENT, "Limits of vhosts")
@ROUTES.get("/api/vhost-limits/{vhost}", SEES_VHOST, "Limits of a vhost")
async def _vhost_limits(call: ApiRequest) -> object:
    limits = call.broker.users.vhost_limits(call.params.get("vhost"))
    return _rows("vhost", {k: v for k, v in limits.items() if call.sees(k)})


@ROUTES.get("/api/user-limits", MONITORING, "Limits of users")
@ROUTES.get("/api/user-limits/{user}", MONITORING, "Limits of a user")
async def _user_limits(call: ApiRequest) -> object:
    user = _check_user(call) if "user" in call.params else None
    return _rows("user", call.broker.users.user_limits(user))


@ROUTES.put(
    "/api/vhost-limits/{vhost}/{name}", ADMINISTRATOR, "Set max-connections or max-queues", _VALUE
)
async def _set_vhost_limit(call: ApiRequest) -> None:
    call.broker.users.set_vhost_limit(call.vhost.name, call.name, call.value("value", int))


@ROUTES.delete("/api/vhost-limits/{vhost}/{name}", ADMINISTRATOR, "Clear a limit")
async def _clear_vhost_limit(call: ApiRequest) -> None:
    replies.found(call.name in VHOST_LIMITS)
    call.broker.users.clear_vhost_limit(call.vhost.name, call.name)


@ROUTES.put(
    "/api/user-limits/{user}/{name}", ADMINISTRATOR, "Set max-connections or max-channels", _VALUE
)
async def _set_user_limit(call: ApiRequest) -> None:
    call.broker.users.set_user_limit(_check_user(call), call.name, call.value("value", int))


@ROUTES.delete("/api/user-limits/{user}/{name}", ADMINISTRATOR, "Clear a limit")
async def _clear_user_limit(call: ApiRequest) -> None:
    user = _check_user(call)
    replies.found(call.name in USER_LIMITS)
    call.broker.users.clear_user_limit(user, call.name)
