"""/api/queues, and the columns of a queue."""

from __future__ import annotations

from operator import itemgetter

from headrace.core.queues.queue import Queue
from headrace.model.message import PAGED_OUT
from headrace.server.base_channel import BaseChannel
from headrace.server.http import replies, stats
from headrace.server.http.api.consumers import consumer_row
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.listing import ColumnGroup, ListColumns, Row, listed, reduced
from headrace.server.http.router import ENTERS_VHOST, MANAGEMENT, SEES_VHOST, ApiRoutes
from headrace.server.http.sampler import details, window_of
from headrace.wire.amqp.content import properties_of

ROUTES = ApiRoutes()
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

# -- columns: in groups, so that a list of 10,000 is built quickly --------------------------------


def _fields(call: ApiRequest) -> ListColumns[Queue]:
    """Columns of a queue, with rates over the requested windows."""
    sampler, node = call.management.sampler, call.management.node
    rates, window = window_of(call.query, "msg_rates"), window_of(call.query, "lengths")
    sampler.watch()

    def identity(queue: Queue) -> Row:
        policies = queue.policies
        return {
            "name": queue.name,
            "vhost": queue.services.name,
            "type": queue.settings.queue_type,
            "durable": queue.durable,
            "auto_delete": queue.auto_delete,
            "exclusive": queue.owner is not None,
            "arguments": queue.arguments,
            "node": node,
            "state": "running",
            "policy": policies.policy,
            "operator_policy": policies.operator_policy,
            "effective_policy_definition": policies.definition,
            "recoverable_slaves": None,
        }

    def length_details(queue: Queue) -> Row:
        history = sampler.history(queue)
        if window is None and (len(history) < 2 or history[-1][1] is history[-2][1]):
            return _NO_DETAILS  # idle: most of many queues are
        return {
            f"{name}_details": details(history, index, window)
            for index, name in enumerate(stats.QUEUE_LENGTHS)
        }

    def message_stats(queue: Queue) -> object:
        values = stats.queue_values(queue)
        return sampler.message_stats(queue, stats.QUEUE, stats.QUEUE_MESSAGES, values, rates)

    return ListColumns(
        {
            "message_stats": message_stats,
            "idle_since": sampler.idle_since,
            "head_message_timestamp": _head_timestamp,
        },
        groups=[
            ColumnGroup(_IDENTITY, identity),
            ColumnGroup(_LENGTHS, lengths),
            ColumnGroup(_BYTES, sizes),
            ColumnGroup(_CONSUMERS, _consumers),
            ColumnGroup(_DETAILS, length_details),
        ],
        optional=("message_stats", "idle_since"),
    )


_IDENTITY = ("name", "vhost", "type", "durable", "auto_delete", "exclusive", "arguments", "node",
             "state", "policy", "operator_policy", "effective_policy_definition",
             "recoverable_slaves")  # fmt: skip
_LENGTHS = ("messages", "messages_ready", "messages_unacknowledged", "messages_ram",
            "messages_ready_ram", "messages_unacknowledged_ram", "messages_persistent",
            "messages_paged_out")  # fmt: skip
_BYTES = ("message_bytes", "message_bytes_ready", "message_bytes_unacknowledged",
          "message_bytes_ram", "message_bytes_persistent", "message_bytes_paged_out",
          "memory")  # fmt: skip
_CONSUMERS = ("consumers", "consumer_capacity", "consumer_utilisation", "exclusive_consumer_tag",
              "single_active_consumer_tag")  # fmt: skip
_DETAILS = tuple(f"{name}_details" for name in stats.QUEUE_LENGTHS)
_NO_DETAILS: Row = {name: {"rate": 0.0} for name in _DETAILS}


def lengths(queue: Queue) -> Row:
    backlog, unacked = queue.backlog, queue.unacked
    ready, paged_out = backlog.count, backlog.paged_out[0]
    return {
        "messages": ready + unacked,
        "messages_ready": ready,
        "messages_unacknowledged": unacked,
        "messages_ram": ready - paged_out + unacked,
        "messages_ready_ram": ready - paged_out,
        "messages_unacknowledged_ram": unacked,
        "messages_persistent": ready + unacked if queue.number is not None else 0,
        "messages_paged_out": paged_out,
    }


def sizes(queue: Queue) -> Row:
    """A message counts with its properties, as it is on the wire."""
    ready, paged_out = queue.backlog.size, queue.backlog.paged_out[1]
    unacked = _unacked_bytes(queue) if queue.unacked else 0
    return {
        "message_bytes": ready + unacked,
        "message_bytes_ready": ready,
        "message_bytes_unacknowledged": unacked,
        "message_bytes_ram": ready - paged_out + unacked,
        "message_bytes_persistent": ready + unacked if queue.number is not None else 0,
        "message_bytes_paged_out": paged_out,
        "memory": ready - paged_out + unacked,
    }


def _unacked_bytes(queue: Queue) -> int:
    """About: channels know how much they hold, not of which queue."""
    size = 0
    for consumer in queue.consumers:
        channel = consumer.channel
        if consumer.unacked and isinstance(channel, BaseChannel) and channel.unacked_count:
            size += channel.unacked_bytes * consumer.unacked // channel.unacked_count
    return size


def _consumers(queue: Queue) -> Row:
    count = len(queue.consumers)
    if not count:
        return _NO_CONSUMERS
    consumers = list(queue.consumers)
    # The share of consumers that could take a message now; at 1.0 they do not limit the queue.
    free = [one for one in consumers
            if one.no_ack or not one.prefetch or one.unacked < one.prefetch]  # fmt: skip
    active = queue.consumers.active if queue.settings.single_active_consumer else None
    return {
        "consumers": count,
        "consumer_capacity": len(free) / count,
        "consumer_utilisation": len(free) / count,
        "exclusive_consumer_tag": next((one.tag for one in consumers if one.exclusive), None),
        "single_active_consumer_tag": active.tag if active is not None else None,
    }


_NO_CONSUMERS: Row = dict.fromkeys(_CONSUMERS[:3], 0) | dict.fromkeys(_CONSUMERS[3:])


def _head_timestamp(queue: Queue) -> int | None:
    """The `timestamp` that the publisher gave the next message, if it is in memory."""
    if not queue.backlog.count:
        return None
    run = next(iter(queue.backlog.runs()), None)
    if run is None or run.contents is PAGED_OUT:
        return None
    return properties_of(run.contents[run.start]).timestamp


# -- reading -------------------------------------------------------------------------------------


@ROUTES.get("/api/queues", MANAGEMENT, "All queues", query=_LIST)
@ROUTES.get("/api/queues/{vhost}", SEES_VHOST, "Queues of a vhost", query=_LIST)
async def _queues(call: ApiRequest) -> replies.Reply:
    vhosts = call.visible_vhosts()
    found = [one for vhost in vhosts for _, one in sorted(vhost.queues.items(), key=itemgetter(0))]
    return await listed(call, found, _fields(call))


@ROUTES.get("/api/queues/{vhost}/{name}", SEES_VHOST, "One queue")
async def _queue(call: ApiRequest) -> object:
    queue = call.queue()
    counters = queue.counters
    more: Row = {
        "consumer_details": [consumer_row(one, call) for one in queue.consumers],
        "incoming": [],
        "deliveries": [],
        "counters": {name: getattr(counters, name) for name in stats.ENDS},
    }
    return reduced(call, _fields(call).row(queue) | more)


# -- changing ------------------------------------------------------------------------------------


@ROUTES.put("/api/queues/{vhost}/{name}", ENTERS_VHOST, "Declare a queue", _DECLARATION)
async def _declare(call: ApiRequest) -> replies.Reply:
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


@ROUTES.delete("/api/queues/{vhost}/{name}", ENTERS_VHOST, "Delete a queue",
    query={"if-empty": "boolean", "if-unused": "boolean"})  # fmt: skip
async def _delete(call: ApiRequest) -> None:
    name = call.queue().name
    call.check("configure", "queue", name)
    call.vhost.delete_queue(
        name, None, if_unused=call.flag("if-unused"), if_empty=call.flag("if-empty")
    )


@ROUTES.delete("/api/queues/{vhost}/{name}/contents", ENTERS_VHOST, "Purge a queue")
async def _purge(call: ApiRequest) -> None:
    queue = call.free_queue()
    call.check("read", "queue", queue.name)
    queue.purge()


@ROUTES.post(
    "/api/queues/{vhost}/{name}/actions", ENTERS_VHOST, "Cluster actions; accepted without effect",
    {"action": "string"})  # fmt: skip
async def _act(call: ApiRequest) -> None:
    """Only for clusters: there is nothing to synchronise here."""
    queue = call.queue()
    action = call.value("action", str)
    if action not in ("sync", "cancel_sync"):
        raise replies.bad_request(f"unknown action '{action}' for queue '{queue.name}'")
