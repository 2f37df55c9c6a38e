"""Publishes to several keys in turn, in one write: order within each queue, whatever they share."""

from __future__ import annotations

import pytest

from support.amqp_types import Namer, RawChannel


@pytest.mark.parametrize("shared", [False, True])
def test_order_within_each_queue_is_kept(
    raw_channel: RawChannel, name: Namer, shared: bool
) -> None:
    exchange = name()
    raw_channel.call("exchange.declare", exchange=exchange, type="direct")
    queues = [name() for _ in range(3)]
    for number, queue in enumerate(queues):
        raw_channel.call("queue.declare", queue=queue)
        for key in ["k0", "k1", "k2"] if shared else [f"k{number}"]:
            raw_channel.call("queue.bind", queue=queue, exchange=exchange, routing_key=key)
    for _ in range(2):  # the routes are known the second time
        publishes = [
            raw_channel.publish_bytes(exchange, f"k{number % 3}", b"%d" % number, None)
            for number in range(30)
        ]
        raw_channel.client.send(b"".join(publishes))
        for which, queue in enumerate(queues):
            expected = [b"%d" % number for number in range(30) if shared or number % 3 == which]
            found = [raw_channel.get_soon(queue).body for _ in expected]
            assert found == expected
