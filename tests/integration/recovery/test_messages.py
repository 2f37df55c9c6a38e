"""What was published, after a restart: which messages are there, in which order, how marked."""

from __future__ import annotations

import time

import pika
import pytest

from headrace.testing import wait_for
from support.recovery_site import Site


def test_persistent_messages_survive_and_transient_ones_do_not(site: Site) -> None:
    channel = site.channel()
    channel.queue_declare("q", durable=True)
    site.publish(channel, "q", "1")
    site.publish(channel, "q", "2", delivery_mode=1)
    site.publish(channel, "q", "3")

    site.restart()

    assert site.take(site.channel(), "q") == [("1", False), ("3", False)]


def test_properties_survive(site: Site) -> None:
    channel = site.channel()
    channel.queue_declare("q", durable=True)
    headers = {"a": 1, "b": {"c": [True, None, "d"]}}
    site.publish(channel, "q", "body", headers=headers, message_id="m", content_type="text/plain")

    site.crash()

    method, properties, body = site.channel().basic_get("q")
    assert method is not None
    assert (body, properties.headers, properties.message_id) == (b"body", headers, "m")
    assert properties.content_type == "text/plain"


def test_a_large_message_survives(site: Site) -> None:
    channel = site.channel()
    channel.queue_declare("q", durable=True)
    text = "0123456789" * 300_000
    site.publish(channel, "q", text)

    site.crash()

    assert site.bodies("q") == [text]


def test_after_a_clean_stop_only_what_was_delivered_is_marked(site: Site) -> None:
    channel = site.channel()
    channel.queue_declare("q", durable=True)
    site.publish(channel, "q", "1", "2", "3", "4")
    site.hold(channel, "q", 2)

    site.stop(in_talks=True)
    site.node.start()

    taken = site.take(site.channel(), "q")
    assert taken == [("1", True), ("2", True), ("3", False), ("4", False)]


def test_after_a_crash_everything_is_marked(site: Site) -> None:
    channel = site.channel()
    channel.queue_declare("q", durable=True)
    site.publish(channel, "q", "1", "2")

    site.crash()

    assert site.take(site.channel(), "q") == [("1", True), ("2", True)]


def test_after_a_crash_marks_stay_through_a_clean_stop(site: Site) -> None:
    channel = site.channel()
    channel.queue_declare("q", durable=True)
    site.publish(channel, "q", "1", "2")
    site.hold(channel, "q", 1)
    site.crash()
    channel = site.channel()
    site.publish(channel, "q", "3")

    site.restart()

    assert site.take(site.channel(), "q") == [("1", True), ("2", True), ("3", False)]


def test_what_was_acknowledged_does_not_come_back(site: Site) -> None:
    channel = site.channel()
    channel.queue_declare("q", durable=True)
    site.publish(channel, "q", *map(str, range(10)))
    for taken in site.hold(channel, "q", 10):
        if int(taken[2]) % 2:
            channel.basic_ack(taken[0].delivery_tag)
    site.publish(channel, "q", "last")  # confirmed, so what came before it is written

    site.crash()

    assert site.bodies("q") == ["0", "2", "4", "6", "8", "last"]


def test_requeued_messages_return_to_their_place(site: Site) -> None:
    channel = site.channel()
    channel.queue_declare("q", durable=True)
    site.publish(channel, "q", "1", "2", "3")
    first, _ = site.hold(channel, "q", 2)
    channel.basic_nack(first[0].delivery_tag, requeue=True)

    site.restart()

    assert site.take(site.channel(), "q") == [("1", True), ("2", True), ("3", False)]


@pytest.mark.parametrize("end", ["restart", "crash"])
def test_priorities_are_kept(site: Site, end: str) -> None:
    channel = site.channel()
    channel.queue_declare("q", durable=True, arguments={"x-max-priority": 5})
    for number, priority in enumerate((1, 5, 1, 3, 5)):
        site.publish(channel, "q", f"{priority}.{number}", priority=priority)

    getattr(site, end)()

    assert site.bodies("q") == ["5.1", "5.4", "3.3", "1.0", "1.2"]


def test_time_to_live_goes_on_while_the_broker_is_down(site: Site) -> None:
    channel = site.channel()
    channel.queue_declare("dead", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("q", durable=True, arguments=arguments)
    site.publish(channel, "q", "brief", expiration="400")
    site.publish(channel, "q", "long", expiration="60000")
    sent = time.monotonic()
    site.stop()
    wait_for(lambda: time.monotonic() > sent + 0.5)

    site.node.start()

    channel = site.channel()
    assert [body for body, _ in site.take_soon("dead")] == ["brief"]
    assert site.ready(channel, "q") == 1


def test_the_time_to_live_does_not_restart(site: Site) -> None:
    channel = site.channel()
    channel.queue_declare("dead", durable=True)
    buried = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("q", durable=True, arguments={"x-message-ttl": 3000, **buried})
    site.publish(channel, "q", "x")
    sent = time.monotonic()
    wait_for(lambda: time.monotonic() > sent + 2.4)

    site.crash()

    channel = site.channel()
    assert site.ready(channel, "q") == 1 or time.monotonic() > sent + 2.9
    # Less than a second is left for x. Had it begun anew, y would be the first to go.
    channel.queue_declare("later", durable=True, arguments={"x-message-ttl": 1000, **buried})
    site.publish(channel, "later", "y")
    wait_for(lambda: site.ready(channel, "dead") == 2)
    assert site.bodies("dead") == ["x", "y"]


def test_dead_letter_settings_survive(site: Site) -> None:
    channel = site.channel()
    channel.queue_declare("dead", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("q", durable=True, arguments=arguments)
    site.publish(channel, "q", "x")
    site.crash()

    channel = site.channel()
    channel.basic_reject(site.hold(channel, "q", 1)[0][0].delivery_tag, requeue=False)

    _, properties, body = wait_for(
        lambda: (got := channel.basic_get("dead"))[0] is not None and got
    )
    assert body == b"x"
    assert properties.headers["x-death"][0]["reason"] == "rejected"
    channel.queue_declare("other", durable=True)
    site.publish(channel, "other", "behind it")  # confirmed, so what came before it is written
    site.crash()
    _, properties, _ = site.channel().basic_get("dead")
    assert properties.headers["x-death"][0]["queue"] == "q"


def test_delivery_counts_of_a_quorum_queue_survive_a_clean_stop(site: Site) -> None:
    channel = site.channel()
    arguments = {"x-queue-type": "quorum", "x-delivery-limit": 3}
    channel.queue_declare("q", durable=True, arguments=arguments)
    site.publish(channel, "q", "x")
    for _ in range(2):
        channel.basic_nack(site.hold(channel, "q", 1)[0][0].delivery_tag, requeue=True)

    site.restart()

    channel = site.channel()
    method, properties, _ = site.hold(channel, "q", 1)[0]
    assert properties.headers["x-delivery-count"] == 2
    channel.basic_nack(method.delivery_tag, requeue=True)
    method, properties, _ = site.hold(channel, "q", 1)[0]
    channel.basic_nack(method.delivery_tag, requeue=True)
    assert site.ready(channel, "q") == 0


def test_a_purge_survives_a_crash(site: Site) -> None:
    channel = site.channel()
    channel.queue_declare("q", durable=True)
    site.publish(channel, "q", *map(str, range(100)))
    assert channel.queue_purge("q").method.message_count == 100
    site.publish(channel, "q", "after")

    site.crash()

    assert site.bodies("q") == ["after"]


def test_a_purge_is_on_disk_when_it_is_answered(site: Site) -> None:
    channel = site.channel()
    channel.queue_declare("q", durable=True)
    for _ in range(5):
        site.publish(channel, "q", *map(str, range(20)))
        channel.queue_purge("q")

        site.crash()

        channel = site.channel()
        assert site.ready(channel, "q") == 0


def test_a_fan_out_is_stored_once_and_comes_back_everywhere(site: Site) -> None:
    channel = site.channel()
    for name in "abc":
        channel.queue_declare(name, durable=True)
        channel.queue_bind(name, "amq.fanout")
    properties = pika.BasicProperties(delivery_mode=2)
    channel.basic_publish("amq.fanout", "", b"x", properties)
    assert site.take(channel, "a") == [("x", False)]
    channel.basic_publish("amq.fanout", "", b"y", properties)

    site.crash()

    assert [site.bodies(name) for name in "abc"] == [["y"], ["x", "y"], ["x", "y"]]


def test_many_restarts_change_nothing(site: Site) -> None:
    channel = site.channel()
    channel.queue_declare("q", durable=True)
    expected = []
    for number in range(4):
        channel = site.channel()
        expected.append(str(number))
        site.publish(channel, "q", str(number))
        (site.crash if number % 2 else site.restart)()

    assert site.bodies("q") == expected
    channel = site.channel()
    channel.queue_declare("other", durable=True)
    site.publish(channel, "other", "x")  # confirmed, so everything before it is on disk as well
    site.crash()
    assert site.bodies("q") == []


@pytest.mark.parametrize("way", ["restart", "crash"])
def test_delayed_messages_go_on_waiting(site: Site, way: str) -> None:
    channel = site.channel()
    channel.exchange_declare(
        "later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"}
    )
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "later", "k")
    channel.confirm_delivery()
    for body, delay in ((b"second", 1500), (b"first", 1)):
        properties = pika.BasicProperties(delivery_mode=2, headers={"x-delay": delay})
        channel.basic_publish("later", "k", body, properties)

    getattr(site, way)()

    channel = site.channel()
    wait_for(lambda: channel.queue_declare("q", passive=True).method.message_count == 2)
    assert site.bodies("q") == ["first", "second"]


def test_overdue_delayed_messages_come_in_the_order_they_were_due(site: Site) -> None:
    channel = site.channel()
    channel.exchange_declare(
        "later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"}
    )
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "later")
    for body, delay in ((b"second", 800), (b"first", 400)):
        properties = pika.BasicProperties(delivery_mode=2, headers={"x-delay": delay})
        channel.basic_publish("later", "", body, properties)
    sent = time.monotonic()
    site.node.kill()
    site.hang_up()
    wait_for(lambda: time.monotonic() > sent + 0.9)

    site.node.start()

    channel = site.channel()
    wait_for(lambda: site.ready(channel, "q") == 2)
    assert site.bodies("q") == ["first", "second"]


def test_a_delayed_message_is_delivered_once_over_two_crashes(site: Site) -> None:
    channel = site.channel()
    channel.exchange_declare(
        "later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"}
    )
    for queue in ("a", "b"):
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, "later")
    channel.confirm_delivery()
    properties = pika.BasicProperties(delivery_mode=2, headers={"x-delay": 100})
    channel.basic_publish("later", "", b"once", properties)
    wait_for(lambda: channel.queue_declare("a", passive=True).method.message_count == 1)
    channel.queue_declare("other", durable=True)
    site.publish(channel, "other", "x")  # confirmed, so the release is on disk as well

    site.crash()
    site.crash()

    assert (site.bodies("a"), site.bodies("b")) == (["once"], ["once"])
