"""Time limits: of messages by queue or by themselves, and of queues which nobody uses."""

import time

import pytest

from headrace.testing import wait_for
from support.amqp_observer import Inbox, exists, publish_all, ready, take_all, take_soon
from support.amqp_types import Channel, Connection, Namer, RawChannel


@pytest.fixture
def short_lived(channel: Channel, name: Namer) -> str:
    """A queue which keeps its messages for 80 ms."""
    queue = name()
    channel.queue_declare(queue, arguments={"x-message-ttl": 80})
    return queue


def test_message_expires_by_the_queue_s_limit(channel: Channel, short_lived: str) -> None:
    publish_all(channel, short_lived, "x")

    wait_for(lambda: ready(channel, short_lived) == 0)


def test_message_expires_by_its_own_limit(channel: Channel, queue: str) -> None:
    publish_all(channel, queue, "x", expiration="80")

    wait_for(lambda: ready(channel, queue) == 0)


def test_the_smaller_limit_holds_when_it_is_the_message_s(channel: Channel, name: Namer) -> None:
    queue = name()
    channel.queue_declare(queue, arguments={"x-message-ttl": 60000})
    publish_all(channel, queue, "x", expiration="50")

    wait_for(lambda: ready(channel, queue) == 0)


def test_the_smaller_limit_holds_when_it_is_the_queue_s(channel: Channel, short_lived: str) -> None:
    publish_all(channel, short_lived, "x", expiration="60000")

    wait_for(lambda: ready(channel, short_lived) == 0)


def test_message_expires_only_at_the_head_of_the_queue(
    channel: Channel, queue: str, name: Namer
) -> None:
    publish_all(channel, queue, "lasting")
    publish_all(channel, queue, "brief", expiration="50")

    _let_pass(channel, name, "100")
    assert ready(channel, queue) == 2
    assert take_all(channel, queue) == [b"lasting"]


def test_unacknowledged_message_does_not_expire(
    channel: Channel, short_lived: str, name: Namer
) -> None:
    publish_all(channel, short_lived, "held")
    method, _, _ = channel.basic_get(short_lived)
    _let_pass(channel, name, "150")

    channel.basic_ack(method.delivery_tag)
    channel.queue_declare(short_lived, passive=True)


def test_requeued_message_whose_time_is_over_expires(
    channel: Channel, short_lived: str, name: Namer
) -> None:
    publish_all(channel, short_lived, "held")
    method, _, _ = channel.basic_get(short_lived)
    _let_pass(channel, name, "150")

    channel.basic_nack(method.delivery_tag)
    wait_for(lambda: ready(channel, short_lived) == 0)


@pytest.mark.parametrize("where", ["queue", "message"])
def test_limit_zero_without_a_ready_consumer_drops_at_once(
    channel: Channel, name: Namer, where: str
) -> None:
    queue = name()
    channel.queue_declare(queue, arguments={"x-message-ttl": 0} if where == "queue" else None)
    properties = {"expiration": "0"} if where == "message" else {}

    publish_all(channel, queue, "x", **properties)
    wait_for(lambda: ready(channel, queue) == 0)
    assert take_all(channel, queue) == []


@pytest.mark.parametrize("where", ["queue", "message"])
def test_limit_zero_with_a_ready_consumer_delivers(
    channel: Channel, name: Namer, where: str
) -> None:
    queue = name()
    channel.queue_declare(queue, arguments={"x-message-ttl": 0} if where == "queue" else None)
    properties = {"expiration": "0"} if where == "message" else {}
    inbox = Inbox(channel, queue)

    publish_all(channel, queue, "x", **properties)
    assert inbox.wait(1) == ["x"]


def test_expiration_is_delivered_with_the_message(channel: Channel, queue: str) -> None:
    publish_all(channel, queue, "x", expiration="60000")

    assert take_soon(channel, queue)[1].expiration == "60000"


@pytest.mark.parametrize(
    "expiration", ["abc", "-1", "1.5", " 1", "", "99999999999999999999"], ids=repr
)
def test_expiration_which_is_no_duration_is_refused(
    raw_channel: RawChannel, queue: str, expiration: str
) -> None:
    raw_channel.publish("", queue, b"x", {"expiration": expiration})

    raw_channel.expect_close(406)


def test_unused_queue_expires(raw_channel: RawChannel, name: Namer) -> None:
    queue = name()
    raw_channel.call("queue.declare", queue=queue, arguments={"x-expires": 80})
    raw_channel.call("confirm.select")

    wait_for(lambda: not _can_be_reached(raw_channel, queue))


def test_queue_with_a_consumer_does_not_expire(
    channel: Channel, connection: Connection, name: Namer
) -> None:
    queue = name()
    channel.queue_declare(queue, arguments={"x-expires": 80})
    Inbox(channel, queue)

    _let_pass(channel, name, "250")
    assert exists(connection, queue)


def test_queue_expires_after_its_consumer_went(
    channel: Channel, raw_channel: RawChannel, name: Namer
) -> None:
    queue = name()
    channel.queue_declare(queue, arguments={"x-expires": 80})
    inbox = Inbox(channel, queue)
    channel.basic_cancel(inbox.tag)
    raw_channel.call("confirm.select")

    wait_for(lambda: not _can_be_reached(raw_channel, queue))


@pytest.mark.parametrize("use", ["get", "declare", "passive"])
def test_queue_in_use_does_not_expire(channel: Channel, name: Namer, use: str) -> None:
    queue = name()
    arguments = {"x-expires": 200}
    channel.queue_declare(queue, arguments=arguments)
    uses = {
        "get": lambda: channel.basic_get(queue),
        "declare": lambda: channel.queue_declare(queue, arguments=arguments),
        "passive": lambda: channel.queue_declare(queue, passive=True),
    }

    ends = time.monotonic() + 0.6
    wait_for(lambda: uses[use]() and time.monotonic() > ends)


@pytest.mark.parametrize("consumers", [1, 2])
def test_message_that_expired_behind_a_living_one_is_not_delivered(
    channel: Channel, name: Namer, queue: str, consumers: int
) -> None:
    publish_all(channel, queue, "long", expiration="60000")
    publish_all(channel, queue, "short", expiration="50")
    publish_all(channel, queue, "also long", expiration="60000")
    _let_pass(channel, name, "100")

    inboxes = [Inbox(channel, queue) for _ in range(consumers)]

    wait_for(lambda: ready(channel, queue) == 0)
    given = sorted(body for inbox in inboxes for body in inbox.settled())
    assert given == ["also long", "long"]


def _can_be_reached(channel: RawChannel, queue: str) -> bool:
    """Whether the queue is there; a mandatory publish does not count as a use of it."""
    channel.publish("", queue, b"", mandatory=True)
    if channel.read().name == "basic.ack":
        return True
    assert channel.read().name == "basic.ack"
    return False


def _let_pass(channel: Channel, name: Namer, milliseconds: str) -> None:
    """Waits by the broker's own clock: until a message with that limit has died into `chime`."""
    clock, chime = name("clock"), name("chime")
    channel.queue_declare(chime)
    channel.queue_declare(
        clock, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": chime}
    )
    publish_all(channel, clock, "tick", expiration=milliseconds)
    take_soon(channel, chime)
