"""/api/login: how the page logs in and out. Tools use HTTP Basic and need none of this."""

from __future__ import annotations

from urllib.parse import parse_qsl

from headrace.core.access.user import User
from headrace.errors import LoginRefused
from headrace.server.http import auth, replies
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.replies import Reply
from headrace.server.http.router import ANYBODY, MANAGEMENT, ApiRoute, has_tag
from headrace.server.http.sessions import COOKIE, MAX_SECONDS, PageSession


def _credentials(call: ApiRequest) -> tuple[str, str]:
    if call.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        given: dict[str, object] = dict(parse_qsl(call.body.decode("utf-8", "replace")))
    else:
        given = call.json()
    name, password = given.get("username"), given.get("password")
    if not isinstance(name, str) or not isinstance(password, str):
        raise replies.bad_request("username and password are needed")
    return name, password


def _cookie(call: ApiRequest, token: str, seconds: int) -> str:
    secure = "; Secure" if call.is_secure else ""
    return f"{COOKIE}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"


def _shown(user: User, session: PageSession | None) -> dict[str, object]:
    return {
        "name": user.name,
        "tags": sorted(user.tags),
        "csrf_token": session.csrf if session is not None else None,
    }


async def _login(call: ApiRequest) -> Reply:
    name, password = _credentials(call)
    user = await auth.login(call.broker, name, password, call.peer)
    if not has_tag(user.tags, "management"):
        raise LoginRefused("Not management user")
    kept = call.broker.users.get_user(user.name).password
    token, session = call.management.sessions.begin(user.name, kept)
    reply = replies.data(_shown(user, session))
    cookie = {"set-cookie": _cookie(call, token, int(MAX_SECONDS))}
    return Reply(reply.status, reply.body, reply.content_type, cookie)


async def _logout(call: ApiRequest) -> Reply:
    if call.session is not None:
        call.management.sessions.end(call.session)
    return Reply(204, headers={"set-cookie": _cookie(call, "", 0)})


async def _session(call: ApiRequest) -> Reply:
    token = call.session
    session = call.management.sessions.find(token) if token is not None else None
    return replies.data(_shown(call.user, session))


ROUTES = (
    ApiRoute("POST", "/api/login", _login, ANYBODY, "Begin a session of the page",
          {"username": "string", "password": "string"}),
    ApiRoute("DELETE", "/api/login", _logout, MANAGEMENT, "End the session"),
    ApiRoute("GET", "/api/session", _session, MANAGEMENT, "Who is logged in, and the CSRF token"),
)  # fmt: skip
