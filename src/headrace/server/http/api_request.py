"""One request on its way to a handler: its user, its target, its body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.core.access.user import User
from headrace.core.broker import Broker
from headrace.core.exchange import Exchange
from headrace.core.queues.queue import Queue
from headrace.core.topics.async_engine import AsyncTopicEngine
from headrace.core.topics.exchange_bridge import PREFIX as TOPIC_PREFIX
from headrace.core.vhost import Vhost
from headrace.errors import AccessRefused, NoSuchTopic
from headrace.server.http import replies
from headrace.server.http.json_body import parse_object, read_object
from headrace.server.http.router import has_tag

if TYPE_CHECKING:
    from headrace.server.http.context import ManagementContext

_REQUIRED = object()


def exchange_named(name: str) -> str:
    """The API calls the default exchange, which has no name, amq.default."""
    return "" if name == "amq.default" else name


@dataclass(slots=True)
class ApiRequest:
    """What a handler works with."""

    management: ManagementContext
    method: str
    params: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    user: User
    body: bytes = b""
    peer: str = ""
    is_secure: bool = False
    session: str | None = None  # the page's, when it asks
    _json: dict[str, Any] | None = field(default=None, init=False)

    @property
    def broker(self) -> Broker:
        return self.management.broker

    # -- the path -------------------------------------------------------------------------------

    @property
    def vhost(self) -> Vhost:
        """The vhost that the path names."""
        return replies.found(self.broker.vhosts.get(self.params["vhost"]))

    @property
    def open_vhost(self) -> Vhost:
        """The same, as what publishes and reads calls it."""
        return self.vhost

    @property
    def name(self) -> str:
        return self.params["name"]

    @property
    def exchange_name(self) -> str:
        """The exchange that the path names."""
        return exchange_named(self.name)

    def queue(self) -> Queue:
        """The queue that the path names."""
        return replies.found(self.vhost.queues.get(self.name))

    def free_queue(self) -> Queue:
        """The same, to change it or see its messages: an exclusive one is its connection's."""
        return self.vhost.get_queue_for(self.queue().name, None)

    def topic_engine(self, action: str) -> AsyncTopicEngine:
        """The engine of the topic that the path names, if the user has the permission."""
        self.check(action, "topic", TOPIC_PREFIX + self.name)
        try:
            return self.vhost.topics.engine_of(self.name)
        except NoSuchTopic:
            raise replies.not_found() from None

    # -- who asks -------------------------------------------------------------------------------

    @property
    def sees_all(self) -> bool:
        return has_tag(self.user.tags, "monitoring")

    def sees(self, vhost: str) -> bool:
        return self.sees_all or vhost in self.user.permissions

    def visible_vhosts(self) -> list[Vhost]:
        """The vhost of the path, or else all that the user may see."""
        if "vhost" in self.params:
            return [self.vhost]
        vhosts = self.broker.vhosts
        return [vhosts[name] for name in sorted(vhosts) if self.sees(name)]

    def may_see(self, vhost: Vhost, resource: str) -> bool:
        """Whether the user has any permission on the queue or exchange."""
        actions = ("configure", "write", "read")
        return self.sees_all or any(self.user.allows(vhost.name, one, resource) for one in actions)

    def check(self, action: str, kind: str, name: str) -> None:
        """Raise AccessRefused unless the user may do this in the vhost of the path."""
        self.user.check(self.vhost.name, action, kind, name)

    def open_exchange(self, vhost: Vhost, name: str) -> Exchange:
        """The exchange, if the user may publish to it."""
        self.user.check(vhost.name, "write", "exchange", name)
        exchange = vhost.get_exchange(name)
        if exchange.internal:
            raise AccessRefused(f"cannot publish to internal exchange '{name}'")
        return exchange

    def check_key(self, action: str, vhost: Vhost, exchange: str, key: str) -> None:
        """Raise AccessRefused unless the user may use the key, if it is a topic exchange."""
        found = vhost.exchanges.get(exchange)
        if found is not None and found.router.kind == "topic":
            self.user.check_topic(vhost.name, action, exchange, key)

    # -- query and body -------------------------------------------------------------------------

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() == "true"

    def number(self, name: str) -> int | None:
        """A whole number of the query, None when it is not given."""
        text = self.query.get(name)
        if text is None:
            return None
        if not text.isascii() or not text.isdigit() or len(text) > 12:
            raise replies.bad_request(f"'{name}' must be a whole number")
        return int(text)

    def json(self) -> dict[str, Any]:
        """The body: a JSON object, or nothing."""
        if self._json is None:
            self._json = parse_object(self.body)
        return self._json

    async def read_json(self) -> dict[str, Any]:
        """The same, for a body that may be large."""
        self._json = await read_object(self.body)
        return self._json

    def value(self, name: str, kind: type, default: object = _REQUIRED) -> Any:  # noqa: ANN401
        """A field of the body, of the given type."""
        given = self.json().get(name, default)
        if given is _REQUIRED:
            replies.require(self.json(), name)
        if given is default:
            return given
        if kind is dict and given == []:  # how Erlang, and so pyrabbit, writes an empty object
            return {}
        if not isinstance(given, kind) or (kind is int and isinstance(given, bool)):
            raise replies.bad_request(f"'{name}' must be of type {_TYPE_NAMES[kind]}")
        return given

    def tags(self) -> list[str]:
        """The field `tags`, an array or one text with commas."""
        given = self.json()["tags"]
        if isinstance(given, str):
            return [tag.strip() for tag in given.split(",") if tag.strip()]
        if not isinstance(given, list) or not all(isinstance(tag, str) for tag in given):
            raise replies.bad_request("'tags' must be a string or an array of strings")
        return given

    def boolean(self, name: str, default: bool) -> bool:
        """RabbitMQ takes the words as well; rabbitmqadmin sends them."""
        given = self.json().get(name, default)
        if isinstance(given, bool):
            return given
        if given in ("true", "false"):
            return bool(given == "true")
        raise replies.bad_request(f"'{name}' must be true or false")


_TYPE_NAMES: Mapping[type, str] = {str: "string", int: "integer", dict: "object", list: "array"}
