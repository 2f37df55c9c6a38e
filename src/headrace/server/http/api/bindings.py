"""/api/bindings: arrows from exchanges to queues and other exchanges."""

from __future__ import annotations

import asyncio
import base64
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple
from urllib.parse import quote, quote_plus, unquote_plus

from headrace.core.exchange import Target, freeze
from headrace.core.queues.queue import Queue
from headrace.core.vhost import Vhost
from headrace.server.http import replies
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.listing import ColumnGroup, ListColumns, Row, in_slices, listed
from headrace.server.http.replies import Reply
from headrace.server.http.router import ENTERS_VHOST, MANAGEMENT, SEES_VHOST, ApiRoute

_NAMES = ("source", "vhost", "destination", "destination_type", "routing_key", "arguments",
          "properties_key")  # fmt: skip


class Listed(NamedTuple):
    """A binding in a list, which may have 300,000 of them: its row is made when it is shown."""

    vhost: str
    source: str
    target: Target
    key: str
    arguments: Mapping[str, object]


def properties_key(key: str, arguments: Mapping[str, object]) -> str:
    """Identifies a binding among those of one pair: the key, and a short hash of the arguments."""
    text = quote_plus(key, safe="-_.", encoding="utf-8", errors="surrogateescape")
    if not arguments:
        return text or "~"
    digest = zlib.crc32(repr(freeze(arguments)).encode("utf-8", "surrogateescape"))
    short = base64.urlsafe_b64encode(digest.to_bytes(4, "big")).decode("ascii").rstrip("=")
    return f"{text}~{short}"


def _row(one: Listed) -> Row:
    return {
        "source": one.source,
        "vhost": one.vhost,
        "destination": one.target.name,
        "destination_type": "queue" if isinstance(one.target, Queue) else "exchange",
        "routing_key": one.key,
        "arguments": one.arguments,
        "properties_key": properties_key(one.key, one.arguments),
    }


_FIELDS: ListColumns[Listed] = ListColumns({}, groups=[ColumnGroup(_NAMES, _row)])


async def list_bindings(call: ApiRequest, things: Iterable[Listed]) -> Reply:
    return await listed(call, await in_slices(things), _FIELDS)


def all_bindings(vhost: Vhost) -> Iterator[Listed]:
    """Every queue is bound to the default exchange by its name."""
    for name, queue in sorted(vhost.queues.items()):
        yield Listed(vhost.name, "", queue, name, {})
    for name, exchange in sorted(vhost.exchanges.items()):
        for one in exchange.bindings:
            yield Listed(vhost.name, name, one.target, one.key, one.arguments)


async def _bindings(call: ApiRequest) -> Reply:
    vhosts = call.visible_vhosts()
    return await list_bindings(call, chain.from_iterable(map(all_bindings, vhosts)))


async def _of_queue(call: ApiRequest) -> Reply:
    return await list_bindings(call, _leading_to(call.vhost, call.queue()))


def _leading_to(vhost: Vhost, target: Target, source: str | None = None) -> Iterator[Listed]:
    if isinstance(target, Queue) and source in (None, ""):
        yield Listed(vhost.name, "", target, target.name, {})
    for name, exchange in sorted(vhost.exchanges.items()):
        if source in (None, name):
            for one in exchange.bindings_to(target):
                yield Listed(vhost.name, name, target, one.key, one.arguments)


# -- one pair ------------------------------------------------------------------------------------


def _source(call: ApiRequest) -> str:
    name = call.params["source"]
    return "" if name == "amq.default" else name


def _pair(call: ApiRequest) -> tuple[str, Target]:
    """The source's name and the destination of the path, both of which must be there."""
    vhost = call.vhost
    source = _source(call)
    name = call.params["destination"]
    target: Target | None
    if call.params["kind"] == "q":
        target = vhost.queues.get(name)
    elif call.params["kind"] == "e":
        target = vhost.exchanges.get(name)
    else:
        target = None
    if target is None or source not in vhost.exchanges:
        raise replies.not_found()
    return source, target


async def _between(call: ApiRequest) -> Reply:
    source, target = _pair(call)
    return await list_bindings(call, _leading_to(call.vhost, target, source))


def _get(call: ApiRequest) -> tuple[str, Target, Row]:
    source, target = _pair(call)
    for row in map(_row, _leading_to(call.vhost, target, source)):
        if call.params["properties"] in (row["properties_key"], _decoded(row)):
            return source, target, row
    raise replies.not_found()


def _decoded(row: Row) -> str:
    """Some tools encode the key once where it should be twice."""
    return unquote_plus(str(row["properties_key"]), errors="surrogateescape")


async def _one(call: ApiRequest) -> Reply:
    return replies.data(_get(call)[2])


def _check(call: ApiRequest, source: str, target: Target, key: str) -> None:
    kind = "queue" if isinstance(target, Queue) else "exchange"
    call.check("write", kind, target.name)
    call.check("read", "exchange", source)
    call.check_key("read", call.vhost, source, key)


async def _bind(call: ApiRequest) -> Reply:
    vhost = call.vhost
    vhost.get_exchange(_source(call))
    name = call.params["destination"]
    if call.params["kind"] == "q":
        vhost.get_queue(name)
    source, target = _pair(call)
    key, arguments = call.value("routing_key", str, ""), call.value("arguments", dict, {})
    _check(call, source, target, key)
    if isinstance(target, Queue):
        vhost.get_queue_for(target.name, None)
    else:
        call.user.check_forwarding(vhost.name, target.name)
    vhost.bind(source, target, key, arguments)
    bound = asyncio.Event()
    vhost.when_bound(source, bound.set)
    await bound.wait()
    place = f"{_encoded(name)}/{_encoded(properties_key(key, arguments))}"
    return Reply(201, headers={"location": place})


def _encoded(text: str) -> str:
    return quote(text, safe="~", errors="surrogateescape")


async def _unbind(call: ApiRequest) -> Reply:
    source, target, row = _get(call)
    key, arguments = str(row["routing_key"]), row["arguments"]
    _check(call, source, target, key)
    assert isinstance(arguments, Mapping)
    call.vhost.unbind(source, target, key, arguments)
    return replies.DONE


_PAIR = "/api/bindings/{vhost}/e/{source}/{kind}/{destination}"

ROUTES = (
    ApiRoute("GET", "/api/bindings", _bindings, MANAGEMENT, "All bindings"),
    ApiRoute("GET", "/api/bindings/{vhost}", _bindings, SEES_VHOST, "Bindings of a vhost"),
    ApiRoute("GET", "/api/queues/{vhost}/{name}/bindings", _of_queue, SEES_VHOST,
          "Bindings to a queue"),
    ApiRoute("GET", _PAIR, _between, SEES_VHOST,
          "Bindings from an exchange to a queue (q) or an exchange (e)"),
    ApiRoute("POST", _PAIR, _bind, ENTERS_VHOST, "Create a binding",
          {"routing_key": "string", "arguments": "object"}),
    ApiRoute("GET", _PAIR + "/{properties}", _one, SEES_VHOST, "One binding"),
    ApiRoute("DELETE", _PAIR + "/{properties}", _unbind, ENTERS_VHOST, "Delete a binding"),
)  # fmt: skip
