"""The ASGI application: one request from the socket to its handler, and back.

In this order, each before the next: Host and Origin, route, login, rule, body, handler.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from email.utils import formatdate
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from headrace.core.access import audit
from headrace.core.access.user import User
from headrace.errors import BrokerError, HttpRefused, LoginRefused
from headrace.server.http import auth, replies
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.auth import COOKIE
from headrace.server.http.context import ManagementContext
from headrace.server.http.durability import until_durable
from headrace.server.http.route_table import TABLE
from headrace.server.http.router import ApiRoute, values_of

logger = logging.getLogger(__name__)

BODY_SECONDS = 30.0
ANONYMOUS_BODY = 8192  # bytes of a body without a login
SENT_AT_ONCE = 1 << 20  # bytes of an answer
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

_SECURITY = {
    "cache-control": "no-cache",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Application:
    """Answers requests. Never raises: whatever goes wrong becomes an answer."""

    def __init__(self, management: ManagementContext) -> None:
        self._management = management
        names = (management.config.http_allowed_hosts or "").split(",")
        self._hosts = {name.strip().lower() for name in names if name.strip()} | {"localhost"}
        self._hosts.add(management.config.host.lower())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            reply = await self._answer(request)
        except BrokerError as error:
            reply = self._refused(request, error)
        except ClientDisconnect:
            return
        except Exception:
            logger.exception("unexpected failure at %s %s", request.method, scope["path"])
            text = {"error": "internal_error", "reason": "unexpected failure; see the broker's log"}
            reply = replies.data(text, 500)
        headers = {**_SECURITY, "date": formatdate(usegmt=True), **reply.headers}
        response = _response(reply, headers)
        if not isinstance(reply.body, AsyncGenerator):
            await response(scope, receive, send)
            return
        async with aclosing(reply.body):
            try:
                await response(scope, receive, send)
            except (BrokerError, ClientDisconnect) as error:  # the connection is closed
                logger.warning("the answer to %s was cut short: %s", scope["path"], error)

    # -- the way of a request -------------------------------------------------------------------

    async def _answer(self, request: Request) -> replies.Reply:
        self._check_host(request)
        self._check_origin(request)
        raw_path = request.scope["raw_path"].decode("ascii")
        route = _route(request.method, raw_path)
        params = values_of(route, raw_path)
        user, session = auth.ANONYMOUS, None
        if route.rule.tag is not None:
            user, session = await self._user(request)
        auth.permit(route.rule, user, params, self._management.broker)
        client = request.client
        call = ApiRequest(
            management=self._management,
            method=request.method,
            params=params,
            query=dict(request.query_params),
            headers=request.headers,
            user=user,
            peer=client.host if client is not None else "",
            is_secure=request.url.scheme == "https",
            session=session,
        )
        if request.method not in SAFE_METHODS:
            self._check_lease(route)
            call.body = await _body(request, self._limit(route))
        with audit.acting(user.name, call.peer):
            found = await route.handler(call)
        if request.method not in SAFE_METHODS:
            await until_durable(self._management.broker)
        return found if isinstance(found, replies.Reply) else replies.of(found)

    async def _user(self, request: Request) -> tuple[User, str | None]:
        """The user, and the session's token when it is the page that asks."""
        header = request.headers.get("authorization")
        if header is None:
            return self._user_of_page(request)
        name, password = auth.credentials(header)
        peer = request.client.host if request.client is not None else ""
        return await auth.login(self._management.broker, name, password, peer), None

    def _user_of_page(self, request: Request) -> tuple[User, str]:
        token = request.cookies.get(COOKIE)
        session = self._management.sessions.find(token) if token is not None else None
        users = self._management.broker.users
        if token is None or session is None:
            raise LoginRefused("Not logged in")
        user = users.user(session.user)
        if users.get_user(session.user).password != session.password:
            self._management.sessions.end(token)
            raise LoginRefused("Not logged in: the password has changed")
        if request.method not in SAFE_METHODS and not session.matches(
            request.headers.get("x-csrf-token", "")
        ):
            raise HttpRefused("the header x-csrf-token is missing or wrong", 403, "csrf")
        return user, token

    def _refused(self, request: Request, error: BrokerError) -> replies.Reply:
        reply = replies.refusal(error)
        if not isinstance(error, LoginRefused) or _is_script(request.headers):
            return reply
        # A browser would ask for a password by itself; the page asks in its own way.
        challenge = {"www-authenticate": 'Basic realm="RabbitMQ Management"'}
        return replies.Reply(reply.status, reply.body, reply.content_type, challenge)

    # -- checks ---------------------------------------------------------------------------------

    def _check_host(self, request: Request) -> None:
        """A foreign name that leads to this address is a trick to get at it through a browser."""
        host = _host_name(request.headers.get("host", ""))
        if host and not _is_address(host) and host not in self._hosts:
            raise HttpRefused(
                "this Host name is not known here; see http_allowed_hosts", 421, "unknown_host"
            )

    def _check_origin(self, request: Request) -> None:
        """Pages of other sites may not change anything, whatever the browser knows of us."""
        origin = request.headers.get("origin")
        if origin is None or request.method in SAFE_METHODS:
            return
        if urlsplit(origin).netloc.lower() != request.headers.get("host", "").lower():
            raise HttpRefused("requests from other sites are not answered", 403, "cross_origin")

    def _check_lease(self, route: ApiRoute) -> None:
        """Messages are neither taken nor given while another node may do that."""
        if self._management.broker.turn.is_paused and route.rule.tag is not None:
            raise HttpRefused(
                "no commit for the time of the lease: another node may have the shard", 503, "lease"
            )

    def _limit(self, route: ApiRoute) -> int:
        config = self._management.config
        if route.rule.tag is None:
            return ANONYMOUS_BODY
        return min(config.http_max_body, route.largest(config))


def _response(reply: replies.Reply, headers: dict[str, str]) -> Response:
    body = reply.body
    if isinstance(body, list):
        size = sum(map(len, body))
        if size > SENT_AT_ONCE:
            headers["content-length"] = str(size)
            return StreamingResponse(_in_turns(body), reply.status, headers, reply.content_type)
        body = b"".join(body)
    elif isinstance(body, AsyncGenerator):
        return StreamingResponse(body, reply.status, headers, reply.content_type)
    return Response(body, reply.status, headers, media_type=reply.content_type)


async def _in_turns(parts: list[bytes]) -> AsyncIterator[bytes]:
    """Other clients get a turn after each part, however fast this one reads."""
    for part in parts:
        yield part
        await asyncio.sleep(0)


async def _body(request: Request, limit: int) -> bytes:
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HttpRefused("compressed bodies are not read", 415, "unsupported_encoding")
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or len(length) > 15 or int(length) > limit:
        raise _too_large(limit)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise _too_large(limit)
                parts.append(part)
    except TimeoutError:
        raise HttpRefused("the body did not arrive in time", 408, "timeout") from None
    return b"".join(parts)


def _too_large(limit: int) -> HttpRefused:
    return HttpRefused(f"at most {limit} bytes are allowed in this body", 413, "too_large")


def _route(method: str, raw_path: str) -> ApiRoute:
    found = TABLE.find(raw_path)
    if not found:
        raise replies.not_found()
    route = found.get("GET" if method == "HEAD" else method)
    if route is None:
        allowed = ", ".join(sorted(found))
        raise HttpRefused(f"allowed here: {allowed}", 405, "method_not_allowed")
    return route


def _host_name(header: str) -> str:
    """The name without the port."""
    try:
        return (urlsplit(f"//{header}").hostname or "").lower()
    except ValueError:
        return "?"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_script(headers: Mapping[str, str]) -> bool:
    return headers.get("sec-fetch-dest") == "empty" or "x-requested-with" in headers
