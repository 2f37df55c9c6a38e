"""Many publishes in one write: each message keeps its own fate, whatever its neighbours are."""

from typing import Any

import pytest

from headrace.testing import wait_for
from support.amqp_codec import METHOD, frame, method_payload, plain
from support.amqp_types import Namer, RawChannel, RawConnect
from support.raw_amqp import ChannelClosed, Method


def _burst(
    channel: RawChannel, queue: str, *bodies: str, properties: dict[str, Any] | None = None
) -> None:
    """All bodies to `queue` by a single write."""
    channel.client.send(
        b"".join(channel.publish_bytes("", queue, body.encode(), properties) for body in bodies)
    )


def _bodies(channel: RawChannel, queue: str) -> str:
    """The bodies of all ready messages, joined."""
    bodies = ""
    while (got := channel.get(queue)) is not None:
        bodies += got.body.decode()
    return bodies


def _read(channel: RawChannel, count: int) -> str:
    """The bodies of the next `count` deliveries, joined."""
    return "".join(channel.read().body.decode() for _ in range(count))


def _limited(channel: RawChannel, queue: str, **arguments: Any) -> str:  # noqa: ANN401
    table = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
    channel.call("queue.declare", queue=queue, arguments=table)
    return queue


@pytest.fixture
def holder(raw: RawConnect, queue: str) -> RawChannel:
    """A channel which holds the messages a to f, dealt to its consumer under tags 1 to 6."""
    channel = raw().open_channel()
    _burst(channel, queue, *"abcdef")
    channel.call("basic.consume", queue=queue, consumer_tag="mine")
    assert _read(channel, 6) == "abcdef"
    channel.call("basic.cancel", consumer_tag="mine")
    return channel


def _left(holder: RawChannel, raw_channel: RawChannel, queue: str, count: int) -> str:
    """What comes back when the holder's channel is closed."""
    holder.call("channel.close")

    def ready() -> int:
        return int(raw_channel.call("queue.declare", queue=queue, passive=True).message_count)

    wait_for(lambda: ready() == count)
    return _bodies(raw_channel, queue)


# -- settling parts of what was dealt together


@pytest.mark.parametrize(("tag", "left"), [(1, "bcdef"), (3, "def"), (5, "f"), (6, ""), (0, "")])
def test_multiple_acknowledgement_ends_at_its_tag(
    holder: RawChannel, raw_channel: RawChannel, queue: str, tag: int, left: str
) -> None:
    holder.send("basic.ack", delivery_tag=tag, multiple=True)

    assert _left(holder, raw_channel, queue, len(left)) == left


@pytest.mark.parametrize(("tag", "back"), [(1, "a"), (3, "abc"), (6, "abcdef"), (0, "abcdef")])
def test_multiple_requeue_ends_at_its_tag(
    holder: RawChannel, queue: str, tag: int, back: str
) -> None:
    holder.send("basic.nack", delivery_tag=tag, multiple=True, requeue=True)

    assert _bodies(holder, queue) == back


def test_single_acknowledgements_leave_the_neighbours(
    holder: RawChannel, raw_channel: RawChannel, queue: str
) -> None:
    for tag in (2, 5):
        holder.send("basic.ack", delivery_tag=tag)

    assert _left(holder, raw_channel, queue, 4) == "acdf"


def test_single_requeue_leaves_the_neighbours(holder: RawChannel, queue: str) -> None:
    for tag in (5, 2):
        holder.send("basic.nack", delivery_tag=tag, requeue=True)

    assert _bodies(holder, queue) == "be"


def test_multiple_after_singles_settles_the_gaps(
    holder: RawChannel, raw_channel: RawChannel, queue: str
) -> None:
    for tag in (2, 4):
        holder.send("basic.ack", delivery_tag=tag)
    holder.send("basic.ack", delivery_tag=5, multiple=True)

    assert _left(holder, raw_channel, queue, 1) == "f"


def test_tag_inside_a_settled_stretch_is_refused(holder: RawChannel) -> None:
    holder.send("basic.ack", delivery_tag=4, multiple=True)
    holder.send("basic.ack", delivery_tag=2)

    holder.expect_close(406)


def test_tag_right_after_the_last_is_refused(holder: RawChannel) -> None:
    holder.send("basic.ack", delivery_tag=7)

    holder.expect_close(406)


def test_discarded_middle_is_dead_lettered_alone(raw_channel: RawChannel, name: Namer) -> None:
    grave = _limited(raw_channel, name("grave"))
    queue = _limited(raw_channel, name(), dead_letter_exchange="", dead_letter_routing_key=grave)
    _burst(raw_channel, queue, *"abcdef")
    raw_channel.call("basic.consume", queue=queue, consumer_tag="mine")
    _read(raw_channel, 6)
    raw_channel.call("basic.cancel", consumer_tag="mine")
    for tag in (3, 5):
        raw_channel.send("basic.reject", delivery_tag=tag, requeue=False)

    letters = [raw_channel.get_soon(grave) for _ in range(2)]
    assert [letter.body for letter in letters] == [b"c", b"e"]
    assert all(plain(letter.content.headers["x-death"])[0]["count"] == 1 for letter in letters)


def test_redelivered_mark_is_on_what_was_dealt_only(
    raw: RawConnect, raw_channel: RawChannel, queue: str
) -> None:
    other = raw().open_channel()
    _burst(raw_channel, queue, *"abcdef")
    raw_channel.round_trip()
    other.call("basic.qos", prefetch_count=2)
    other.call("basic.consume", queue=queue)
    assert _read(other, 2) == "ab"
    other.call("channel.close")
    got: list[Method] = [raw_channel.get_soon(queue) for _ in range(6)]

    assert "".join(each.body.decode() for each in got) == "abcdef"
    assert [each.redelivered for each in got] == [True] * 2 + [False] * 4


# -- dealing


def test_consumers_are_served_in_turn(raw: RawConnect, queue: str) -> None:
    client = raw()
    channels = [client.open_channel(number) for number in (1, 2, 3)]
    for channel in channels:
        channel.call("basic.consume", queue=queue, no_ack=True)
    _burst(channels[0], queue, *"abcdefghi")

    assert [_read(channel, 3) for channel in channels] == ["adg", "beh", "cfi"]


def test_prefetch_cuts_a_burst(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.call("basic.qos", prefetch_count=3)
    raw_channel.call("basic.consume", queue=queue)
    _burst(raw_channel, queue, *"abcdefgh")
    assert _read(raw_channel, 3) == "abc"

    raw_channel.send("basic.ack", delivery_tag=2, multiple=True)
    assert _read(raw_channel, 2) == "de"
    raw_channel.send("basic.ack", delivery_tag=4)
    assert _read(raw_channel, 1) == "f"


def test_prefetches_of_different_size_are_filled_and_the_rest_waits(
    raw: RawConnect, raw_channel: RawChannel, queue: str
) -> None:
    small, large = raw().open_channel(), raw().open_channel()
    for channel, count in ((small, 1), (large, 4)):
        channel.call("basic.qos", prefetch_count=count)
        channel.call("basic.consume", queue=queue)
    _burst(raw_channel, queue, *"abcdefgh")

    assert sorted(_read(small, 1) + _read(large, 4)) == list("abcde")
    assert _bodies(raw_channel, queue) == "fgh"


def test_purge_and_get_see_single_messages(raw_channel: RawChannel, queue: str) -> None:
    _burst(raw_channel, queue, *"abcdef")

    first = raw_channel.get(queue)
    assert (first.body, first.message_count) == (b"a", 5)
    assert raw_channel.call("queue.purge", queue=queue).message_count == 5


# -- limits


def test_length_limit_cuts_a_burst(raw_channel: RawChannel, name: Namer) -> None:
    queue = _limited(raw_channel, name(), max_length=3)
    _burst(raw_channel, queue, *"abcdefgh")

    assert _bodies(raw_channel, queue) == "fgh"


def test_byte_limit_cuts_a_burst(raw_channel: RawChannel, name: Namer) -> None:
    queue = _limited(raw_channel, name(), max_length_bytes=5)
    _burst(raw_channel, queue, "aa", "bb", "cc", "d")

    assert _bodies(raw_channel, queue) == "bbccd"


def test_burst_beyond_the_limit_is_dead_lettered_in_order(
    raw_channel: RawChannel, name: Namer
) -> None:
    grave = _limited(raw_channel, name("grave"))
    queue = _limited(
        raw_channel, name(), max_length=2, dead_letter_exchange="", dead_letter_routing_key=grave
    )
    _burst(raw_channel, queue, *"abcdef")

    assert "".join(raw_channel.get_soon(grave).body.decode() for _ in range(4)) == "abcd"


def test_refused_part_of_a_burst_is_nacked(raw_channel: RawChannel, name: Namer) -> None:
    queue = _limited(raw_channel, name(), max_length=3, overflow="reject-publish")
    raw_channel.call("confirm.select")
    for body in "abc":
        raw_channel.publish("", queue, body.encode())
        assert raw_channel.read().name == "basic.ack"
    _burst(raw_channel, queue, *"defgh")

    refused: set[int] = set()
    while len(refused) < 5:
        nack = raw_channel.read()
        assert nack.name == "basic.nack"
        first = min({4, 5, 6, 7, 8} - refused) if nack.multiple else nack.delivery_tag
        refused |= set(range(first, nack.delivery_tag + 1))
    assert refused == {4, 5, 6, 7, 8}
    assert _bodies(raw_channel, queue) == "abc"


def test_expired_burst_is_dead_lettered_whole(raw_channel: RawChannel, name: Namer) -> None:
    grave = _limited(raw_channel, name("grave"))
    queue = _limited(raw_channel, name(), dead_letter_exchange="", dead_letter_routing_key=grave)
    _burst(raw_channel, queue, *"abcdef", properties={"expiration": "50"})

    assert "".join(raw_channel.get_soon(grave).body.decode() for _ in range(6)) == "abcdef"


# -- odd ones among the publishes


def test_routing_keys_may_alternate(raw_channel: RawChannel, name: Namer) -> None:
    one, other = _limited(raw_channel, name()), _limited(raw_channel, name())
    raw_channel.client.send(
        b"".join(
            raw_channel.publish_bytes("", one if body in "aeiou" else other, body.encode())
            for body in "abcdefghi"
        )
    )

    assert _bodies(raw_channel, one) == "aei"
    assert _bodies(raw_channel, other) == "bcdfgh"


def test_cc_of_one_message_does_not_reach_its_neighbours(
    raw_channel: RawChannel, queue: str, name: Namer
) -> None:
    copies = _limited(raw_channel, name())
    odd = {"headers": {"CC": [copies]}}
    raw_channel.client.send(
        b"".join(
            raw_channel.publish_bytes(
                "", queue, body.encode(), odd if body == "c" else {"headers": {"own": 1}}
            )
            for body in "abcde"
        )
    )

    assert _bodies(raw_channel, copies) == "c"
    assert _bodies(raw_channel, queue) == "abcde"


def test_expiration_of_one_message_does_not_touch_its_neighbours(
    raw_channel: RawChannel, name: Namer
) -> None:
    grave = _limited(raw_channel, name("grave"))
    queue = _limited(raw_channel, name(), dead_letter_exchange="", dead_letter_routing_key=grave)
    raw_channel.client.send(
        raw_channel.publish_bytes("", queue, b"a", {"expiration": "30"})
        + raw_channel.publish_bytes("", queue, b"b", {"expiration": "60000"})
        + raw_channel.publish_bytes("", queue, b"c", {"expiration": "30"})
    )

    assert raw_channel.get_soon(grave).body == b"a"
    assert raw_channel.get(queue).body == b"b"
    assert raw_channel.get_soon(grave).body == b"c"


def test_priorities_of_a_burst_are_sorted(raw_channel: RawChannel, name: Namer) -> None:
    queue = _limited(raw_channel, name(), max_priority=9)
    raw_channel.client.send(
        b"".join(
            raw_channel.publish_bytes("", queue, digit.encode(), {"priority": int(digit)})
            for digit in "315924"
        )
    )

    assert _bodies(raw_channel, queue) == "954321"


def test_refusal_in_the_middle_keeps_what_came_before(
    raw_channel: RawChannel, raw: RawConnect, queue: str
) -> None:
    raw_channel.client.send(
        raw_channel.publish_bytes("", queue, b"a")
        + raw_channel.publish_bytes("", queue, b"b")
        + raw_channel.publish_bytes("", queue, b"refused", {"delivery_mode": 7})
        + raw_channel.publish_bytes("", queue, b"ignored")
    )
    raw_channel.expect_close(406)

    assert _bodies(raw().open_channel(), queue) == "ab"


def test_missing_exchange_in_the_middle_keeps_what_came_before(
    raw_channel: RawChannel, raw: RawConnect, queue: str, name: Namer
) -> None:
    raw_channel.client.send(
        raw_channel.publish_bytes("", queue, b"a")
        + raw_channel.publish_bytes(name("missing"), queue, b"refused")
        + raw_channel.publish_bytes("", queue, b"ignored")
    )
    with pytest.raises(ChannelClosed):
        raw_channel.read()

    assert _bodies(raw().open_channel(), queue) == "a"


def test_returns_and_confirms_of_a_mixed_burst_match(
    raw_channel: RawChannel, queue: str, name: Namer
) -> None:
    nobody = name()
    raw_channel.call("confirm.select")
    raw_channel.client.send(
        b"".join(
            raw_channel.publish_bytes(
                "", nobody if number % 3 == 0 else queue, b"%d" % number, mandatory=True
            )
            for number in range(1, 10)
        )
    )

    returned: list[int] = []
    confirmed: set[int] = set()
    while len(confirmed) < 9:
        method = raw_channel.read()
        if method.name == "basic.return":
            returned.append(int(method.body))
            continue
        first = 1 if method.multiple else method.delivery_tag
        confirmed |= set(range(first, method.delivery_tag + 1))
        # No message is confirmed before it was returned.
        assert {n for n in confirmed if n % 3 == 0} <= set(returned)
    assert returned == [3, 6, 9]


def test_queue_deleted_within_a_burst_loses_only_what_it_had(
    raw_channel: RawChannel, name: Namer
) -> None:
    queue = _limited(raw_channel, name())
    raw_channel.publish("", queue, b"a")
    raw_channel.send("queue.delete", queue=queue)
    raw_channel.publish("", queue, b"lost")
    raw_channel.send("queue.declare", queue=queue)
    raw_channel.publish("", queue, b"kept")

    assert raw_channel.read().name == "queue.delete-ok"
    assert raw_channel.read().message_count == 0
    assert _bodies(raw_channel, queue) == "kept"


def test_binding_made_within_a_burst_counts_from_then_on(
    raw_channel: RawChannel, queue: str
) -> None:
    raw_channel.publish("amq.direct", queue, b"early")
    raw_channel.send("queue.bind", queue=queue, exchange="amq.direct", routing_key=queue)
    raw_channel.publish("amq.direct", queue, b"bound")
    raw_channel.send("queue.unbind", queue=queue, exchange="amq.direct", routing_key=queue)
    raw_channel.publish("amq.direct", queue, b"late")

    assert raw_channel.read().name == "queue.bind-ok"
    assert raw_channel.read().name == "queue.unbind-ok"
    assert _bodies(raw_channel, queue) == "bound"


def test_burst_in_a_transaction_is_rolled_back_whole(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.call("tx.select")
    _burst(raw_channel, queue, *"abc")
    raw_channel.call("tx.rollback")
    _burst(raw_channel, queue, *"def")
    raw_channel.call("tx.commit")

    assert _bodies(raw_channel, queue) == "def"


def test_delivery_counts_of_a_burst_are_apart(raw_channel: RawChannel, name: Namer) -> None:
    queue = name("quorum")
    arguments = {"x-queue-type": "quorum"}
    raw_channel.call("queue.declare", queue=queue, durable=True, arguments=arguments)
    _burst(raw_channel, queue, *"abc")
    raw_channel.call("basic.consume", queue=queue)
    assert _read(raw_channel, 3) == "abc"
    raw_channel.send("basic.nack", delivery_tag=2, requeue=True)

    again = raw_channel.read()
    assert (again.body, plain(again.content.headers["x-delivery-count"])) == (b"b", 1)


def test_what_is_published_before_a_cancel_is_for_the_cancelled(
    raw_channel: RawChannel, queue: str
) -> None:
    raw_channel.call("basic.consume", queue=queue, consumer_tag="high", no_ack=True)
    burst = b"".join(raw_channel.publish_bytes("", queue, body) for body in (b"a", b"b"))
    cancel = method_payload("basic.cancel", consumer_tag="high")
    raw_channel.client.send(burst + frame(METHOD, raw_channel.number, cancel))

    assert [raw_channel.read().name for _ in range(3)] == [
        "basic.deliver",
        "basic.deliver",
        "basic.cancel-ok",
    ]


def test_what_is_published_before_a_consume_is_for_those_before(
    raw_channel: RawChannel, queue: str
) -> None:
    raw_channel.call("basic.consume", queue=queue, consumer_tag="old", no_ack=True)
    burst = b"".join(raw_channel.publish_bytes("", queue, body) for body in (b"a", b"b"))
    consume = method_payload("basic.consume", queue=queue, consumer_tag="new", no_ack=True)
    raw_channel.client.send(burst + frame(METHOD, raw_channel.number, consume))

    told = [raw_channel.read() for _ in range(3)]
    tags = [one.consumer_tag for one in told if one.name == "basic.deliver"]
    assert tags == ["old", "old"]
