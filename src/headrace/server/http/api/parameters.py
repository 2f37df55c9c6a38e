"""/api/parameters and /api/global-parameters: named values that tools and plugins read."""

from __future__ import annotations

from dataclasses import asdict

from headrace.core.parameters import CLUSTER_NAME, REPORT
from headrace.core.policies import OPERATOR_POLICY
from headrace.server.http import replies
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.router import (
    ADMINISTRATOR,
    MANAGEMENT,
    SEES_VHOST,
    SETS_POLICY,
    ApiRoutes,
)

ROUTES = ApiRoutes()
_ONE = "/api/parameters/{component}/{vhost}/{name}"
_GLOBAL = "/api/global-parameters/{name}"
_VALUE = {"value": "any"}
# Components that are set in another way. Kept as a mere value, limits would not hold before the
# next import.
_ELSEWHERE = {
    REPORT: "reports are kept with PUT /api/reports/VHOST/NAME",
    OPERATOR_POLICY: "set it with PUT /api/operator-policies/VHOST/NAME",
    "vhost-limits": "limits are set with PUT /api/vhost-limits/VHOST/NAME",
}


@ROUTES.get("/api/parameters", MANAGEMENT, "All parameters")
@ROUTES.get("/api/parameters/{component}", MANAGEMENT, "Parameters of a component")
@ROUTES.get(
    "/api/parameters/{component}/{vhost}", SEES_VHOST, "Parameters of a component in a vhost"
)
async def _parameters(call: ApiRequest) -> object:
    visible = {vhost.name for vhost in call.visible_vhosts()}
    found = call.broker.parameters.listed(component=call.params.get("component"))
    return [asdict(one) for one in found if one.vhost in visible]


@ROUTES.get(_ONE, SEES_VHOST, "One parameter")
async def _parameter(call: ApiRequest) -> object:
    found = call.broker.parameters.find(call.vhost.name, call.params["component"], call.name)
    return asdict(replies.found(found))


@ROUTES.put(_ONE, SETS_POLICY, "Set a parameter", _VALUE)
async def _set(call: ApiRequest) -> replies.Reply:
    replies.require(call.json(), "value")
    component, value = call.params["component"], call.json()["value"]
    if component in _ELSEWHERE:
        raise replies.bad_request(_ELSEWHERE[component])
    new = call.broker.parameters.set(call.vhost.name, component, call.name, value)
    return replies.created(new=new)


@ROUTES.delete(_ONE, SETS_POLICY, "Clear a parameter")
async def _clear(call: ApiRequest) -> None:
    parameters, component = call.broker.parameters, call.params["component"]
    replies.found(parameters.clear(call.vhost.name, component, call.name))


@ROUTES.get("/api/global-parameters", MANAGEMENT, "All global parameters")
async def _globals(call: ApiRequest) -> object:
    kept = {CLUSTER_NAME: call.management.cluster_name, **call.broker.parameters.globals()}
    return [{"name": name, "value": value} for name, value in kept.items()]


@ROUTES.get(_GLOBAL, MANAGEMENT, "One global parameter")
async def _global(call: ApiRequest) -> object:
    kept = call.broker.parameters.globals()
    replies.found(call.name in kept)
    return {"name": call.name, "value": kept[call.name]}


@ROUTES.put(_GLOBAL, ADMINISTRATOR, "Set a global parameter", _VALUE)
async def _set_global(call: ApiRequest) -> replies.Reply:
    replies.require(call.json(), "value")
    return replies.created(new=call.broker.parameters.set_global(call.name, call.json()["value"]))


@ROUTES.delete(_GLOBAL, ADMINISTRATOR, "Clear a global parameter")
async def _clear_global(call: ApiRequest) -> None:
    replies.found(call.broker.parameters.clear_global(call.name))


ROUTES.constant("/api/feature-flags", MANAGEMENT, "Feature flags; always empty", [])
