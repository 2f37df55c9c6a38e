"""Definitions files: applied as they are, or refused with the reason."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import cast

import pytest

from headrace.core.broker import Broker
from headrace.core.clock import VirtualClock
from headrace.core.definitions import load_definitions
from headrace.errors import ConfigError
from support.fake_loop import HandLoop

GOOD = {
    "rabbit_version": "3.10.0",
    "users": [{"name": "guest"}],
    "vhosts": [{"name": "/"}, {"name": "shop"}],
    "policies": [
        {
            "vhost": "shop",
            "name": "limit",
            "pattern": "^orders",
            "apply-to": "queues",
            "definition": {"max-length": 7},
        }
    ],
    "exchanges": [
        {"name": "in", "vhost": "shop", "type": "topic", "durable": True, "arguments": {}},
        {"name": "out", "vhost": "shop", "type": "fanout", "auto_delete": True, "durable": False},
    ],
    "queues": [
        {"name": "orders", "vhost": "shop", "durable": True, "arguments": {"x-max-priority": 3}}
    ],
    "bindings": [
        {
            "source": "in",
            "vhost": "shop",
            "destination": "out",
            "destination_type": "exchange",
            "routing_key": "#",
            "arguments": {},
        },
        {
            "source": "out",
            "vhost": "shop",
            "destination": "orders",
            "destination_type": "queue",
            "routing_key": "",
            "arguments": {},
        },
    ],
}


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(
        cast(asyncio.AbstractEventLoop, HandLoop()),
        directory=tmp_path,
        memory_limit=1 << 40,
        disk_free_limit=0,
        clock=VirtualClock(),
    )


def load(broker: Broker, tmp_path: Path, data: object) -> None:
    path = tmp_path / "definitions.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    load_definitions(broker, path)


def test_a_good_file_is_applied_and_may_be_applied_again(broker: Broker, tmp_path: Path) -> None:
    load(broker, tmp_path, GOOD)
    load(broker, tmp_path, GOOD)

    vhost = broker.get_vhost("shop")
    queue = vhost.get_queue("orders")
    assert (queue.durable, queue.settings.max_priority, queue.settings.max_length) == (True, 3, 7)
    assert list(vhost.routes.get("in", "any.key").destinations) == [queue]
    assert vhost.get_exchange("out").auto_delete
    assert [len(one.queues) for one in broker.vhosts.values()] == [0, 1]


def test_parts_may_be_missing(broker: Broker, tmp_path: Path) -> None:
    load(broker, tmp_path, {"queues": [{"name": "q"}]})

    assert broker.get_vhost("/").get_queue("q").durable


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("{", "cannot read"),
        ("[]", "expected a JSON object"),
        ({"queues": {}}, "malformed entry"),
        ({"queues": ["q"]}, "malformed entry"),
        ({"queues": [{}]}, "malformed entry"),
        ({"queues": [{"name": 5}]}, "malformed entry"),
        ({"queues": [{"name": ["q"]}]}, "malformed entry"),
        ({"queues": [{"name": "q", "arguments": None}]}, "malformed entry"),
        ({"queues": [{"name": "q", "arguments": {"x-expires": 0}}]}, "x-expires"),
        ({"queues": [{"name": "q", "vhost": "none"}]}, "vhost none not found"),
        ({"exchanges": [{"name": "e", "type": "odd"}]}, "invalid exchange type"),
        ({"vhosts": [{"name": ""}]}, "1 to 255 bytes"),
        ({"bindings": [{"source": "amq.topic", "destination": "none"}]}, "no queue 'none'"),
        ({"policies": [{"name": "p", "pattern": "(", "definition": {"expires": 1}}]}, "pattern"),
        ({"policies": [{"name": "p", "pattern": "a", "definition": {"odd": 1}}]}, "odd"),
        ({"policies": [{"name": "p", "pattern": "a", "definition": 5}]}, "malformed entry"),
    ],
)
def test_a_bad_file_is_refused_with_the_reason(
    broker: Broker, tmp_path: Path, data: object, reason: str
) -> None:
    with pytest.raises(ConfigError, match="definitions") as refusal:
        load(broker, tmp_path, data)

    assert reason in str(refusal.value)


@pytest.mark.parametrize(
    ("data", "which"),
    [
        ({"exchanges": [{"name": "ch", "vhost": "/", "type": "x-hash"}]},
         "exchange 'ch' of vhost '/': invalid exchange type 'x-hash'"),
        ({"users": [{"name": "old", "password_hash": "Zm9v",
                     "hashing_algorithm": "rabbit_password_hashing_md5"}]},
         "user 'old': cannot check passwords hashed by 'rabbit_password_hashing_md5'"),
        ({"queues": [{"name": "log", "arguments": {"x-queue-type": "stream"}}]}, "queue 'log': "),
        ({"policies": [{"name": "p", "vhost": "/"}]},
         "policy 'p' of vhost '/': malformed entry: KeyError('pattern')"),
        ({"bindings": [{"source": "amq.topic", "destination": "none"}]},
         "binding of source 'amq.topic' of destination 'none': "),
        ({"permissions": [{"user": "u", "vhost": "/"}]}, "permission of user 'u' of vhost '/': "),
        ({"queues": ["q"]}, "queue 'q': malformed entry"),
    ],
)  # fmt: skip
def test_the_entry_that_cannot_be_declared_is_named(
    broker: Broker, tmp_path: Path, data: object, which: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        load(broker, tmp_path, data)

    assert f": {which}" in str(refusal.value)


def test_what_is_there_already_must_agree(broker: Broker, tmp_path: Path) -> None:
    broker.get_vhost("/").declare_queue("q", durable=True)

    with pytest.raises(ConfigError, match="inequivalent arg 'durable'"):
        load(broker, tmp_path, {"queues": [{"name": "q", "durable": False}]})


def test_a_missing_file_is_reported(broker: Broker, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read definitions"):
        load_definitions(broker, tmp_path / "none.json")
