"""/api/bindings: arrows from exchanges to queues and other exchanges."""

from __future__ import annotations

import asyncio
import base64
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple
from urllib.parse import quote, quote_plus, unquote_plus

from headrace.core.exchange import Target, binding_entry, destination_type, freeze
from headrace.core.queues.queue import Queue
from headrace.core.vhost import Vhost
from headrace.server.http import replies
from headrace.server.http.api_request import ApiRequest, exchange_named
from headrace.server.http.listing import ColumnGroup, ListColumns, Row, in_slices, listed
from headrace.server.http.router import ENTERS_VHOST, MANAGEMENT, SEES_VHOST, ApiRoutes

ROUTES = ApiRoutes()
_PAIR = "/api/bindings/{vhost}/e/{source}/{kind}/{destination}"

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
    return {**binding_entry(*one), "properties_key": properties_key(one.key, one.arguments)}


_FIELDS: ListColumns[Listed] = ListColumns({}, groups=[ColumnGroup(_NAMES, _row)])


async def list_bindings(call: ApiRequest, things: Iterable[Listed]) -> replies.Reply:
    return await listed(call, await in_slices(things), _FIELDS)


def all_bindings(vhost: Vhost) -> Iterator[Listed]:
    """Every queue is bound to the default exchange by its name."""
    for name, queue in sorted(vhost.queues.items()):
        yield Listed(vhost.name, "", queue, name, {})
    for name, exchange in sorted(vhost.exchanges.items()):
        for one in exchange.bindings:
            yield Listed(vhost.name, name, one.target, one.key, one.arguments)


@ROUTES.get("/api/bindings", MANAGEMENT, "All bindings")
@ROUTES.get("/api/bindings/{vhost}", SEES_VHOST, "Bindings of a vhost")
async def _bindings(call: ApiRequest) -> replies.Reply:
    vhosts = call.visible_vhosts()
    return await list_bindings(call, chain.from_iterable(map(all_bindings, vhosts)))


@ROUTES.get("/api/queues/{vhost}/{name}/bindings", SEES_VHOST, "Bindings to a queue")
async def _of_queue(call: ApiRequest) -> replies.Reply:
    return await list_bindings(call, _leading_to(call.vhost, call.queue()))


def _leading_to(vhost: Vhost, target: Target, source: str | None = None) -> Iterator[Listed]:
    if isinstance(target, Queue) and source in (None, ""):
        yield Listed(vhost.name, "", target, target.name, {})
    for name, exchange in sorted(vhost.exchanges.items()):
        if source in (None, name):
            for one in exchange.bindings_to(target):
                yield Listed(vhost.name, name, target, one.key, one.arguments)


# -- one pair ------------------------------------------------------------------------------------


def _pair(call: ApiRequest) -> tuple[str, Target]:
    """The source's name and the destination of the path, both of which must be there."""
    vhost = call.vhost
    source = exchange_named(call.params["source"])
    name = call.params["destination"]
    kinds: Mapping[str, Mapping[str, Target]] = {"q": vhost.queues, "e": vhost.exchanges}
    target = kinds.get(call.params["kind"], {}).get(name)
    if target is None or source not in vhost.exchanges:
        raise replies.not_found()
    return source, target


@ROUTES.get(_PAIR, SEES_VHOST, "Bindings from an exchange to a queue (q) or an exchange (e)")
async def _between(call: ApiRequest) -> replies.Reply:
    source, target = _pair(call)
    return await list_bindings(call, _leading_to(call.vhost, target, source))


def _get(call: ApiRequest) -> tuple[str, Target, Row]:
    source, target = _pair(call)
    for row in map(_row, _leading_to(call.vhost, target, source)):
        # Some tools encode the key once where it should be twice.
        decoded = unquote_plus(str(row["properties_key"]), errors="surrogateescape")
        if call.params["properties"] in (row["properties_key"], decoded):
            return source, target, row
    raise replies.not_found()


@ROUTES.get(_PAIR + "/{properties}", SEES_VHOST, "One binding")
async def _one(call: ApiRequest) -> object:
    return _get(call)[2]


def _check(call: ApiRequest, source: str, target: Target, key: str) -> None:
    call.check("write", destination_type(target), target.name)
    call.check("read", "exchange", source)
    call.check_key("read", call.vhost, source, key)


@ROUTES.post(
    _PAIR, ENTERS_VHOST, "Create a binding", {"routing_key": "string", "arguments": "object"}
)
async def _bind(call: ApiRequest) -> replies.Reply:
    vhost = call.vhost
    vhost.get_exchange(exchange_named(call.params["source"]))
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
    return replies.Reply(201, headers={"location": place})


def _encoded(text: str) -> str:
    return quote(text, safe="~", errors="surrogateescape")


@ROUTES.delete(_PAIR + "/{properties}", ENTERS_VHOST, "Delete a binding")
async def _unbind(call: ApiRequest) -> None:
    source, target, row = _get(call)
    key, arguments = str(row["routing_key"]), row["arguments"]
    _check(call, source, target, key)
    assert isinstance(arguments, Mapping)
    call.vhost.unbind(source, target, key, arguments)
