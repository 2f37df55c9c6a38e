"""Arguments of queue.declare: which are accepted, which refused, and how they are compared."""

from typing import Any

import pytest

from support.amqp_codec import Typed
from support.amqp_types import Namer, RawChannel
from support.raw_amqp import ChannelClosed

REFUSED = [
    {"x-message-ttl": -1},
    {"x-message-ttl": "100"},
    {"x-expires": 0},
    {"x-expires": -1},
    {"x-expires": "100"},
    {"x-max-length": -1},
    {"x-max-length": "1"},
    {"x-max-length-bytes": -1},
    {"x-max-length-bytes": "1"},
    {"x-overflow": "no-such-way"},
    {"x-overflow": 1},
    {"x-dead-letter-exchange": 1},
    {"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": 1},
    {"x-dead-letter-routing-key": "key-without-exchange"},
    {"x-max-priority": 256},
    {"x-max-priority": -1},
    {"x-max-priority": "10"},
    {"x-queue-type": "no-such-type"},
    {"x-queue-mode": "no-such-mode"},
    {"x-single-active-consumer": "true"},
    {"x-single-active-consumer": 1},
]

ACCEPTED = [
    {"x-message-ttl": 0},
    {"x-message-ttl": Typed("l", 60000)},
    {"x-message-ttl": Typed("s", 30000)},
    {"x-expires": 60000},
    {"x-max-length": 0},
    {"x-max-length-bytes": 0},
    {"x-overflow": "drop-head"},
    {"x-overflow": "reject-publish"},
    {"x-overflow": "reject-publish-dlx"},
    {"x-dead-letter-exchange": "no-such-exchange"},
    {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "somewhere"},
    {"x-max-priority": 0},
    {"x-max-priority": 255},
    {"x-queue-type": "classic"},
    {"x-queue-mode": "default"},
    {"x-queue-mode": "lazy"},
    {"x-single-active-consumer": True},
    {"x-single-active-consumer": False},
    {"x-queue-master-locator": "min-masters"},
    {"x-queue-version": 1},
    {"x-made-up": "anything"},
]

# Declared with the first, declared again with the second.
DIFFERENT = [
    ({"x-message-ttl": 1000}, {"x-message-ttl": 1000.0}),
    ({"x-message-ttl": 1000}, {"x-message-ttl": 1001}),
    ({"x-message-ttl": 1000}, {}),
    ({}, {"x-message-ttl": 1000}),
    ({"x-expires": 60000}, {"x-expires": 60001}),
    ({"x-max-length": 1}, {"x-max-length": 2}),
    ({"x-max-length-bytes": 1}, {"x-max-length-bytes": 2}),
    ({"x-dead-letter-exchange": "a"}, {"x-dead-letter-exchange": "b"}),
    ({"x-max-priority": 1}, {"x-max-priority": 2}),
    ({"x-single-active-consumer": True}, {}),
    ({"x-overflow": "drop-head"}, {"x-overflow": "reject-publish"}),
    (
        {"x-dead-letter-exchange": "a", "x-dead-letter-routing-key": "k"},
        {"x-dead-letter-exchange": "a"},
    ),
]

EQUIVALENT = [
    ({"x-message-ttl": Typed("I", 1000)}, {"x-message-ttl": Typed("l", 1000)}),
    ({"x-message-ttl": Typed("I", 1000)}, {"x-message-ttl": Typed("s", 1000)}),
    ({"x-max-length": Typed("B", 9)}, {"x-max-length": Typed("I", 9)}),
    ({"x-made-up": 1}, {"x-made-up": 2}),
    ({"x-made-up": 1}, {}),
    ({"x-queue-type": "classic"}, {}),
    ({}, {"x-queue-type": "classic"}),
]


@pytest.mark.parametrize("arguments", REFUSED, ids=str)
def test_wrong_argument_is_refused(
    raw_channel: RawChannel, name: Namer, arguments: dict[str, Any]
) -> None:
    with pytest.raises(ChannelClosed) as caught:
        raw_channel.call("queue.declare", queue=name(), arguments=arguments)
    assert caught.value.code == 406


@pytest.mark.parametrize("arguments", ACCEPTED, ids=str)
def test_right_argument_is_accepted(
    raw_channel: RawChannel, name: Namer, arguments: dict[str, Any]
) -> None:
    queue = name()

    answer = raw_channel.call("queue.declare", queue=queue, arguments=arguments)
    assert answer.queue == queue


@pytest.mark.parametrize(("first", "second"), DIFFERENT, ids=str)
def test_other_argument_on_an_existing_queue_is_refused(
    raw_channel: RawChannel, name: Namer, first: dict[str, Any], second: dict[str, Any]
) -> None:
    queue = name()
    raw_channel.call("queue.declare", queue=queue, arguments=first)

    with pytest.raises(ChannelClosed) as caught:
        raw_channel.call("queue.declare", queue=queue, arguments=second)
    assert caught.value.code == 406


@pytest.mark.parametrize(("first", "second"), EQUIVALENT, ids=str)
def test_equivalent_argument_on_an_existing_queue_is_accepted(
    raw_channel: RawChannel, name: Namer, first: dict[str, Any], second: dict[str, Any]
) -> None:
    queue = name()
    raw_channel.call("queue.declare", queue=queue, arguments=first)

    answer = raw_channel.call("queue.declare", queue=queue, arguments=second)
    assert answer.name == "queue.declare-ok"


@pytest.mark.parametrize(
    ("first", "second", "explanation"),
    [
        (
            {"x-message-ttl": 1000},
            {"x-message-ttl": 1001},
            "received '1001' but current is '1000'",
        ),
        (
            {"x-message-ttl": 1000},
            {},
            "received none but current is the value '1000' of type 'signedint'",
        ),
    ],
)
def test_refusal_explains_the_difference(
    raw_channel: RawChannel,
    name: Namer,
    first: dict[str, Any],
    second: dict[str, Any],
    explanation: str,
) -> None:
    queue = name()
    raw_channel.call("queue.declare", queue=queue, arguments=first)

    with pytest.raises(ChannelClosed) as caught:
        raw_channel.call("queue.declare", queue=queue, arguments=second)
    assert caught.value.text == (
        f"PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue '{queue}' "
        f"in vhost '/': {explanation}"
    )


@pytest.mark.usefixtures("headrace_only")
def test_stream_queue_is_refused(raw_channel: RawChannel, name: Namer) -> None:
    with pytest.raises(ChannelClosed) as caught:
        raw_channel.call(
            "queue.declare", queue=name(), durable=True, arguments={"x-queue-type": "stream"}
        )
    assert caught.value.code == 406


@pytest.mark.usefixtures("headrace_only")
@pytest.mark.parametrize(
    "arguments",
    [
        {"x-ack-timeout": "100"},
        {"x-ack-timeout": -1},
        {"x-ack-timeout": 100, "x-ack-timeout-action": "shout"},
    ],
    ids=str,
)
def test_wrong_ack_timeout_is_refused(
    raw_channel: RawChannel, name: Namer, arguments: dict[str, Any]
) -> None:
    with pytest.raises(ChannelClosed) as caught:
        raw_channel.call("queue.declare", queue=name(), arguments=arguments)
    assert caught.value.code == 406
