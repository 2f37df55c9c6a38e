"""/api/permissions, /api/topic-permissions and limits: what users may do, and how much."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from headrace.core.access.limits import USER_LIMITS, VHOST_LIMITS
from headrace.errors import NotFound
from headrace.server.http import replies
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.replies import Reply
from headrace.server.http.router import ADMINISTRATOR, MANAGEMENT, MONITORING, SEES_VHOST, ApiRoute


def _check_user(call: ApiRequest) -> str:
    try:
        return call.broker.users.get_user(call.params["user"]).name
    except NotFound:
        raise replies.not_found() from None


def _where(call: ApiRequest) -> dict[str, str]:
    """The user and the vhost of the path, as far as it names them; both must be there."""
    where: dict[str, str] = {}
    if "user" in call.params:
        where["user"] = _check_user(call)
    if "vhost" in call.params:
        where["vhost"] = call.vhost.name
    return where


# -- permissions ---------------------------------------------------------------------------------


async def _permissions(call: ApiRequest) -> Reply:
    return replies.data([asdict(row) for row in call.broker.users.permissions(**_where(call))])


async def _permission(call: ApiRequest) -> Reply:
    rows = call.broker.users.permissions(**_where(call))
    if not rows:
        raise replies.not_found()
    return replies.data(asdict(rows[0]))


def _patterns(call: ApiRequest, *names: str) -> list[str]:
    missing = [f"{{key_missing,{name}}}" for name in names if name not in call.json()]
    if missing:
        raise replies.bad_request(f"[{','.join(missing)}]")
    return [call.value(name, str) for name in names]


async def _set(call: ApiRequest) -> Reply:
    where = _where(call)
    configure, write, read = _patterns(call, "configure", "write", "read")
    new = call.broker.users.set_permissions(where["user"], where["vhost"], configure, write, read)
    return replies.created(new=new)


async def _clear(call: ApiRequest) -> Reply:
    where = _where(call)
    if not call.broker.users.permissions(**where):
        raise replies.not_found()
    call.broker.users.clear_permissions(where["user"], where["vhost"])
    return replies.DONE


# -- topic permissions ---------------------------------------------------------------------------


async def _topics(call: ApiRequest) -> Reply:
    rows = call.broker.users.topic_permissions(**_where(call))
    return replies.data([asdict(row) for row in rows])


async def _topics_of(call: ApiRequest) -> Reply:
    rows = call.broker.users.topic_permissions(**_where(call))
    if not rows:
        raise replies.not_found()
    return replies.data([asdict(row) for row in rows])


async def _set_topic(call: ApiRequest) -> Reply:
    where = _where(call)
    exchange, write, read = _patterns(call, "exchange", "write", "read")
    new = call.broker.users.set_topic_permissions(
        where["user"], where["vhost"], exchange, write, read
    )
    return replies.created(new=new)


async def _clear_topics(call: ApiRequest) -> Reply:
    where = _where(call)
    exchange = call.params.get("exchange")
    if not call.broker.users.topic_permissions(**where):
        raise replies.not_found()
    call.broker.users.clear_topic_permissions(where["user"], where["vhost"], exchange)
    return replies.DONE


# -- limits --------------------------------------------------------------------------------------


def _rows(kind: str, limits: Any) -> list[dict[str, object]]:  # noqa: ANN401 - nested mappings
    return [{kind: name, "value": value} for name, value in limits.items()]


async def _vhost_limits(call: ApiRequest) -> Reply:
    limits = call.broker.users.vhost_limits(call.params.get("vhost"))
    return replies.data(_rows("vhost", {k: v for k, v in limits.items() if call.sees(k)}))


async def _user_limits(call: ApiRequest) -> Reply:
    user = _check_user(call) if "user" in call.params else None
    return replies.data(_rows("user", call.broker.users.user_limits(user)))


async def _set_vhost_limit(call: ApiRequest) -> Reply:
    name = call.vhost.name
    call.broker.users.set_vhost_limit(name, call.name, call.value("value", int))
    return replies.DONE


async def _clear_vhost_limit(call: ApiRequest) -> Reply:
    if call.name not in VHOST_LIMITS:
        raise replies.not_found()
    call.broker.users.clear_vhost_limit(call.vhost.name, call.name)
    return replies.DONE


async def _set_user_limit(call: ApiRequest) -> Reply:
    user = _check_user(call)
    call.broker.users.set_user_limit(user, call.name, call.value("value", int))
    return replies.DONE


async def _clear_user_limit(call: ApiRequest) -> Reply:
    user = _check_user(call)
    if call.name not in USER_LIMITS:
        raise replies.not_found()
    call.broker.users.clear_user_limit(user, call.name)
    return replies.DONE


_ONE = "/api/permissions/{vhost}/{user}"
_TOPIC = "/api/topic-permissions/{vhost}/{user}"
_VALUE = {"value": "integer"}

ROUTES = (
    ApiRoute("GET", "/api/permissions", _permissions, ADMINISTRATOR, "All permissions"),
    ApiRoute("GET", "/api/vhosts/{vhost}/permissions", _permissions, ADMINISTRATOR,
          "Permissions in a vhost"),
    ApiRoute("GET", "/api/users/{user}/permissions", _permissions, ADMINISTRATOR,
          "Permissions of a user"),
    ApiRoute("GET", _ONE, _permission, ADMINISTRATOR, "Permissions of a user in a vhost"),
    ApiRoute("PUT", _ONE, _set, ADMINISTRATOR, "Set permissions",
          {"configure": "string", "write": "string", "read": "string"}),
    ApiRoute("DELETE", _ONE, _clear, ADMINISTRATOR, "Clear permissions"),
    ApiRoute("GET", "/api/topic-permissions", _topics, ADMINISTRATOR, "All topic permissions"),
    ApiRoute("GET", "/api/vhosts/{vhost}/topic-permissions", _topics, ADMINISTRATOR,
          "Topic permissions in a vhost"),
    ApiRoute("GET", "/api/users/{user}/topic-permissions", _topics, ADMINISTRATOR,
          "Topic permissions of a user"),
    ApiRoute("GET", _TOPIC, _topics_of, ADMINISTRATOR, "Topic permissions of a user in a vhost"),
    ApiRoute("PUT", _TOPIC, _set_topic, ADMINISTRATOR, "Set topic permissions",
          {"exchange": "string", "write": "string", "read": "string"}),
    ApiRoute("DELETE", _TOPIC, _clear_topics, ADMINISTRATOR, "Clear topic permissions in a vhost"),
    ApiRoute("DELETE", _TOPIC + "/{exchange}", _clear_topics, ADMINISTRATOR,
          "Clear topic permissions for an exchange"),
    ApiRoute("GET", "/api/vhost-limits", _vhost_limits, MANAGEMENT, "Limits of vhosts"),
    ApiRoute("GET", "/api/vhost-limits/{vhost}", _vhost_limits, SEES_VHOST, "Limits of a vhost"),
    ApiRoute("PUT", "/api/vhost-limits/{vhost}/{name}", _set_vhost_limit, ADMINISTRATOR,
          "Set max-connections or max-queues", _VALUE),
    ApiRoute("DELETE", "/api/vhost-limits/{vhost}/{name}", _clear_vhost_limit, ADMINISTRATOR,
          "Clear a limit"),
    ApiRoute("GET", "/api/user-limits", _user_limits, MONITORING, "Limits of users"),
    ApiRoute("GET", "/api/user-limits/{user}", _user_limits, MONITORING, "Limits of a user"),
    ApiRoute("PUT", "/api/user-limits/{user}/{name}", _set_user_limit, ADMINISTRATOR,
          "Set max-connections or max-channels", _VALUE),
    ApiRoute("DELETE", "/api/user-limits/{user}/{name}", _clear_user_limit, ADMINISTRATOR,
          "Clear a limit"),
)  # fmt: skip
