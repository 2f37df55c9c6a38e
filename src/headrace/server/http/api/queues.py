"""/api/queues, and the columns of a queue."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING

from headrace.core.queues.queue import Queue
from headrace.model.message import PAGED_OUT
from headrace.server.base_channel import BaseChannel
from headrace.server.http import replies, stats
from headrace.server.http.api.consumers import consumer_row
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.listing import ColumnGroup, ListColumns, Row, listed, reduced
from headrace.server.http.replies import Reply
from headrace.server.http.router import ENTERS_VHOST, MANAGEMENT, SEES_VHOST, ApiRoute
from headrace.server.http.sampler import details, window_of, with_details
from headrace.wire.amqp.content import properties_of

if TYPE_CHECKING:
    from headrace.server.http.context import ManagementContext
    from headrace.server.http.sampler import SampleWindow

# -- columns: in groups, so that a list of 10,000 is built quickly --------------------------------


class QueueColumns:
    """Columns of a queue, with rates over the requested windows."""

    def __init__(
        self,
        management: ManagementContext,
        rates: SampleWindow | None = None,
        lengths: SampleWindow | None = None,
    ) -> None:
        self._history = management.sampler.history
        self._rates = rates
        self._lengths = lengths
        self._node = management.node
        self._idle_since = management.sampler.idle_since

    def fields(self) -> ListColumns[Queue]:
        groups = [
            ColumnGroup(_IDENTITY, self._identity),
            ColumnGroup(_LENGTHS, lengths),
            ColumnGroup(_BYTES, sizes),
            ColumnGroup(_CONSUMERS, consumer_columns),
            ColumnGroup(_DETAILS, self._length_details),
        ]
        columns: dict[str, Callable[[Queue], object]] = {
            "message_stats": self._message_stats,
            "idle_since": self._idle_since,
            "head_message_timestamp": _head_timestamp,
        }
        return ListColumns(columns, groups=groups, optional=("message_stats", "idle_since"))

    def _identity(self, queue: Queue) -> Row:
        policies = queue.policies
        return {
            "name": queue.name,
            "vhost": queue.services.name,
            "type": queue.settings.queue_type,
            "durable": queue.durable,
            "auto_delete": queue.auto_delete,
            "exclusive": queue.owner is not None,
            "arguments": queue.arguments,
            "node": self._node,
            "state": "running",
            "policy": policies.policy,
            "operator_policy": policies.operator_policy,
            "effective_policy_definition": policies.definition,
            "recoverable_slaves": None,
        }

    def _length_details(self, queue: Queue) -> Row:
        history = self._history(queue)
        if self._lengths is None and (len(history) < 2 or history[-1][1] is history[-2][1]):
            return _NO_DETAILS  # idle: most of many queues are
        window = self._lengths
        return {
            f"{name}_details": details(history, index, window)
            for index, name in enumerate(stats.QUEUE_LENGTHS)
        }

    def _message_stats(self, queue: Queue) -> object:
        values = stats.queue_values(queue)
        if not any(values[len(stats.QUEUE_LENGTHS) :]):
            return None  # as in RabbitMQ: no counters without messages
        history = self._history(queue)
        return with_details(stats.QUEUE, stats.QUEUE_MESSAGES, values, history, self._rates)


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


def consumer_columns(queue: Queue) -> Row:
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


_NO_CONSUMERS: Row = {
    "consumers": 0,
    "consumer_capacity": 0,
    "consumer_utilisation": 0,
    "exclusive_consumer_tag": None,
    "single_active_consumer_tag": None,
}


def _head_timestamp(queue: Queue) -> int | None:
    """The `timestamp` that the publisher gave the next message, if it is in memory."""
    if not queue.backlog.count:
        return None
    run = next(iter(queue.backlog.runs()), None)
    if run is None or run.contents is PAGED_OUT:
        return None
    return properties_of(run.contents[run.start]).timestamp


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
    row["consumer_details"] = [consumer_row(one, call.management) for one in queue.consumers]
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
    ApiRoute("DELETE", "/api/queues/{vhost}/{name}/contents", _purge, ENTERS_VHOST,
          "Purge a queue"),
    ApiRoute("POST", "/api/queues/{vhost}/{name}/actions", _act, ENTERS_VHOST,
          "Cluster actions; accepted without effect", {"action": "string"}),
)  # fmt: skip
