"""Authentication of requests (HTTP Basic, page sessions, /api/login) and the rules of routes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from headrace.core.access.user import User
from headrace.core.broker import Broker
from headrace.errors import LoginLocked, LoginRefused
from headrace.model.passwords import PasswordHash
from headrace.server.http import replies
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.router import ANYBODY, ENTER, MANAGEMENT, AccessRule, ApiRoutes, has_tag

ROUTES = ApiRoutes()

ANONYMOUS = User("")
COOKIE = "headrace_session"
IDLE_SECONDS = 3600.0
MAX_SECONDS = 12 * 3600.0
MAX_SESSIONS = 1000
MAX_PER_USER = 50

# -- HTTP Basic and rules ------------------------------------------------------------------------


def credentials(header: str) -> tuple[str, str]:
    """Name and password of an Authorization header."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        raise LoginRefused("Login failed: only Basic is understood")
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode("utf-8", "surrogateescape")
    except (binascii.Error, ValueError):
        raise LoginRefused("Login failed: the header cannot be read") from None
    name, _, password = text.partition(":")
    return name, password


async def login(broker: Broker, name: str, password: str, peer: str) -> User:
    """The user, or LoginRefused; repeated failures are locked out by the broker's users."""
    try:
        return await broker.users.authenticate(name, password, peer)
    except LoginLocked:
        raise
    except LoginRefused:
        raise LoginRefused("Login failed") from None


def permit(rule: AccessRule, user: User, params: Mapping[str, str], broker: Broker) -> None:
    """Raise unless the rule lets the user in."""
    if rule.tag is None:
        return
    if not has_tag(user.tags, rule.tag):
        raise replies.not_authorised(f"Not {rule.tag} user")
    if rule.vhost is None:
        return
    name = params["vhost"]
    if name not in broker.vhosts:
        raise replies.not_found()
    sees_all = rule.vhost != ENTER and has_tag(user.tags, "monitoring")
    if not sees_all and name not in user.permissions:
        raise replies.not_authorised("User not authorised to access virtual host")


# -- page sessions -------------------------------------------------------------------------------


@dataclass(slots=True)
class PageSession:
    """One login of the page: a random token in a cookie, of which only the digest is kept."""

    user: str
    password: PasswordHash  # with another one the session is worth nothing
    csrf: str
    ends: float
    idle_ends: float

    def matches(self, token: str) -> bool:
        """Whether the request was made by the page, and not by another site for it."""
        return hmac.compare_digest(self.csrf.encode(), token.encode("utf-8", "replace"))


class PageSessions:
    """Sessions of the page by the digest of their token; the oldest are dropped at the limits."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._by_digest: OrderedDict[bytes, PageSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_digest)

    def begin(self, user: str, password: PasswordHash) -> tuple[str, PageSession]:
        """A new session and the token for its cookie."""
        now = self._now()
        own = [key for key, one in self._by_digest.items() if one.user == user]
        for key in own[: max(0, len(own) - MAX_PER_USER + 1)]:
            del self._by_digest[key]
        while len(self._by_digest) >= MAX_SESSIONS:
            self._by_digest.popitem(last=False)
        token = secrets.token_urlsafe(32)
        session = PageSession(
            user, password, secrets.token_urlsafe(24), now + MAX_SECONDS, now + IDLE_SECONDS
        )
        self._by_digest[_digest(token)] = session
        return token, session

    def find(self, token: str) -> PageSession | None:
        """The session of a cookie, unless its time is over."""
        key = _digest(token)
        session = self._by_digest.get(key)
        if session is None:
            return None
        now = self._now()
        if now >= min(session.ends, session.idle_ends):
            del self._by_digest[key]
            return None
        session.idle_ends = now + IDLE_SECONDS
        return session

    def end(self, token: str) -> None:
        self._by_digest.pop(_digest(token), None)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


# -- /api/login: for the page; tools use HTTP Basic ----------------------------------------------


def _form_credentials(call: ApiRequest) -> tuple[str, str]:
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


@ROUTES.post(
    "/api/login", ANYBODY, "Log in to the page", {"username": "string", "password": "string"}
)
async def _login(call: ApiRequest) -> replies.Reply:
    name, password = _form_credentials(call)
    user = await login(call.broker, name, password, call.peer)
    if not has_tag(user.tags, "management"):
        raise LoginRefused("Not management user")
    kept = call.broker.users.get_user(user.name).password
    token, session = call.management.sessions.begin(user.name, kept)
    reply = replies.data(_shown(user, session))
    cookie = {"set-cookie": _cookie(call, token, int(MAX_SECONDS))}
    return replies.Reply(reply.status, reply.body, reply.content_type, cookie)


@ROUTES.delete("/api/login", MANAGEMENT, "Log out of the page")
async def _logout(call: ApiRequest) -> replies.Reply:
    if call.session is not None:
        call.management.sessions.end(call.session)
    return replies.Reply(204, headers={"set-cookie": _cookie(call, "", 0)})


@ROUTES.get("/api/session", MANAGEMENT, "The logged-in user and the CSRF token")
async def _session(call: ApiRequest) -> object:
    token = call.session
    session = call.management.sessions.find(token) if token is not None else None
    return _shown(call.user, session)
