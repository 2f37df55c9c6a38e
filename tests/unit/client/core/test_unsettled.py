"""What is delivered and settled: few requests, nobody else's message, nothing twice."""

from __future__ import annotations

import pytest

from headrace.client.core.unsettled import Delivery, UnsettledDeliveries
from headrace.client.errors import AlreadySettled
from support.fake_client import row


def ledger_with(*tags: int) -> tuple[UnsettledDeliveries, list[Delivery], list[bool]]:
    notes: list[bool] = []
    unsettled = UnsettledDeliveries(notes.append, lambda *_: None)
    return unsettled, delivered(unsettled, *tags), notes


def delivered(unsettled: UnsettledDeliveries, *tags: int) -> list[Delivery]:
    batch = unsettled.register([row(tag) for tag in tags])
    return [Delivery(unsettled, tag, "c", one) for tag, one in batch.items()]


def sent(unsettled: UnsettledDeliveries) -> list[tuple[int, bool, bool | None]]:
    return [(one.tag, one.multiple, one.requeue) for one in unsettled.take_settlements()]


def test_acks_of_everything_so_far_become_one_request() -> None:
    unsettled, deliveries, _ = ledger_with(1, 2, 3, 4)
    for one in deliveries[:3]:
        one.ack()

    assert sent(unsettled) == [(3, True, None)]
    assert sent(unsettled) == []


def test_an_ack_behind_an_unsettled_message_goes_alone() -> None:
    unsettled, deliveries, _ = ledger_with(1, 2, 3, 4)
    deliveries[2].ack()
    deliveries[0].ack()
    deliveries[3].ack()

    assert sent(unsettled) == [(1, False, None), (3, False, None), (4, False, None)]


def test_nacks_are_sent_before_an_ack_that_would_cover_them() -> None:
    unsettled, deliveries, _ = ledger_with(1, 2, 3)
    deliveries[0].ack()
    deliveries[2].ack()
    deliveries[1].nack(requeue=False)

    assert sent(unsettled) == [(2, False, False), (3, True, None)]


def test_only_the_first_of_many_settlements_rings() -> None:
    unsettled, deliveries, notes = ledger_with(1, 2, 3)
    for one in deliveries:
        one.ack()
    assert len(notes) == 1

    sent(unsettled)
    delivered(unsettled, 4)[0].ack()
    assert len(notes) == 2


def test_many_acks_are_urgent_before_the_prefetch_is_used_up() -> None:
    unsettled, deliveries, notes = ledger_with(*range(1, 9))
    unsettled.expect(12)
    for one in deliveries[:3]:
        one.ack()

    assert notes == [False, True]


def test_settling_twice_raises() -> None:
    unsettled, (delivery,), _ = ledger_with(1)
    delivery.ack()

    with pytest.raises(AlreadySettled):
        delivery.nack()
    assert sent(unsettled) == [(1, False, None)]


def test_a_settlement_from_a_lost_connection_is_ignored() -> None:
    unsettled, (old,), _ = ledger_with(1)
    unsettled.reset()
    (new,) = delivered(unsettled, 1)

    old.ack()
    assert sent(unsettled) == []
    assert not new.is_settled
    new.ack()
    assert sent(unsettled) == [(1, False, None)]


def test_tags_go_on_over_connections() -> None:
    unsettled, _, _ = ledger_with(1, 2)
    unsettled.reset()
    (new,) = delivered(unsettled, 1)

    assert new.tag == 3
    assert unsettled.wire_tag(new.tag) == 1
    assert unsettled.is_stale(2)


def test_messages_are_found_by_queue_and_id() -> None:
    unsettled, (first, _), _ = ledger_with(1, 2)
    assert unsettled.find("q", "M-1") == 1
    assert unsettled.find("other", "M-1") is None

    first.ack()
    delivered(unsettled, 3)
    assert unsettled.find("q", "M-1") is None
    assert unsettled.find("q", "M-3") == 3


def test_the_message_of_the_moment_is_found_only_by_its_own_name() -> None:
    unsettled, (_, second), _ = ledger_with(1, 2)
    unsettled.current = 2
    assert unsettled.find("q", "M-2") == 2
    assert unsettled.find("q", "M-1") == 1
    assert unsettled.find("other", "M-2") is None

    second.ack()
    assert unsettled.find("q", "M-2") is None
    unsettled.reset()
    assert unsettled.find("q", "M-2") is None


def test_unsettled_messages_are_requeued() -> None:
    unsettled, deliveries, _ = ledger_with(1, 2)
    deliveries[0].ack()
    unsettled.requeue([one.tag for one in deliveries])

    assert sent(unsettled) == [(2, False, True), (1, False, None)]


def test_claimed_messages_are_not_sent_again() -> None:
    unsettled, deliveries, _ = ledger_with(1, 2, 3)
    unsettled.claim(2, multiple=True)

    assert [one.is_settled for one in deliveries] == [True, True, False]
    assert sent(unsettled) == []


def test_properties_of_a_delivery_have_its_origin() -> None:
    _, (delivery,), _ = ledger_with(7)

    properties = delivery.properties
    assert (properties.message_id, properties.routing_key, properties.delivery_mode) == (
        "M-7",
        "q",
        1,
    )
    assert (properties.queue, properties.exchange, properties.delivery_tag) == ("q", "", 7)


def test_what_the_broker_forgot_is_settled_without_telling_it() -> None:
    unsettled, (first, third), _ = ledger_with(1, 3)
    unsettled.register([row(2)], untracked=True)
    unsettled.ack(2)
    assert sent(unsettled) == []
    with pytest.raises(AlreadySettled):
        unsettled.ack(2)

    unsettled.register([row(4)], untracked=True)
    unsettled.requeue([4])
    first.ack()
    third.ack()
    assert sent(unsettled) == [(3, True, None)]
