"""Published runs: routes, returns, refusals, and what single messages ask for."""

from __future__ import annotations

import pytest

from headrace.core.reply_to import PSEUDO_QUEUE, ReplyAddress
from headrace.errors import AccessRefused, BrokerError, NotFound, PreconditionFailed, Unsupported
from headrace.server.amqp.channel import Channel
from headrace.server.amqp.confirms import Confirms
from headrace.server.amqp.publisher import Publisher
from headrace.server.amqp.transaction import Transaction
from headrace.server.publish_inspection import parse_expiration
from headrace.wire.amqp.content import properties_of
from headrace.wire.amqp.method_codec import method_frame
from headrace.wire.amqp.methods import BasicAck, BasicNack, BasicPublish, BasicReturn
from support.fake_loop import Stage, message, ready
from support.fake_session import Desk


@pytest.fixture
def publisher(desk: Desk) -> Publisher:
    return desk.publisher


def send(
    publisher: Publisher,
    channel: Channel,
    *contents: bytes,
    to: str = "q",
    exchange: str = "",
    mandatory: bool = False,
    immediate: bool = False,
    mode: int = 1,
) -> None:
    """Publish a run as the reader hands it over: raw arguments, flags of the first content."""
    method = BasicPublish(
        exchange=exchange, routing_key=to, mandatory=mandatory, immediate=immediate
    )
    raw = method_frame(channel.number, method)[11:-1]
    flags = int.from_bytes(contents[0][19:21], "big")
    publisher.publish(channel, raw, flags, mode, list(contents), sum(map(len, contents)))


def test_a_run_arrives_as_it_is(stage: Stage, publisher: Publisher, channel: Channel) -> None:
    queue = stage.queue()

    send(publisher, channel, message("a"), message("b"), mode=2)

    (run,) = queue.backlog.runs()
    assert ready(queue) == ["a", "b"]
    assert (run.persistent, run.channel_number) == (True, 7)


def test_unroutable_mandatory_messages_come_back_before_the_ack(
    desk: Desk, publisher: Publisher, channel: Channel
) -> None:
    channel.confirms = Confirms()

    send(publisher, channel, message("a"), message("b"), to="nowhere", mandatory=True)
    send(publisher, channel, message("c"), to="nowhere")

    returned = BasicReturn(
        reply_code=312, reply_text="NO_ROUTE", exchange="", routing_key="nowhere"
    )
    assert desk.take() == [(7, returned, "a"), (7, returned, "b")]
    assert channel.confirms.take_answers() == [BasicAck(delivery_tag=3, multiple=True)]
    assert desk.confirming == {channel}


def test_refused_messages_are_nacked(stage: Stage, publisher: Publisher, channel: Channel) -> None:
    stage.queue(max_length=2, overflow="reject-publish")
    channel.confirms = Confirms()

    send(publisher, channel, *(message(body) for body in "abc"))

    assert channel.confirms.take_answers() == [
        BasicAck(delivery_tag=2, multiple=True),
        BasicNack(delivery_tag=3),
    ]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"exchange": "nowhere"}, NotFound),
        ({"exchange": "amq.rabbitmq.trace"}, AccessRefused),
        ({"immediate": True}, Unsupported),
        ({"mode": 3}, PreconditionFailed),
    ],
)
def test_mistakes_are_reported(
    publisher: Publisher, channel: Channel, options: dict[str, object], error: type[BrokerError]
) -> None:
    with pytest.raises(error):
        send(publisher, channel, message("a"), **options)  # type: ignore[arg-type]


def test_a_faulty_message_ends_the_run_and_those_before_it_are_published(
    stage: Stage, publisher: Publisher, channel: Channel
) -> None:
    queue = stage.queue()
    contents = [
        message(body, expiration=text) for body, text in zip("abc", ("9", "x", "9"), strict=True)
    ]

    with pytest.raises(PreconditionFailed, match="invalid expiration 'x'"):
        send(publisher, channel, *contents)

    assert ready(queue) == ["a"]


def test_expirations_count_per_message(
    stage: Stage, publisher: Publisher, channel: Channel
) -> None:
    queue = stage.queue()
    times = (("a", "100"), ("b", "100"), ("c", "50"), ("d", "200"))

    send(publisher, channel, *(message(body, expiration=text) for body, text in times))

    stage.advance(100)
    assert ready(queue) == ["d"]


def test_carbon_copies_are_routed_and_blind_ones_hidden(
    stage: Stage, publisher: Publisher, channel: Channel
) -> None:
    queues = [stage.queue(name) for name in ("q", "cc", "bcc")]
    headers = {"CC": ["cc"], "BCC": ["bcc", "cc"], "note": 1}

    send(publisher, channel, message("a", headers), message("b", {"plain": 1}))

    assert [ready(queue) for queue in queues] == [["a", "b"], ["a"], ["a"]]
    (run,) = queues[2].backlog.runs()
    shown = properties_of(run.contents[0]).headers
    assert shown is not None
    assert list(shown) == ["CC", "note"]


@pytest.mark.parametrize("value", ["cc", [1], {"a": 1}])
def test_copies_must_be_a_list_of_strings(
    stage: Stage, publisher: Publisher, channel: Channel, value: object
) -> None:
    stage.queue()

    with pytest.raises(PreconditionFailed, match="CC"):
        send(publisher, channel, message("a", {"CC": value}))


def test_messages_of_one_run_are_routed_by_their_own_headers(
    stage: Stage, publisher: Publisher, channel: Channel
) -> None:
    red, blue = stage.queue("red"), stage.queue("blue")
    for queue in (red, blue):
        stage.vhost.bind("amq.headers", queue, "", {"colour": queue.name})
    colours = ("red", "blue", "red", "green")
    contents = [message(str(at), {"colour": colour}) for at, colour in enumerate(colours)]

    send(publisher, channel, *contents, exchange="amq.headers")

    assert (ready(red), ready(blue)) == (["0", "2"], ["1"])


def test_a_user_id_must_be_the_own_one(
    stage: Stage, publisher: Publisher, channel: Channel
) -> None:
    queue = stage.queue()
    send(publisher, channel, message("a", user_id="guest"))

    with pytest.raises(PreconditionFailed, match="user_id property set to 'boss'"):
        send(publisher, channel, message("b", user_id="boss"))

    assert ready(queue) == ["a"]


def test_a_request_carries_the_requesters_own_address(
    stage: Stage, publisher: Publisher, channel: Channel
) -> None:
    queue = stage.queue()
    request = message("a", reply_to=PSEUDO_QUEUE)
    with pytest.raises(PreconditionFailed, match="fast reply consumer does not exist"):
        send(publisher, channel, request)

    channel.reply_address = ReplyAddress("tag", channel.deliver_reply)
    send(publisher, channel, request, message("b", reply_to="elsewhere"))

    stored = [properties_of(one).reply_to for run in queue.backlog.runs() for one in run.contents]
    assert stored == [channel.reply_address.name, "elsewhere"]


def test_cached_routes_are_dropped_when_bindings_change(
    stage: Stage, publisher: Publisher, channel: Channel
) -> None:
    send(publisher, channel, message("lost"))
    queue = stage.queue()

    send(publisher, channel, message("a"))
    stage.vhost.delete_queue("q", None)
    send(publisher, channel, message("lost"))

    assert queue.counters.published == 1


def test_a_transaction_publishes_at_commit_to_what_is_there_then(
    stage: Stage, publisher: Publisher, channel: Channel
) -> None:
    channel.transaction = Transaction()
    send(publisher, channel, message("a"))
    queue = stage.queue()
    assert ready(queue) == []

    stage.turn.run(channel.transaction.commit(channel, publisher))

    assert ready(queue) == ["a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, None), ("0", 0), ("60000", 60000), ("007", 7), ("4294967295", 2**32 - 1)],
)
def test_a_good_expiration(text: str | None, expected: int | None) -> None:
    assert parse_expiration(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no_integer"),
        ("soon", "no_integer"),
        ("1.5", "no_integer"),
        (" 1", "no_integer"),
        ("1 ", "no_integer"),
        ("²", "no_integer"),
        ("٣", "no_integer"),
        ("--1", "no_integer"),
        ("-1", "value_negative,-1"),
        ("4294967296", "value_too_large,4294967296"),
        ("9" * 200, "value_too_large"),
    ],
)
def test_a_bad_expiration(text: str, reason: str) -> None:
    with pytest.raises(PreconditionFailed, match="invalid expiration") as refusal:
        parse_expiration(text)

    assert reason in str(refusal.value)
