"""/api/parameters and /api/global-parameters: named values that tools and plugins read."""

from __future__ import annotations

from headrace.core.parameters import CLUSTER_NAME, REPORT, Parameter
from headrace.core.policies import OPERATOR_POLICY
from headrace.server.http import replies
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.listing import Row
from headrace.server.http.replies import Reply
from headrace.server.http.router import ADMINISTRATOR, MANAGEMENT, SEES_VHOST, SETS_POLICY, ApiRoute


def parameter_row(one: Parameter) -> Row:
    return {
        "vhost": one.vhost,
        "component": one.component,
        "name": one.name,
        "value": one.value,
    }


async def _parameters(call: ApiRequest) -> Reply:
    visible = {vhost.name for vhost in call.visible_vhosts()}
    found = call.broker.parameters.listed(component=call.params.get("component"))
    return replies.data([parameter_row(one) for one in found if one.vhost in visible])


async def _parameter(call: ApiRequest) -> Reply:
    one = call.broker.parameters.find(call.vhost.name, call.params["component"], call.name)
    if one is None:
        raise replies.not_found()
    return replies.data(parameter_row(one))


async def _set(call: ApiRequest) -> Reply:
    if "value" not in call.json():
        raise replies.bad_request("[{key_missing,value}]")
    if call.params["component"] == REPORT:
        raise replies.bad_request("reports are kept with PUT /api/reports/VHOST/NAME")
    if call.params["component"] == OPERATOR_POLICY:
        raise replies.bad_request("set it with PUT /api/operator-policies/VHOST/NAME")
    if call.params["component"] == "vhost-limits":
        # Kept as a mere value it would limit nothing until it is imported.
        raise replies.bad_request("limits are set with PUT /api/vhost-limits/VHOST/NAME")
    new = call.broker.parameters.set(
        call.vhost.name, call.params["component"], call.name, call.json()["value"]
    )
    return replies.created(new=new)


async def _clear(call: ApiRequest) -> Reply:
    if not call.broker.parameters.clear(call.vhost.name, call.params["component"], call.name):
        raise replies.not_found()
    return replies.DONE


async def _globals(call: ApiRequest) -> Reply:
    kept = {CLUSTER_NAME: call.management.cluster_name, **call.broker.parameters.globals()}
    return replies.data([{"name": name, "value": value} for name, value in kept.items()])


async def _global(call: ApiRequest) -> Reply:
    kept = call.broker.parameters.globals()
    if call.name not in kept:
        raise replies.not_found()
    return replies.data({"name": call.name, "value": kept[call.name]})


async def _set_global(call: ApiRequest) -> Reply:
    if "value" not in call.json():
        raise replies.bad_request("[{key_missing,value}]")
    return replies.created(new=call.broker.parameters.set_global(call.name, call.json()["value"]))


async def _clear_global(call: ApiRequest) -> Reply:
    if not call.broker.parameters.clear_global(call.name):
        raise replies.not_found()
    return replies.DONE


async def _feature_flags(call: ApiRequest) -> Reply:
    return replies.data([])


_ONE = "/api/parameters/{component}/{vhost}/{name}"
_GLOBAL = "/api/global-parameters/{name}"
_VALUE = {"value": "any"}

ROUTES = (
    ApiRoute("GET", "/api/parameters", _parameters, MANAGEMENT, "All parameters"),
    ApiRoute("GET", "/api/parameters/{component}", _parameters, MANAGEMENT,
          "Parameters of a component"),
    ApiRoute("GET", "/api/parameters/{component}/{vhost}", _parameters, SEES_VHOST,
          "Parameters of a component in a vhost"),
    ApiRoute("GET", _ONE, _parameter, SEES_VHOST, "One parameter"),
    ApiRoute("PUT", _ONE, _set, SETS_POLICY, "Set a parameter", _VALUE),
    ApiRoute("DELETE", _ONE, _clear, SETS_POLICY, "Clear a parameter"),
    ApiRoute("GET", "/api/global-parameters", _globals, MANAGEMENT, "All global parameters"),
    ApiRoute("GET", _GLOBAL, _global, MANAGEMENT, "One global parameter"),
    ApiRoute("PUT", _GLOBAL, _set_global, ADMINISTRATOR, "Set a global parameter", _VALUE),
    ApiRoute("DELETE", _GLOBAL, _clear_global, ADMINISTRATOR, "Clear a global parameter"),
    ApiRoute("GET", "/api/feature-flags", _feature_flags, MANAGEMENT,
          "Feature flags; always empty"),
)  # fmt: skip
