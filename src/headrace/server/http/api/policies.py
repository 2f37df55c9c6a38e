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
from headrace.server.http.listing import ListColumns, Row, listed
from headrace.server.http.replies import Reply
from headrace.server.http.router import (
    ADMINISTRATOR,
    MANAGEMENT,
    SEES_VHOST,
    SETS_POLICY,
    AccessRule,
    ApiRoute,
)

_FIELDS: ListColumns[Policy] = ListColumns(
    {
        "vhost": lambda policy: policy.vhost,
        "name": lambda policy: policy.name,
        "pattern": lambda policy: policy.pattern,
        "apply-to": lambda policy: policy.apply_to,
        "definition": lambda policy: policy.definition,
        "priority": lambda policy: policy.priority,
    }
)


def policy_row(policy: Policy) -> Row:
    return _FIELDS.row(policy)


def _of(vhost: Vhost, kind: type[Policies]) -> Policies:
    return vhost.operator_policies if kind is OperatorPolicies else vhost.policies


async def _policies(kind: type[Policies], call: ApiRequest) -> Reply:
    found = [one for vhost in call.visible_vhosts() for one in _of(vhost, kind).values()]
    return await listed(call, sorted(found, key=attrgetter("vhost", "name")), _FIELDS)


async def _policy(kind: type[Policies], call: ApiRequest) -> Reply:
    policy = _of(call.vhost, kind).get(call.name)
    if policy is None:
        raise replies.not_found()
    return replies.data(policy_row(policy))


async def _put(kind: type[Policies], call: ApiRequest) -> Reply:
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


async def _delete(kind: type[Policies], call: ApiRequest) -> Reply:
    policies = _of(call.vhost, kind)
    if call.name not in policies:
        raise replies.not_found()
    policies.clear(call.name)
    return replies.DONE


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
