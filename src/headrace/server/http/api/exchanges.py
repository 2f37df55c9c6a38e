"""/api/exchanges: what is declared, and what went through."""

from __future__ import annotations

from headrace.core.exchange import DIRECT_TO_QUEUE, Exchange
from headrace.core.vhost import Vhost
from headrace.server.http import replies, stats
from headrace.server.http.api.bindings import all_bindings, list_bindings
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.listing import ColumnGroup, ListColumns, Row, listed, reduced
from headrace.server.http.router import ENTERS_VHOST, MANAGEMENT, SEES_VHOST, ApiRoutes
from headrace.server.http.sampler import window_of

ROUTES = ApiRoutes()
_DECLARATION = {
    "type": "string",
    "durable": "boolean",
    "auto_delete": "boolean",
    "internal": "boolean",
    "arguments": "object",
}
_ONE = "/api/exchanges/{vhost}/{name}"

Item = tuple[Vhost, Exchange]


def _fields(call: ApiRequest) -> ListColumns[Item]:
    sampler, window = call.management.sampler, window_of(call.query, "msg_rates")
    sampler.watch()

    def message_stats(item: Item) -> object:
        names, values = stats.EXCHANGE_MESSAGES, stats.exchange_values(item[1])
        return sampler.message_stats(item[1], names, names, values, window)

    return ListColumns(
        {
            "vhost": lambda item: item[0].name,
            "policy": lambda item: item[1].policy,
            "user_who_performed_action": lambda item: _maker(item[1]),
            "message_stats": message_stats,
        },
        groups=[ColumnGroup(("name", *_DECLARATION), lambda item: item[1].declaration())],
        optional=("message_stats", "policy"),
    )


def _maker(exchange: Exchange) -> str:
    """Who made it is not kept; what every vhost has was made by the broker."""
    return "rmq-internal" if not exchange.name or exchange.name.startswith("amq.") else ""


def _exchange(call: ApiRequest) -> Exchange:
    return replies.found(call.vhost.exchanges.get(call.exchange_name))


@ROUTES.get("/api/exchanges", MANAGEMENT, "All exchanges")
@ROUTES.get("/api/exchanges/{vhost}", SEES_VHOST, "Exchanges of a vhost")
async def _exchanges(call: ApiRequest) -> replies.Reply:
    found = [
        (vhost, exchange)
        for vhost in call.visible_vhosts()
        for _, exchange in sorted(vhost.exchanges.items())
    ]
    return await listed(call, found, _fields(call))


@ROUTES.get(_ONE, SEES_VHOST, "One exchange")
async def _one(call: ApiRequest) -> object:
    row: Row = _fields(call).row((call.vhost, _exchange(call)))
    row["incoming"] = []
    row["outgoing"] = []
    return reduced(call, row)


@ROUTES.put(_ONE, ENTERS_VHOST, "Declare an exchange", _DECLARATION)
async def _declare(call: ApiRequest) -> replies.Reply:
    vhost, name = call.vhost, call.exchange_name
    call.check("configure", "exchange", name)
    arguments = call.value("arguments", dict, {})
    call.user.check_links(vhost.name, "exchange", name, arguments)
    if arguments.get(DIRECT_TO_QUEUE) is True:
        call.check("write", "exchange", "")  # it reaches every queue, as the default one
    new = name not in vhost.exchanges
    vhost.declare_exchange(
        name,
        call.value("type", str, "direct"),
        durable=call.boolean("durable", False),
        auto_delete=call.boolean("auto_delete", False),
        internal=call.boolean("internal", False),
        arguments=arguments,
    )
    return replies.created(new=new)


@ROUTES.delete(_ONE, ENTERS_VHOST, "Delete an exchange", query={"if-unused": "boolean"})
async def _delete(call: ApiRequest) -> None:
    name = _exchange(call).name
    call.check("configure", "exchange", name)
    call.vhost.delete_exchange(name, if_unused=call.flag("if-unused"))


@ROUTES.get(_ONE + "/bindings/source", SEES_VHOST, "Bindings with this exchange as the source")
async def _from(call: ApiRequest) -> replies.Reply:
    exchange = _exchange(call)
    found = (one for one in all_bindings(call.vhost) if one.source == exchange.name)
    return await list_bindings(call, found)


@ROUTES.get(
    _ONE + "/bindings/destination", SEES_VHOST, "Bindings with this exchange as the destination"
)
async def _to(call: ApiRequest) -> replies.Reply:
    exchange = _exchange(call)
    found = (one for one in all_bindings(call.vhost) if one.target is exchange)
    return await list_bindings(call, found)
