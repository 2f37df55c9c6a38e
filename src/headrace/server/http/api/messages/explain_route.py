"""Where would this message go? The walk through exchanges again, with the reason for each step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.core.exchange import Exchange, Target
from headrace.core.queues.queue import Queue
from headrace.core.vhost import Vhost
from headrace.model.routing import ROUTERS

Step = dict[str, object]


def explain(vhost: Vhost, start: Exchange, key: str, headers: Mapping[str, object]) -> Step:
    """The queues that a message would reach, and every arrow on the way, in order."""
    steps: list[Step] = []
    queues: dict[str, None] = {}
    seen, todo = {start}, [start]
    while todo:
        exchange = todo.pop(0)
        found = list(_targets(vhost, exchange, key, headers))
        if exchange.sink is not None:
            found.append(
                (exchange.sink, {"reason": "whatever comes here is appended to the topic"})
            )
        if not found and exchange.alternate is not None:
            other = vhost.exchanges.get(exchange.alternate)
            if other is not None:
                found = [(other, {"reason": "alternate exchange: no binding matched"})]
        if not found:
            steps.append(_step(exchange, None, {"reason": _nothing(exchange, key)}))
        for target, why in found:
            steps.append(_step(exchange, target, why))
            if isinstance(target, Exchange):
                if target not in seen:
                    seen.add(target)
                    todo.append(target)
            else:
                queues[target.name] = None
    return {"routed": bool(queues), "queues": list(queues), "steps": steps}


def _step(exchange: Exchange, target: Target | None, why: Step) -> Step:
    step: Step = {"exchange": exchange.name, "type": exchange.kind}
    if target is not None:
        step["destination"] = target.name
        step["destination_type"] = _kind(target)
    return step | why


def _kind(target: Target) -> str:
    if isinstance(target, Queue):
        return "queue"
    return "exchange" if isinstance(target, Exchange) else "other"


def _targets(
    vhost: Vhost, exchange: Exchange, key: str, headers: Mapping[str, object]
) -> Iterator[tuple[Target, Step]]:
    delayed = {"delayed": True} if exchange.delayed else {}
    matched = exchange.match((key,), headers)
    for target in matched:
        bindings = exchange.bindings_to(target)
        if not bindings:
            reason = "the routing key is the queue's name"
            yield target, {"reason": reason, **delayed}
        for binding in bindings:
            if _matches(exchange, binding.key, binding.arguments, key, headers):
                why: Step = {
                    "reason": _because(exchange, binding.key, key),
                    "binding_key": binding.key,
                    "arguments": binding.arguments,
                }
                yield target, why | delayed
    if exchange.direct_to_queue and key in vhost.queues and vhost.queues[key] not in matched:
        yield vhost.queues[key], {"reason": "x-direct-to-queue: the key is the queue's name"}


def _matches(
    exchange: Exchange,
    binding_key: str,
    arguments: Mapping[str, object],
    key: str,
    headers: Mapping[str, object],
) -> bool:
    """Whether this one binding alone would let the message through."""
    router = ROUTERS[exchange.router.kind]()
    router.bind(binding_key, arguments, "alone")
    return bool(router.match(key, headers))


def _because(exchange: Exchange, binding_key: str, key: str) -> str:
    kind = exchange.router.kind
    if kind == "fanout":
        return "a fanout exchange passes everything on"
    if kind == "topic":
        return f"the key '{key}' matches the pattern '{binding_key}'"
    if kind == "headers":
        return "the headers match the arguments of the binding"
    return f"the key is '{binding_key}'"


def _nothing(exchange: Exchange, key: str) -> str:
    if not exchange.name:
        return f"there is no queue '{key}'"
    if not exchange.is_bound:
        return "the exchange has no bindings"
    return "no binding matches"
