"""Direct exchanges that also deliver to the queue named by the routing key."""

from __future__ import annotations

import pytest

from headrace.core.vhost import Vhost
from support.fake_loop import Stage


@pytest.fixture
def vhost(stage: Stage) -> Vhost:
    stage.vhost.declare_exchange("x", "direct", arguments={"x-direct-to-queue": True})
    return stage.vhost


def reached(vhost: Vhost, *keys: str) -> list[str]:
    return [one.name for one in vhost.routes.find("x", keys, {}).destinations]


def test_the_key_names_a_queue(stage: Stage, vhost: Vhost) -> None:
    stage.queue("a")

    assert reached(vhost, "a") == ["a"]
    assert reached(vhost, "b") == []


def test_bound_queues_get_a_copy_and_none_gets_two(stage: Stage, vhost: Vhost) -> None:
    for name in ("a", "b"):
        vhost.bind("x", stage.queue(name), "a")

    assert sorted(reached(vhost, "a")) == ["a", "b"]


def test_several_keys_may_name_several_queues(stage: Stage, vhost: Vhost) -> None:
    stage.queue("a")
    stage.queue("b")

    assert reached(vhost, "a", "none", "b") == ["a", "b"]


def test_a_named_queue_is_no_case_for_the_alternate_exchange(stage: Stage, vhost: Vhost) -> None:
    arguments = {"x-direct-to-queue": True, "alternate-exchange": "amq.fanout"}
    vhost.declare_exchange("y", "direct", arguments=arguments)
    vhost.bind("amq.fanout", stage.queue("lost"), "")
    stage.queue("a")

    assert [one.name for one in vhost.routes.get("y", "a").destinations] == ["a"]
    assert [one.name for one in vhost.routes.get("y", "b").destinations] == ["lost"]


def test_a_queue_that_comes_and_goes_changes_the_route(stage: Stage, vhost: Vhost) -> None:
    assert not vhost.routes.get("x", "a").destinations
    queue = stage.queue("a")
    assert [one.name for one in vhost.routes.get("x", "a").destinations] == ["a"]
    vhost.remove_queue(queue)
    assert not vhost.routes.get("x", "a").destinations


@pytest.mark.parametrize(
    ("kind", "argument"), [("direct", False), ("direct", "yes"), ("fanout", True)]
)
def test_otherwise_only_bindings_count(
    stage: Stage, vhost: Vhost, kind: str, argument: object
) -> None:
    vhost.declare_exchange("z", kind, arguments={"x-direct-to-queue": argument})
    stage.queue("a")

    assert not vhost.routes.get("z", "a").destinations
