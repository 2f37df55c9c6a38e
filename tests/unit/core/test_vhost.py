"""Exchanges, bindings and routes of a vhost."""

from __future__ import annotations

import pytest

from headrace.core.vhost import Vhost
from headrace.errors import AccessRefused, NotFound, PreconditionFailed, ResourceLocked
from headrace.model.policy import Policy
from support.fake_loop import Inbox, Stage, ready


@pytest.fixture
def vhost(stage: Stage) -> Vhost:
    return stage.vhost


def reached(vhost: Vhost, exchange: str, *keys: str, **headers: object) -> list[str]:
    found = vhost.routes.walk(vhost.get_exchange(exchange), keys, headers)
    return sorted(one.name for one in found.destinations)


def policy(pattern: str, apply_to: str = "all", **definition: object) -> Policy:
    named = {key.replace("_", "-"): value for key, value in definition.items()}
    return Policy.checked("p", "/", pattern, apply_to, 0, named)


# -- routing ---------------------------------------------------------------------------------------


def test_the_default_exchange_knows_every_queue_by_name(stage: Stage, vhost: Vhost) -> None:
    stage.queue("a")

    assert reached(vhost, "", "a") == ["a"]
    assert reached(vhost, "", "b") == []


def test_a_queue_bound_twice_gets_a_message_once(stage: Stage, vhost: Vhost) -> None:
    queue = stage.queue("a")
    for key in ("#", "x.*"):
        vhost.bind("amq.topic", queue, key)

    assert reached(vhost, "amq.topic", "x.y") == ["a"]


def test_several_keys_are_routed_as_one_message(stage: Stage, vhost: Vhost) -> None:
    for name in "abc":
        vhost.bind("amq.direct", stage.queue(name), name)

    route = vhost.routes.find("amq.direct", ["a", "b", "a"], {})

    assert route.key == "a"
    assert sorted(one.name for one in route.destinations) == ["a", "b"]


def test_a_message_passes_from_exchange_to_exchange(stage: Stage, vhost: Vhost) -> None:
    inner = vhost.declare_exchange("inner", "topic")
    vhost.bind("amq.fanout", inner, "")
    vhost.bind("inner", stage.queue("a"), "x.#")

    assert reached(vhost, "amq.fanout", "x.y") == ["a"]
    assert reached(vhost, "amq.fanout", "y") == []


def test_a_circle_of_exchanges_ends(stage: Stage, vhost: Vhost) -> None:
    ring = [vhost.declare_exchange(name, "fanout") for name in ("one", "two", "three")]
    for source, target in zip(ring, ring[1:] + ring[:1], strict=True):
        vhost.bind(source.name, target, "")
    vhost.bind("one", ring[0], "")
    vhost.bind("three", stage.queue("a"), "")

    assert reached(vhost, "one", "") == ["a"]


def test_the_alternate_exchange_gets_unroutable_messages(stage: Stage, vhost: Vhost) -> None:
    vhost.declare_exchange("main", "direct", arguments={"alternate-exchange": "amq.fanout"})
    vhost.bind("main", stage.queue("wanted"), "key")
    vhost.bind("amq.fanout", stage.queue("rest"), "")

    assert reached(vhost, "main", "key") == ["wanted"]
    assert reached(vhost, "main", "other") == ["rest"]


def test_alternate_exchanges_that_point_at_each_other_end(vhost: Vhost) -> None:
    vhost.declare_exchange("one", "direct", arguments={"alternate-exchange": "two"})
    vhost.declare_exchange("two", "direct", arguments={"alternate-exchange": "one"})

    assert reached(vhost, "one", "key") == []


def test_an_alternate_exchange_that_does_not_exist_is_no_error(vhost: Vhost) -> None:
    vhost.declare_exchange("one", "direct", arguments={"alternate-exchange": "nowhere"})

    assert reached(vhost, "one", "key") == []


def test_routes_through_a_headers_exchange_are_by_headers(stage: Stage, vhost: Vhost) -> None:
    vhost.bind("amq.headers", stage.queue("a"), "", {"x-match": "all", "colour": "red"})
    vhost.bind("amq.fanout", vhost.get_exchange("amq.headers"), "")

    assert vhost.routes.get("amq.fanout", "").by_headers
    assert not vhost.routes.get("amq.direct", "").by_headers
    assert reached(vhost, "amq.fanout", "", colour="red") == ["a"]
    assert reached(vhost, "amq.fanout", "", colour="blue") == []


def test_an_unknown_exchange_is_refused(vhost: Vhost) -> None:
    with pytest.raises(NotFound, match="no exchange 'nowhere' in vhost '/'"):
        vhost.routes.get("nowhere", "key")


# -- the route cache -------------------------------------------------------------------------------


def test_a_route_is_cached_until_something_changes(stage: Stage, vhost: Vhost) -> None:
    queue = stage.queue("a")
    vhost.bind("amq.direct", queue, "key")
    first = vhost.routes.get("amq.direct", "key")
    assert vhost.routes.get("amq.direct", "key") is first

    vhost.unbind("amq.direct", queue, "key")

    assert list(vhost.routes.get("amq.direct", "key").destinations) == []


@pytest.mark.parametrize("change", ["queue", "exchange", "binding", "policy", "deletion"])
def test_every_change_is_seen_by_those_who_cache(stage: Stage, vhost: Vhost, change: str) -> None:
    queue = stage.queue("a")
    before = vhost.routes.epoch

    if change == "queue":
        stage.queue("b")
    elif change == "exchange":
        vhost.declare_exchange("e", "fanout")
    elif change == "binding":
        vhost.bind("amq.direct", queue, "key")
    elif change == "policy":
        vhost.policies.set(policy(".*", max_length=5))
    else:
        vhost.delete_queue("a", None)

    assert vhost.routes.epoch > before


def test_the_route_cache_is_bounded(vhost: Vhost) -> None:
    vhost.routes._cached.limit = 10

    for number in range(100):
        vhost.routes.get("amq.topic", f"key.{number}")

    assert len(vhost.routes._cached) <= 10


# -- exchanges -------------------------------------------------------------------------------------


def test_an_exchange_is_declared_again_only_as_it_is(vhost: Vhost) -> None:
    exchange = vhost.declare_exchange("e", "direct", durable=True)

    assert vhost.declare_exchange("e", "direct", durable=True) is exchange
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'type'"):
        vhost.declare_exchange("e", "fanout", durable=True)
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'durable'"):
        vhost.declare_exchange("e", "direct")


def test_an_unknown_type_and_a_reserved_name_are_refused(vhost: Vhost) -> None:
    with pytest.raises(PreconditionFailed, match="invalid exchange type 'x-odd'"):
        vhost.declare_exchange("e", "x-odd")
    with pytest.raises(AccessRefused, match="reserved prefix"):
        vhost.declare_exchange("amq.mine", "direct")


def test_the_default_exchange_is_not_to_be_touched(stage: Stage, vhost: Vhost) -> None:
    queue = stage.queue("a")

    for attempt in (
        lambda: vhost.declare_exchange("", "direct"),
        lambda: vhost.delete_exchange(""),
        lambda: vhost.bind("", queue, "key"),
        lambda: vhost.unbind("", queue, "key"),
    ):
        with pytest.raises(AccessRefused, match="default exchange"):
            attempt()


def test_system_exchanges_stay(vhost: Vhost) -> None:
    with pytest.raises(AccessRefused, match="not allowed"):
        vhost.delete_exchange("amq.direct")


def test_deleting_if_unused_needs_an_exchange_without_bindings(stage: Stage, vhost: Vhost) -> None:
    vhost.declare_exchange("e", "fanout")
    queue = stage.queue("a")
    vhost.bind("e", queue, "")
    with pytest.raises(PreconditionFailed, match="in use"):
        vhost.delete_exchange("e", if_unused=True)

    vhost.unbind("e", queue, "")
    vhost.delete_exchange("e", if_unused=True)

    assert "e" not in vhost.exchanges
    vhost.delete_exchange("e")  # none there: no error


def test_an_auto_delete_exchange_goes_with_its_last_binding(stage: Stage, vhost: Vhost) -> None:
    vhost.declare_exchange("e", "fanout", auto_delete=True)
    first, second = stage.queue("a"), stage.queue("b")
    vhost.bind("e", first, "")
    vhost.bind("e", second, "")

    vhost.unbind("e", first, "")
    assert "e" in vhost.exchanges
    vhost.delete_queue("b", None)
    assert "e" not in vhost.exchanges


def test_auto_delete_runs_up_a_chain_of_exchanges(stage: Stage, vhost: Vhost) -> None:
    for name in ("top", "middle"):
        vhost.declare_exchange(name, "fanout", auto_delete=True)
    vhost.bind("top", vhost.get_exchange("middle"), "")
    vhost.bind("middle", stage.queue("a"), "")

    vhost.delete_queue("a", None)

    assert not {"top", "middle"} & set(vhost.exchanges)


def test_a_deleted_exchange_is_no_longer_a_target(stage: Stage, vhost: Vhost) -> None:
    vhost.declare_exchange("inner", "fanout")
    vhost.bind("amq.fanout", vhost.get_exchange("inner"), "")
    vhost.bind("inner", stage.queue("a"), "")

    vhost.delete_exchange("inner")

    assert reached(vhost, "amq.fanout", "") == []
    assert not vhost.get_exchange("amq.fanout").bindings


# -- queues ----------------------------------------------------------------------------------------


def test_a_queue_is_declared_again_only_as_it_is(stage: Stage, vhost: Vhost) -> None:
    queue = stage.queue("a", max_length=5)

    assert stage.queue("a", max_length=5) is queue
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-max-length'"):
        stage.queue("a", max_length=6)
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'auto_delete'"):
        vhost.declare_queue("a", auto_delete=True, arguments={"x-max-length": 5})


def test_queues_without_a_name_get_one_each(vhost: Vhost) -> None:
    names = {vhost.declare_queue("").name for _ in range(5)}

    assert len(names) == 5
    assert all(name.startswith("amq.gen-") for name in names)


def test_an_exclusive_queue_belongs_to_one_connection(vhost: Vhost) -> None:
    owner, stranger = object(), object()
    queue = vhost.declare_queue("a", owner=owner, connection=owner)
    assert vhost.declare_queue("a", owner=owner, connection=owner) is queue
    assert vhost.get_queue_for("a", owner) is queue

    with pytest.raises(ResourceLocked):
        vhost.get_queue_for("a", stranger)
    with pytest.raises(ResourceLocked):
        vhost.declare_queue("a", connection=stranger)
    with pytest.raises(ResourceLocked):
        vhost.delete_queue("a", stranger)
    vhost.release_exclusive(stranger)
    assert "a" in vhost.queues
    vhost.release_exclusive(owner)
    assert "a" not in vhost.queues


def test_deleting_with_conditions(stage: Stage, vhost: Vhost) -> None:
    queue = stage.queue("a")
    inbox = Inbox()
    consumer = inbox.consume(queue, prefetch=1)
    stage.publish("x", "y", to="a")

    with pytest.raises(PreconditionFailed, match="in use"):
        vhost.delete_queue("a", None, if_unused=True)
    queue.unsubscribe(consumer)
    with pytest.raises(PreconditionFailed, match="not empty"):
        vhost.delete_queue("a", None, if_empty=True)
    assert vhost.delete_queue("a", None, if_unused=True) == 1
    assert vhost.delete_queue("a", None) == 0  # none there: no error


def test_deleting_a_queue_removes_its_bindings(stage: Stage, vhost: Vhost) -> None:
    vhost.bind("amq.fanout", stage.queue("a"), "")

    vhost.delete_queue("a", None)
    stage.queue("a")

    assert reached(vhost, "amq.fanout", "") == []


# -- bindings --------------------------------------------------------------------------------------


def test_the_same_binding_twice_is_one_and_an_unknown_one_is_no_error(
    stage: Stage, vhost: Vhost
) -> None:
    queue = stage.queue("a")
    vhost.bind("amq.direct", queue, "key")
    vhost.bind("amq.direct", queue, "key")
    assert len(vhost.get_exchange("amq.direct").bindings) == 1

    vhost.unbind("amq.direct", queue, "other")
    vhost.unbind("amq.direct", queue, "key")
    vhost.unbind("amq.direct", queue, "key")
    vhost.unbind("nowhere", queue, "key")

    assert reached(vhost, "amq.direct", "key") == []


def test_bindings_with_different_arguments_are_different(stage: Stage, vhost: Vhost) -> None:
    queue = stage.queue("a")
    for value in (1, True, "1"):
        vhost.bind("amq.direct", queue, "key", {"note": value, "more": [{"deep": value}]})

    vhost.unbind("amq.direct", queue, "key", {"more": [{"deep": 1}], "note": 1})

    assert len(vhost.get_exchange("amq.direct").bindings) == 2
    assert reached(vhost, "amq.direct", "key") == ["a"]


# -- policies --------------------------------------------------------------------------------------


def test_a_policy_gives_an_alternate_exchange_and_takes_it_away(stage: Stage, vhost: Vhost) -> None:
    vhost.declare_exchange("main", "direct")
    vhost.bind("amq.fanout", stage.queue("rest"), "")
    vhost.policies.set(policy("^main$", "exchanges", alternate_exchange="amq.fanout"))
    assert list(vhost.routes.get("main", "key").destinations) == [vhost.queues["rest"]]
    assert vhost.get_exchange("main").policy == "p"

    vhost.policies.clear("p")

    assert list(vhost.routes.get("main", "key").destinations) == []


def test_a_policy_counts_for_queues_declared_later(stage: Stage, vhost: Vhost) -> None:
    vhost.policies.set(policy("^lim", "queues", max_length=1))

    queue, other = stage.queue("limited"), stage.queue("other")
    stage.publish("a", "b", to="limited")
    stage.publish("a", "b", to="other")

    assert (ready(queue), ready(other)) == (["b"], ["a", "b"])


def test_a_policy_gives_a_dead_letter_exchange_live(stage: Stage, vhost: Vhost) -> None:
    queue, dead = stage.queue("a"), stage.queue("dead")
    vhost.bind("amq.fanout", dead, "")
    inbox = Inbox()
    inbox.consume(queue)
    stage.publish("one", to="a")
    vhost.policies.set(policy("^a$", "queues", dead_letter_exchange="amq.fanout"))

    inbox.reject(1)

    assert ready(dead) == ["one"]


def test_clearing_an_unknown_policy_is_refused(vhost: Vhost) -> None:
    with pytest.raises(NotFound, match="no policy 'p'"):
        vhost.policies.clear("p")
