"""What `headrace doctor` finds in replies of the API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.cli.inspect.doctor import CHECKS, Snapshot, find

GIB = 1 << 30
NODE = {
    "mem_alarm": False,
    "disk_free_alarm": False,
    "disk_free": 100 * GIB,
    "disk_free_limit": 50 << 20,
    "mem_used": GIB,
    "mem_limit": 10 * GIB,
    "fd_used": 10,
    "fd_total": 1000,
}
QUEUE = {
    "name": "orders",
    "vhost": "/",
    "durable": True,
    "messages": 5,
    "messages_persistent": 5,
    "messages_ready": 5,
    "messages_unacknowledged": 0,
    "consumers": 1,
    "message_stats": {"ack": 7},
}
GROUP = {
    "name": "stats",
    "vhost": "/",
    "topic": "visits",
    "queue": "",
    "messages": 9,
    "members": ["a"],
    "dead": 0,
    "lanes": [{"position": 4}],
}
CONSUMER = {
    "consumer_tag": "c1",
    "ack_required": True,
    "prefetch_count": 0,
    "channel_details": {"global_prefetch_count": 0},
    "queue": {"name": "orders", "vhost": "/"},
}
SOUND = Snapshot(
    node=NODE,
    overview={"listeners": [{"ip_address": "127.0.0.1"}]},
    queues=[QUEUE],
    consumers=[{**CONSUMER, "prefetch_count": 10}],
    connections=[{"name": "a -> b", "state": "running", "channels": 1}],
    exchanges=[{"name": "shop", "vhost": "/", "arguments": {}}, {"name": "", "vhost": "/"}],
    bindings=[{"vhost": "/", "source": "shop"}],
    groups=[],
    pipelines=[],
    clock_skew=0.2,
    is_default_login=True,
)
TROUBLE: dict[str, dict[str, Any]] = {
    "alarm": {"node": {**NODE, "mem_alarm": True}},
    "disk-nearly-full": {"node": {**NODE, "disk_free": GIB}},
    "memory-nearly-full": {"node": {**NODE, "mem_used": 9 * GIB}},
    "files-nearly-used-up": {"node": {**NODE, "fd_used": 900}},
    "clock-skew": {"clock_skew": -90.0},
    "default-password": {"overview": {"listeners": [{"ip_address": "0.0.0.0"}]}},
    "no-consumers": {"queues": [{**QUEUE, "consumers": 0}]},
    "backlog-growing": {"queues": [{**QUEUE, "messages_ready": 500}]},
    "unacked-growing": {"queues": [{**QUEUE, "messages_unacknowledged": 50}]},
    "no-prefetch": {"consumers": [CONSUMER]},
    "transient-messages": {"queues": [{**QUEUE, "messages_persistent": 3}]},
    "unbound-exchange": {"bindings": []},
    "blocked-connection": {"connections": [{"name": "a", "state": "blocked", "channels": 1}]},
    "channel-leak": {"connections": [{"name": "a", "state": "running", "channels": 900}]},
    "dead-messages": {"groups": [{**GROUP, "messages": 0, "dead": 3}]},
    "pipeline-failed": {"pipelines": [{"name": "p", "state": "failed", "error": "no table"}]},
}


def test_a_sound_broker_has_no_problems() -> None:
    assert list(find(SOUND, SOUND)) == []


def test_a_limit_of_the_channel_is_a_prefetch_limit() -> None:
    """As Celery sets it."""
    limited = {**CONSUMER, "channel_details": {"global_prefetch_count": 4}}
    assert list(find(SOUND, replace(SOUND, consumers=[limited]))) == []


@pytest.mark.parametrize("name", TROUBLE)
def test_a_problem_is_named_with_advice(name: str) -> None:
    (found,) = find(SOUND, replace(SOUND, **TROUBLE[name]))
    assert found.name == name
    assert found.text
    assert found.advice


def test_a_group_that_does_not_move_is_stalled() -> None:
    standing = replace(SOUND, groups=[GROUP])
    (found,) = find(standing, standing)
    assert found.name == "group-stalled"
    moved = replace(SOUND, groups=[{**GROUP, "lanes": [{"position": 5}]}])
    assert list(find(standing, moved)) == []


def test_every_check_is_tested() -> None:
    assert set(CHECKS) == {*TROUBLE, "group-stalled"}
    assert len(CHECKS) >= 12
