"""/api/vhosts."""

from __future__ import annotations

from headrace.core.vhost import Vhost
from headrace.server.http import replies, stats
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.listing import Row, listed_rows, reduced
from headrace.server.http.router import (
    ADMINISTRATOR,
    ENTERS_VHOST,
    MANAGEMENT,
    SEES_VHOST,
    ApiRoutes,
)
from headrace.server.http.sampler import window_of, with_details

ROUTES = ApiRoutes()


def _row(call: ApiRequest, vhost: Vhost) -> Row:
    management = call.management
    values = stats.vhost_values(vhost, stats.sessions_of(call.broker))
    history = list(management.sampler.history(vhost))
    rates = window_of(call.query, "msg_rates")
    lengths = window_of(call.query, "lengths")
    octets = window_of(call.query, "data_rates")
    metadata = call.broker.parameters.vhost_metadata(vhost.name)
    row: Row = {
        "name": vhost.name,
        "description": metadata["description"],
        "tags": metadata["tags"],
        "default_queue_type": metadata.get("default_queue_type", "undefined"),
        "metadata": metadata,
        "tracing": False,
        "cluster_state": {management.node: "running"},
        **with_details(stats.VHOST, stats.QUEUE_LENGTHS, values, history, lengths),
        **with_details(stats.VHOST, stats.VHOST_OCTETS, values, history, octets),
    }
    if any(values):
        row["message_stats"] = with_details(
            stats.VHOST, stats.VHOST_MESSAGES, values, history, rates
        )
    return row


@ROUTES.get("/api/vhosts", MANAGEMENT, "Vhosts visible to the user")
async def _vhosts(call: ApiRequest) -> replies.Reply:
    return await listed_rows(call, [_row(call, vhost) for vhost in call.visible_vhosts()])


@ROUTES.get("/api/vhosts/{vhost}", SEES_VHOST, "One vhost")
async def _vhost(call: ApiRequest) -> object:
    return reduced(call, _row(call, call.vhost))


@ROUTES.put("/api/vhosts/{name}", ADMINISTRATOR, "Create a vhost",
    {"description": "string", "tags": "string"})  # fmt: skip
async def _put(call: ApiRequest) -> replies.Reply:
    name = call.params["name"]
    broker = call.broker
    new = name not in broker.vhosts
    described: dict[str, object] = {}
    if "description" in call.json():
        described["description"] = call.value("description", str)
    if "tags" in call.json():
        described["tags"] = call.tags()
    kind = call.value("default_queue_type", str, None)
    if kind not in (None, "", "undefined", "classic"):
        raise replies.bad_request(
            f"default_queue_type '{kind}' is not supported; say it with x-queue-type per queue"
        )
    if call.boolean("tracing", default=False):
        raise replies.bad_request(
            "message tracing is not supported; to copy messages, bind a queue to their exchange"
        )
    broker.add_vhost(name)
    if described:
        broker.parameters.describe_vhost(name, described)
    if new:
        # As RabbitMQ does: the user who creates a vhost over HTTP gets all permissions in it.
        broker.users.set_permissions(call.user.name, name, ".*", ".*", ".*")
    return replies.created(new=new)


@ROUTES.delete("/api/vhosts/{name}", ADMINISTRATOR, "Delete a vhost with everything in it")
async def _delete(call: ApiRequest) -> None:
    replies.found(call.name in call.broker.vhosts)
    call.broker.delete_vhost(call.name)


@ROUTES.post(
    "/api/vhosts/{vhost}/start/{node}", ENTERS_VHOST, "Start a vhost; accepted without effect"
)
async def _start(call: ApiRequest) -> None:
    """Vhosts of this broker always run."""
