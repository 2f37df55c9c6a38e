"""One route of the HTTP API: its path, what it does, and who may call it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from headrace.server.http.json_body import SMALL

if TYPE_CHECKING:
    from headrace.config import Config
    from headrace.server.http.api_request import ApiRequest

# Returns a Reply, a value that is shown as JSON, or None when there is nothing to say but "done".
Handler = Callable[["ApiRequest"], Awaitable[object]]

# What a tag includes, as in RabbitMQ.
_INCLUDES: Final[Mapping[str, frozenset[str]]] = {
    "administrator": frozenset({"administrator", "monitoring", "policymaker", "management"}),
    "monitoring": frozenset({"monitoring", "management"}),
    "policymaker": frozenset({"policymaker", "management"}),
    "management": frozenset({"management"}),
}

SEE: Final = "see"  # its permissions, or the tag monitoring, show the vhost
ENTER: Final = "enter"  # only permissions in the vhost do


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Who may call a route: a tag of the user, and what the vhost in the path asks for."""

    tag: str | None  # None: anybody, even without a login
    vhost: str | None = None  # SEE or ENTER, for routes with a {vhost}


ANYBODY: Final = AccessRule(None)
MANAGEMENT: Final = AccessRule("management")
MONITORING: Final = AccessRule("monitoring")
ADMINISTRATOR: Final = AccessRule("administrator")
SEES_VHOST: Final = AccessRule("management", SEE)
ENTERS_VHOST: Final = AccessRule("management", ENTER)
SETS_POLICY: Final = AccessRule("policymaker", ENTER)


def has_tag(tags: Iterable[str], wanted: str) -> bool:
    """Whether one of the tags is, or includes, the wanted one."""
    return any(wanted in _INCLUDES.get(tag, ()) for tag in tags)


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """A path such as `/api/queues/{vhost}/{name}`; a name in braces is one part of the path."""

    method: str
    path: str
    handler: Handler
    rule: AccessRule
    summary: str
    body: Mapping[str, str] = field(default_factory=dict)  # fields of the body and their types
    query: Mapping[str, str] = field(default_factory=dict)
    largest: Callable[[Config], int] = lambda config: SMALL  # bytes of a body; see http_max_body

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.path.strip("/").split("/"))


class ApiRoutes(list[ApiRoute]):
    """The routes of a module: each is added where its handler is defined, by a decorator."""

    def __init__(self) -> None:
        self.get = partial(self._route, "GET")
        self.put = partial(self._route, "PUT")
        self.post = partial(self._route, "POST")
        self.delete = partial(self._route, "DELETE")

    def constant(self, path: str, rule: AccessRule, summary: str, answer: object) -> None:
        """A path with always the same answer, for tools that ask."""

        async def handler(call: ApiRequest) -> object:
            return answer

        self.get(path, rule, summary)(handler)

    def _route(
        self,
        method: str,
        path: str,
        rule: AccessRule,
        summary: str,
        body: Mapping[str, str] | None = None,
        **more: Any,  # noqa: ANN401 - fields of ApiRoute
    ) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            self.append(ApiRoute(method, path, handler, rule, summary, body or {}, **more))
            return handler

        return add


class _PathNode:
    __slots__ = ("fixed", "methods", "variable")

    def __init__(self) -> None:
        self.fixed: dict[str, _PathNode] = {}
        self.variable: _PathNode | None = None
        self.methods: dict[str, ApiRoute] = {}


class RouteTable:
    """Finds the route of a path. Fixed parts come before variable ones."""

    def __init__(self, routes: Iterable[ApiRoute]) -> None:
        self.routes = tuple(routes)
        self._root = _PathNode()
        for route in self.routes:
            node = self._root
            for part in route.parts:
                if part.startswith("{"):
                    node.variable = node = node.variable or _PathNode()
                else:
                    node = node.fixed.setdefault(part, _PathNode())
            assert route.method not in node.methods, f"two routes for {route.method} {route.path}"
            node.methods[route.method] = route

    def find(self, raw_path: str) -> Mapping[str, ApiRoute]:
        """The routes of a path by method; the path is as it came, still percent-encoded."""
        parts = raw_path.strip("/").split("/")
        node = _descend(self._root, parts, 0)
        return node.methods if node is not None else {}


def values_of(route: ApiRoute, raw_path: str) -> dict[str, str]:
    """The variable parts of the path, decoded: `%2F` does not separate parts."""
    parts = raw_path.strip("/").split("/")
    return {
        name[1:-1]: unquote(part, errors="surrogateescape")
        for name, part in zip(route.parts, parts, strict=True)
        if name.startswith("{")
    }


def _descend(node: _PathNode, parts: list[str], at: int) -> _PathNode | None:
    if at == len(parts):
        return node if node.methods else None
    following = node.fixed.get(parts[at])
    found = _descend(following, parts, at + 1) if following is not None else None
    if found is None and node.variable is not None:
        found = _descend(node.variable, parts, at + 1)
    return found
