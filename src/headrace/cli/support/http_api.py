"""Options and requests of commands that use the HTTP API; errors with advice."""

from __future__ import annotations

import base64
import functools
import http.client
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

import click

from headrace.cli.support.broker_options import (
    PASSWORD_VARIABLE,
    password_option,
    read_secret,
    url_option,
)
from headrace.cli.support.output import escaped, json_option
from headrace.errors import CommandFailed, ConfigError

URL_VARIABLE = "HEADRACE_HTTP_URL"
SHAPE = "http://user:password@host:port"
TIMEOUT = 60.0
_DEFAULT = "http://127.0.0.1:15672"
# What the first name of a path is the name of.
_NOUNS = {
    "users": "user",
    "user-limits": "user",
    "vhosts": "vhost",
    "vhost-limits": "vhost",
    "policies": "vhost",
    "definitions": "vhost",
    "reports": "vhost",
    "connections": "connection",
}


class ManagementClient:
    """One broker's HTTP API and a login."""

    def __init__(self, url: str, password: str | None) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise ConfigError(f"invalid host or port; expected {SHAPE}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"the URL must begin with http:// or https://; expected {SHAPE}")
        self._secure = parts.scheme == "https"
        self._host = parts.hostname
        self._port = port or (443 if self._secure else 15672)
        self._prefix = parts.path.rstrip("/")
        self.user = unquote(parts.username) if parts.username else "guest"
        given = unquote(parts.password) if parts.password is not None else None
        self._password = password if password is not None else given if given else "guest"
        self.clock_skew: float | None = None
        """Seconds by which the broker's clock was ahead at the last reply."""

    @property
    def uses_default_login(self) -> bool:
        return (self.user, self._password) == ("guest", "guest")

    @property
    def where(self) -> str:
        """For messages: never with the password."""
        return f"{escaped(self._host)}:{self._port}"

    def get(self, *path: str) -> Any:  # noqa: ANN401 - JSON
        return self.request("GET", path)

    def request(
        self,
        method: str,
        path: tuple[str, ...],
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:  # noqa: ANN401 - JSON
        """Send a request and return the reply; CommandFailed with advice if it is an error."""
        data = None if body is None else json.dumps(body).encode("ascii")
        with self._response(method, path, "", data, headers or {}) as response, self._advice():
            text = response.read()
        try:
            answer = json.loads(text) if text else None
        except ValueError:
            raise CommandFailed(
                f"{self.where} is not a Headrace broker: its reply is not JSON"
            ) from None
        if response.status >= 400:
            raise CommandFailed(self._explained(method, path, response.status, answer))
        return answer

    @contextmanager
    def stream(
        self, *path: str, query: Mapping[str, str | None]
    ) -> Iterator[http.client.HTTPResponse]:
        """The reply to a GET, to be read from; CommandFailed if it is an error."""
        given = urlencode({key: one for key, one in query.items() if one is not None})
        with self._response("GET", path, f"?{given}", None, {}) as response:
            if response.status >= 400:
                try:
                    answer = json.loads(response.read())
                except ValueError:
                    answer = None
                raise CommandFailed(self._explained("GET", path, response.status, answer))
            yield response

    @contextmanager
    def _response(
        self,
        method: str,
        path: tuple[str, ...],
        query: str,
        data: bytes | None,
        headers: Mapping[str, str],
    ) -> Iterator[http.client.HTTPResponse]:
        where = f"{self._prefix}/api/" + "/".join(quote(part, safe="") for part in path)
        token = base64.b64encode(f"{self.user}:{self._password}".encode()).decode("ascii")
        sent = {
            "authorization": f"Basic {token}",
            "content-type": "application/json",
            "x-requested-with": "headrace",
            **headers,
        }
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        with closing(kind(self._host, self._port, timeout=TIMEOUT)) as connection:
            with self._advice():
                connection.request(method, where + query, data, sent)
                response = connection.getresponse()
            if date := response.getheader("date"):
                self.clock_skew = parsedate_to_datetime(date).timestamp() - time.time()
            yield response

    @contextmanager
    def _advice(self) -> Iterator[None]:
        try:
            yield
        except http.client.HTTPException as error:
            raise CommandFailed(
                f"{self.where} does not speak HTTP: it may be another port of the broker "
                f"(default 15672); choose the HTTP port with --url or {URL_VARIABLE}"
            ) from error
        except OSError as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise CommandFailed(
                f"no broker at {self.where} ({reason}): start one with "
                f"`headrace serve`, or choose another with --url or {URL_VARIABLE}"
            ) from error

    def _explained(self, method: str, path: tuple[str, ...], status: int, answer: object) -> str:
        error = answer.get("error") if isinstance(answer, Mapping) else None
        reason = str(answer.get("reason", status)) if isinstance(answer, Mapping) else str(status)
        if error == "not_authorized":
            return (
                f"the broker at {self.where} refused user '{escaped(self.user)}': {reason}; check "
                f"name and password (--url, --password-file, {PASSWORD_VARIABLE})"
            )
        if error == "not_authorised":
            return f"user '{escaped(self.user)}' has no permission: {reason}"
        if error == "Object Not Found":
            return _missing(method, path)
        return reason


def _missing(method: str, path: tuple[str, ...]) -> str:
    """Name the object that a request did not find."""
    kind, *names = path
    if kind in ("permissions", "policies") and len(names) == 2:
        vhost, name = names
        if kind == "permissions" and method == "PUT":
            return (
                f"no user '{name}' or no vhost '{vhost}'; `headrace user list` and "
                "`headrace vhost list` list them"
            )
        if kind == "permissions":
            return (
                f"user '{name}' has no permissions in vhost '{vhost}'; `headrace permission list` "
                "lists them"
            )
        if method != "PUT":
            return f"no policy '{name}' in vhost '{vhost}'; `headrace policy list` lists them"
    noun = _NOUNS.get(kind)
    if noun is None or not names:
        return "not found; the `list` command shows existing names"
    return f"no {noun} '{names[0]}'; `headrace {noun} list` lists them"


def http_options(function: Callable[..., int]) -> Callable[..., int]:
    """Adds --json and `login_options`."""
    return json_option(login_options(function))


def login_options(function: Callable[..., int]) -> Callable[..., int]:
    """Adds --url and --password-file; the function gets a ManagementClient first."""

    @url_option(SHAPE, URL_VARIABLE)
    @password_option
    @functools.wraps(function)
    def with_client(url: str | None, password_file: Path | None, **rest: object) -> int:
        password = os.environ.get(PASSWORD_VARIABLE)
        if password_file is not None:
            password = read_secret(password_file, "--password-file")
        chosen = url or os.environ.get(URL_VARIABLE) or _DEFAULT
        return function(ManagementClient(chosen, password), **rest)

    return with_client


vhost_option = click.option("-p", "--vhost", default="/", help="The vhost. [/]")
