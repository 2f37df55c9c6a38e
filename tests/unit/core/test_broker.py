"""The broker: vhosts, totals, and the end of a vhost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from headrace.core.broker import Broker
from headrace.core.clock import VirtualClock
from headrace.core.vhost import Vhost
from headrace.errors import NotAllowed, PreconditionFailed
from unit.core.stage import HandLoop, Inbox


class Guest:
    """A connection that only remembers why it was closed."""

    def __init__(self, vhost: Vhost | None) -> None:
        self._vhost = vhost
        self.reason: str | None = None

    @property
    def vhost(self) -> Vhost | None:
        return self._vhost

    def force_close(self, reason: str) -> None:
        self.reason = reason


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(
        cast(asyncio.AbstractEventLoop, HandLoop()),
        directory=tmp_path,
        memory_limit=1 << 40,
        disk_free_limit=0,
        clock=VirtualClock(),
    )


def test_a_vhost_is_made_once(broker: Broker) -> None:
    shop = broker.add_vhost("shop")

    assert broker.add_vhost("shop") is shop
    assert broker.get_vhost("shop") is shop
    assert list(broker.vhosts) == ["/", "shop"]


@pytest.mark.parametrize("name", ["", "x" * 256, "é" * 128])
def test_a_vhost_needs_a_name_of_a_sane_length(broker: Broker, name: str) -> None:
    with pytest.raises(PreconditionFailed):
        broker.add_vhost(name)


def test_an_unknown_vhost_is_told(broker: Broker) -> None:
    with pytest.raises(NotAllowed, match="vhost nowhere not found"):
        broker.get_vhost("nowhere")


def test_deleting_a_vhost_ends_its_connections_and_no_others(broker: Broker) -> None:
    shop = broker.add_vhost("shop")
    queue = shop.declare_queue("q")
    inside, outside, nowhere = Guest(shop), Guest(broker.get_vhost("/")), Guest(None)
    broker.connections |= {inside, outside, nowhere}

    broker.delete_vhost("shop")

    assert inside.reason == "vhost 'shop' is deleted"
    assert (outside.reason, nowhere.reason) == (None, None)
    assert queue.deleted
    assert "shop" not in broker.vhosts


def test_the_same_name_in_two_vhosts_is_two_queues(broker: Broker) -> None:
    first = broker.get_vhost("/").declare_queue("q")
    second = broker.add_vhost("shop").declare_queue("q")

    assert first is not second


def test_totals_count_everything(broker: Broker) -> None:
    before = broker.totals()
    queue = broker.add_vhost("shop").declare_queue("q")
    Inbox().consume(queue)

    after = broker.totals()

    assert {key: after[key] - before[key] for key in ("vhosts", "queues", "consumers")} == {
        "vhosts": 1,
        "queues": 1,
        "consumers": 1,
    }
