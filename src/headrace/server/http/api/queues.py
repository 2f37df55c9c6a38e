"""/api/queues: what is declared, how full it is, who consumes."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from headrace.server.http import replies
from headrace.server.http.api.consumers import consumer_row
from headrace.server.http.api.queue_columns import QueueColumns
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.listing import Row, listed, reduced
from headrace.server.http.replies import Reply
from headrace.server.http.router import ENTERS_VHOST, MANAGEMENT, SEES_VHOST, ApiRoute
from headrace.server.http.sampler import window_of

if TYPE_CHECKING:
    pass


# -- reading -------------------------------------------------------------------------------------


def _columns(call: ApiRequest) -> QueueColumns:
    call.management.sampler.watch()
    rates, lengths = window_of(call.query, "msg_rates"), window_of(call.query, "lengths")
    return QueueColumns(call.management, rates, lengths)


async def _queues(call: ApiRequest) -> Reply:
    found = [
        queue
        for vhost in call.visible_vhosts()
        for _, queue in sorted(vhost.queues.items(), key=itemgetter(0))
    ]
    return await listed(call, found, _columns(call).fields())


async def _queue(call: ApiRequest) -> Reply:
    queue = call.queue()
    row: Row = _columns(call).fields().row(queue)
    row["consumer_details"] = [consumer_row(one, call.management) for one in queue.dealer]
    row["incoming"] = []
    row["deliveries"] = []
    row["counters"] = {
        "expired": queue.counters.expired,
        "dropped": queue.counters.dropped,
        "dead_lettered": queue.counters.dead_lettered,
        "returned": queue.counters.returned,
    }
    return replies.data(reduced(call, row))


# -- changing ------------------------------------------------------------------------------------


async def _declare(call: ApiRequest) -> Reply:
    vhost, name = call.vhost, call.name
    call.check("configure", "queue", name)
    arguments = call.value("arguments", dict, {})
    call.user.check_links(vhost.name, "queue", name, arguments)
    new = name not in vhost.queues
    vhost.declare_queue(
        name,
        durable=call.boolean("durable", False),
        auto_delete=call.boolean("auto_delete", False),
        arguments=arguments,
    )
    return replies.created(new=new)


async def _delete(call: ApiRequest) -> Reply:
    name = call.queue().name
    call.check("configure", "queue", name)
    call.vhost.delete_queue(
        name, None, if_unused=call.flag("if-unused"), if_empty=call.flag("if-empty")
    )
    return replies.DONE


async def _purge(call: ApiRequest) -> Reply:
    queue = call.free_queue()
    call.check("read", "queue", queue.name)
    queue.purge()
    return replies.DONE


async def _act(call: ApiRequest) -> Reply:
    """Only for clusters: there is nothing to synchronise here."""
    queue = call.queue()
    action = call.value("action", str)
    if action not in ("sync", "cancel_sync"):
        raise replies.bad_request(f"unknown action '{action}' for queue '{queue.name}'")
    return replies.DONE


_LIST = {
    "page": "integer",
    "page_size": "integer",
    "name": "string",
    "use_regex": "boolean",
    "sort": "string",
    "sort_reverse": "boolean",
    "columns": "string",
}
_DECLARATION = {"durable": "boolean", "auto_delete": "boolean", "arguments": "object"}

ROUTES = (
    ApiRoute("GET", "/api/queues", _queues, MANAGEMENT, "All queues", query=_LIST),
    ApiRoute("GET", "/api/queues/{vhost}", _queues, SEES_VHOST, "Queues of a vhost", query=_LIST),
    ApiRoute("GET", "/api/queues/{vhost}/{name}", _queue, SEES_VHOST, "One queue"),
    ApiRoute("PUT", "/api/queues/{vhost}/{name}", _declare, ENTERS_VHOST, "Declare a queue",
          _DECLARATION),
    ApiRoute("DELETE", "/api/queues/{vhost}/{name}", _delete, ENTERS_VHOST, "Delete a queue",
          query={"if-empty": "boolean", "if-unused": "boolean"}),
    ApiRoute("DELETE", "/api/queues/{vhost}/{name}/contents", _purge, ENTERS_VHOST, "Purge queue"),
    ApiRoute("POST", "/api/queues/{vhost}/{name}/actions", _act, ENTERS_VHOST,
          "Actions of clusters: nothing to do", {"action": "string"}),
)  # fmt: skip
