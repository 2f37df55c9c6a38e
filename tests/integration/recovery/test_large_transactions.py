"""Transactions that are prepared over several loop turns: the same messages, order and safety."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from headrace.core.publication import FEW_RUNS
from headrace.testing import wait_for
from support.recovery_site import Site

COUNT = 3 * FEW_RUNS
BODIES = [f"{number}" for number in range(COUNT)]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path) as running:
        running.node.start()
        yield running


def declare(site: Site, **arguments: object) -> None:
    """The queue q, which both keys lead to, and one for its dead letters."""
    channel = site.channel()
    channel.queue_declare("dead", durable=True)
    named = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
    channel.queue_declare("q", durable=True, arguments=named)
    for key in "ab":
        channel.queue_bind("q", "amq.direct", key)


def transaction(site: Site) -> BlockingChannel:
    channel = site.channel(confirms=False)
    channel.tx_select()
    return channel


def publish(channel: BlockingChannel, **properties: object) -> None:
    """Messages whose keys alternate, so that no two of them are one run.

    A property may be a list, of which the messages get one value after the other.
    """
    for number, body in enumerate(BODIES):
        chosen = {
            name: value[number % len(value)] if isinstance(value, list) else value
            for name, value in {"delivery_mode": 2, **properties}.items()
        }
        channel.basic_publish(
            "amq.direct", "ab"[number % 2], body.encode(), pika.BasicProperties(**chosen)
        )


def test_stored_and_transient_messages_keep_their_order(site: Site) -> None:
    declare(site)
    channel = transaction(site)
    publish(channel, delivery_mode=[2, 2, 1])
    other = site.channel()
    site.publish(other, "q", "before")
    channel.tx_commit()

    assert site.ready(other, "q") == COUNT + 1
    taken = [other.basic_get("q", auto_ack=True)[2].decode() for _ in range(11)]
    assert taken == ["before", *BODIES[:10]]
    site.publish(other, "q", "behind")  # once it is confirmed, all before it is on disk
    site.crash()
    stored = [body for number, body in enumerate(BODIES) if number % 3 < 2]
    assert site.bodies("q") == [*(one for one in stored if int(one) >= 10), "behind"]


def test_nothing_is_left_of_what_was_acknowledged(site: Site) -> None:
    declare(site)
    channel = transaction(site)
    publish(channel)
    channel.tx_commit()
    assert site.bodies("q") == BODIES
    site.restart()
    assert site.bodies("q") == []


@pytest.mark.parametrize("mode", [1, 2])
def test_messages_expire_from_the_commit_on(site: Site, mode: int) -> None:
    declare(site, dead_letter_exchange="", dead_letter_routing_key="dead", message_ttl=2000)
    channel = transaction(site)
    publish(channel, delivery_mode=mode, expiration=["700", "900000"])
    channel.tx_commit()
    other = site.channel()

    wait_for(lambda: site.ready(other, "dead") == COUNT, 30)
    assert site.ready(other, "q") == 0
    assert site.bodies("dead") == BODIES


def test_stored_messages_expire_after_a_crash(site: Site) -> None:
    declare(site, dead_letter_exchange="", dead_letter_routing_key="dead")
    channel = transaction(site)
    publish(channel, expiration="1500")
    channel.tx_commit()
    site.crash()
    other = site.channel()
    wait_for(lambda: site.ready(other, "dead") == COUNT, 30)
    assert site.bodies("q") == []


def test_priorities_are_served_in_their_order(site: Site) -> None:
    declare(site, max_priority=2)
    channel = transaction(site)
    publish(channel, priority=[0, 7, 1])
    channel.tx_commit()
    expected = [BODIES[n] for rest in (1, 2, 0) for n in range(rest, COUNT, 3)]
    held = site.channel()
    assert [one[2].decode() for one in site.hold(held, "q", COUNT)] == expected
    site.crash()
    assert site.bodies("q") == expected


def test_a_queue_with_a_length_limit_keeps_the_last_messages(site: Site) -> None:
    declare(site, max_length=5, dead_letter_exchange="", dead_letter_routing_key="dead")
    channel = transaction(site)
    publish(channel)
    channel.tx_commit()
    other = site.channel()
    wait_for(lambda: site.ready(other, "dead") == COUNT - 5, 30)
    assert site.bodies("dead") == BODIES[:-5]
    assert site.bodies("q") == BODIES[-5:]


def test_a_queue_that_rejects_publishes_takes_what_fits(site: Site) -> None:
    declare(site, max_length=5, overflow="reject-publish")
    channel = transaction(site)
    publish(channel)
    channel.tx_commit()
    assert site.bodies("q") == BODIES[:5]


def take(site: Site, channel: BlockingChannel) -> list[int]:
    """Fill q and hold all of it in the transaction's channel."""
    site.publish(site.channel(), "q", *BODIES)
    return [one[0].delivery_tag for one in site.hold(channel, "q", COUNT)]


def test_acknowledgements_with_gaps_are_for_good(site: Site) -> None:
    declare(site)
    channel = transaction(site)
    for tag in take(site, channel)[::2]:
        channel.basic_ack(tag)
    channel.tx_commit()
    site.crash()
    assert site.bodies("q") == BODIES[1::2]


def test_a_channel_closed_instead_of_a_commit_gets_everything_back(site: Site) -> None:
    declare(site)
    channel = transaction(site)
    for tag in take(site, channel)[::2]:
        channel.basic_ack(tag)
    channel.close()
    assert site.bodies("q") == BODIES


@pytest.mark.parametrize("crash", [False, True])
def test_no_dead_letter_of_a_transaction_is_lost(site: Site, crash: bool) -> None:
    declare(site, dead_letter_exchange="", dead_letter_routing_key="dead")
    channel = transaction(site)
    for tag in take(site, channel)[::2]:
        channel.basic_reject(tag, requeue=False)
    publish(channel)
    channel.tx_commit()
    if crash:
        site.crash()
    else:
        site.hang_up()
    wait_for(lambda: site.ready(site.channel(), "q") >= COUNT, 30)
    dead, rest = site.bodies("dead"), site.bodies("q")
    assert sorted([*dead, *rest], key=int) == sorted([*BODIES, *BODIES], key=int)
    assert dead == BODIES[::2] or crash


def test_rejections_with_gaps_are_requeued_in_order(site: Site) -> None:
    declare(site)
    channel = transaction(site)
    for tag in take(site, channel)[::2]:
        channel.basic_reject(tag, requeue=True)
    channel.tx_commit()
    other = site.channel()
    wait_for(lambda: site.ready(other, "q") == COUNT // 2, 30)
    assert site.take(other, "q") == [(body, True) for body in BODIES[::2]]


def test_settling_many_single_deliveries_means_those_until_then(site: Site) -> None:
    """More deliveries than are settled in one step, some acknowledged, new ones arriving."""
    declare(site)
    channel = transaction(site)
    publish(channel)
    channel.tx_commit()
    holder = site.channel()
    tags = [one[0].delivery_tag for one in site.hold(holder, "q", COUNT)]
    for tag in tags[::2]:
        holder.basic_ack(tag)
    holder.basic_nack(0, multiple=True, requeue=True)
    assert site.take(holder, "q") == [(body, True) for body in BODIES[1::2]]
