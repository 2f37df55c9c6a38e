"""/api/policies. Operator policies are for those who rent brokers out: there are none here."""

from __future__ import annotations

from headrace.model.policy import Policy
from headrace.server.http import replies
from headrace.server.http.call import Call
from headrace.server.http.listing import Fields, Row, listed
from headrace.server.http.replies import Reply
from headrace.server.http.route import MANAGEMENT, SEES_VHOST, SETS_POLICY, Route

_FIELDS: Fields[Policy] = Fields(
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


async def _policies(call: Call) -> Reply:
    found = [
        policy for vhost in call.visible_vhosts() for _, policy in sorted(vhost.policies.items())
    ]
    return await listed(call, found, _FIELDS)


async def _policy(call: Call) -> Reply:
    policy = call.vhost.policies.get(call.name)
    if policy is None:
        raise replies.not_found()
    return replies.data(policy_row(policy))


async def _put(call: Call) -> Reply:
    vhost = call.vhost
    priority = call.json().get("priority", 0)
    if isinstance(priority, str) and priority.lstrip("-").isdigit():
        priority = int(priority[:12])  # rabbitmqadmin sends text
    policy = Policy.checked(
        name=call.name,
        vhost=vhost.name,
        pattern=call.value("pattern", str),
        apply_to=call.value("apply-to", str, "all"),
        priority=priority,
        definition=call.value("definition", dict),
    )
    new = call.name not in vhost.policies
    vhost.policies.set(policy)
    return replies.created(new=new)


async def _delete(call: Call) -> Reply:
    vhost = call.vhost
    if call.name not in vhost.policies:
        raise replies.not_found()
    vhost.policies.clear(call.name)
    return replies.DONE


async def _operator_policies(call: Call) -> Reply:
    return replies.data([])


async def _no_operator_policies(call: Call) -> Reply:
    raise replies.bad_request("there are no operator policies here; set a policy")


_ONE = "/api/policies/{vhost}/{name}"

ROUTES = (
    Route("GET", "/api/policies", _policies, MANAGEMENT, "All policies"),
    Route("GET", "/api/policies/{vhost}", _policies, SEES_VHOST, "Policies of a vhost"),
    Route("GET", _ONE, _policy, SEES_VHOST, "One policy"),
    Route("PUT", _ONE, _put, SETS_POLICY, "Set a policy",
          {"pattern": "string", "definition": "object", "priority": "integer",
           "apply-to": "string"}),
    Route("DELETE", _ONE, _delete, SETS_POLICY, "Clear a policy"),
    Route("GET", "/api/operator-policies", _operator_policies, MANAGEMENT,
          "Operator policies: none"),
    Route("GET", "/api/operator-policies/{vhost}", _operator_policies, SEES_VHOST,
          "Operator policies of a vhost: none"),
    Route("PUT", "/api/operator-policies/{vhost}/{name}", _no_operator_policies, SETS_POLICY,
          "Refused: there are none"),
)  # fmt: skip
