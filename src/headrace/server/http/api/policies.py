"""/api/policies and /api/operator-policies."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import attrgetter

from headrace.core.policies import OperatorPolicies, Policies
from headrace.core.vhost import Vhost
from headrace.model.policy import Policy
from headrace.server.http import replies
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.listing import Row, listed_rows
from headrace.server.http.router import (
    ADMINISTRATOR,
    MANAGEMENT,
    SEES_VHOST,
    SETS_POLICY,
    AccessRule,
    ApiRoute,
)


def _row(policy: Policy) -> Row:
    return {"vhost": policy.vhost, "name": policy.name, **policy.as_json()}


def _of(vhost: Vhost, kind: type[Policies]) -> Policies:
    return vhost.operator_policies if kind is OperatorPolicies else vhost.policies


async def _policies(kind: type[Policies], call: ApiRequest) -> replies.Reply:
    found = [one for vhost in call.visible_vhosts() for one in _of(vhost, kind).values()]
    return await listed_rows(call, [*map(_row, sorted(found, key=attrgetter("vhost", "name")))])


async def _policy(kind: type[Policies], call: ApiRequest) -> object:
    return _row(replies.found(_of(call.vhost, kind).get(call.name)))


async def _put(kind: type[Policies], call: ApiRequest) -> replies.Reply:
    policies = _of(call.vhost, kind)
    priority = call.json().get("priority", 0)
    if isinstance(priority, str) and priority.lstrip("-").isdigit():
        priority = int(priority[:12])  # rabbitmqadmin sends text
    policy = Policy.checked(
        name=call.name,
        vhost=call.vhost.name,
        pattern=call.value("pattern", str),
        apply_to=call.value("apply-to", str, "all"),
        priority=priority,
        definition=call.value("definition", dict),
        is_operator=kind is OperatorPolicies,
    )
    new = call.name not in policies
    policies.set(policy)
    return replies.created(new=new)


async def _delete(kind: type[Policies], call: ApiRequest) -> None:
    policies = _of(call.vhost, kind)
    policies.clear(replies.found(policies.get(call.name)).name)


_BODY = {"pattern": "string", "definition": "object", "priority": "integer", "apply-to": "string"}


def _routes(path: str, kind: type[Policies], plural: str, setter: AccessRule) -> Iterator[ApiRoute]:
    all_of, one = partial(_policies, kind), path + "/{vhost}/{name}"
    yield ApiRoute("GET", path, all_of, MANAGEMENT, f"All {plural}")
    yield ApiRoute(
        "GET", path + "/{vhost}", all_of, SEES_VHOST, f"{plural.capitalize()} of a vhost"
    )
    yield ApiRoute("GET", one, partial(_policy, kind), SEES_VHOST, f"One {kind.called}")
    yield ApiRoute("PUT", one, partial(_put, kind), setter, f"Set one {kind.called}", _BODY)
    yield ApiRoute("DELETE", one, partial(_delete, kind), setter, f"Clear one {kind.called}")


ROUTES = (
    *_routes("/api/policies", Policies, "policies", SETS_POLICY),
    *_routes("/api/operator-policies", OperatorPolicies, "operator policies", ADMINISTRATOR),
)
