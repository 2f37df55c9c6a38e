"""Dead letters: which messages, where they go, and what they tell about their life."""

import time
from typing import Any

import pytest

from support.amqp_codec import Content, Method, Typed, plain
from support.amqp_types import Namer, RawChannel


@pytest.fixture
def grave(raw_channel: RawChannel, name: Namer) -> str:
    """The queue in which dead letters end."""
    queue = name("grave")
    raw_channel.call("queue.declare", queue=queue)
    return queue


@pytest.fixture
def dlx(raw_channel: RawChannel, name: Namer, grave: str) -> str:
    """A fanout exchange in front of the grave."""
    exchange = name("dlx")
    raw_channel.call("exchange.declare", exchange=exchange, type="fanout")
    raw_channel.call("queue.bind", queue=grave, exchange=exchange)
    return exchange


def _declare(channel: RawChannel, name: Namer, dlx: str, **arguments: Any) -> str:  # noqa: ANN401
    """A queue with dead-letter exchange `dlx`; argument names are written with underscores."""
    queue = name()
    table = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
    channel.call("queue.declare", queue=queue, arguments={"x-dead-letter-exchange": dlx, **table})
    return queue


def _reject(channel: RawChannel, queue: str) -> None:
    """Takes one message of `queue` and rejects it for good."""
    got = channel.get_soon(queue, no_ack=False)
    channel.send("basic.reject", delivery_tag=got.delivery_tag, requeue=False)


def _deaths(letter: Method) -> list[dict[str, Any]]:
    assert isinstance(letter.content, Content)
    return plain(letter.content.headers["x-death"])


@pytest.fixture
def source(raw_channel: RawChannel, name: Namer, dlx: str) -> str:
    """A queue without limits whose rejected messages go to the grave."""
    return _declare(raw_channel, name, dlx)


def test_rejected_message_is_dead_lettered(
    raw_channel: RawChannel, source: str, grave: str
) -> None:
    raw_channel.publish("", source, b"x")
    _reject(raw_channel, source)

    letter = raw_channel.get_soon(grave)
    assert letter.body == b"x"
    assert _deaths(letter)[0]["reason"] == "rejected"


def test_nacked_message_is_dead_lettered(raw_channel: RawChannel, source: str, grave: str) -> None:
    raw_channel.publish("", source, b"x")
    got = raw_channel.get_soon(source, no_ack=False)
    raw_channel.send("basic.nack", delivery_tag=got.delivery_tag, requeue=False)

    assert _deaths(raw_channel.get_soon(grave))[0]["reason"] == "rejected"


def test_nacked_messages_come_in_order(raw_channel: RawChannel, source: str, grave: str) -> None:
    for body in (b"1", b"2", b"3"):
        raw_channel.publish("", source, body)
        raw_channel.get_soon(source, no_ack=False)
    raw_channel.send("basic.nack", delivery_tag=3, multiple=True, requeue=False)

    assert [raw_channel.get_soon(grave).body for _ in range(3)] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("settle", ["ack", "requeue"])
def test_other_settlement_does_not_dead_letter(
    raw_channel: RawChannel, source: str, grave: str, settle: str
) -> None:
    raw_channel.publish("", source, b"x")
    got = raw_channel.get_soon(source, no_ack=False)
    if settle == "ack":
        raw_channel.send("basic.ack", delivery_tag=got.delivery_tag)
    else:
        raw_channel.send("basic.nack", delivery_tag=got.delivery_tag, requeue=True)

    raw_channel.round_trip()
    assert raw_channel.get(grave) is None


def test_message_expired_by_the_queue_is_dead_lettered(
    raw_channel: RawChannel, name: Namer, dlx: str, grave: str
) -> None:
    queue = _declare(raw_channel, name, dlx, message_ttl=30)
    raw_channel.publish("", queue, b"x")

    letter = raw_channel.get_soon(grave)
    assert _deaths(letter)[0]["reason"] == "expired"
    assert "original-expiration" not in _deaths(letter)[0]


def test_expiration_is_moved_from_the_property_into_the_story(
    raw_channel: RawChannel, source: str, grave: str
) -> None:
    raw_channel.publish("", source, b"x", {"expiration": "30"})

    letter = raw_channel.get_soon(grave)
    assert "expiration" not in letter.content.properties
    assert letter.content.headers["x-death"].value[0].value["original-expiration"] == Typed(
        "S", "30"
    )


def test_expiration_is_removed_from_a_rejected_message_too(
    raw_channel: RawChannel, source: str, grave: str
) -> None:
    raw_channel.publish("", source, b"x", {"expiration": "60000"})
    _reject(raw_channel, source)

    letter = raw_channel.get_soon(grave)
    assert "expiration" not in letter.content.properties
    assert _deaths(letter)[0]["original-expiration"] == "60000"


def test_message_too_many_is_dead_lettered(
    raw_channel: RawChannel, name: Namer, dlx: str, grave: str
) -> None:
    queue = _declare(raw_channel, name, dlx, max_length=1)
    raw_channel.publish("", queue, b"1")
    raw_channel.publish("", queue, b"2")

    letter = raw_channel.get_soon(grave)
    assert letter.body == b"1"
    assert _deaths(letter)[0]["reason"] == "maxlen"


def test_refused_publish_is_dead_lettered_under_reject_publish_dlx(
    raw_channel: RawChannel, name: Namer, dlx: str, grave: str
) -> None:
    queue = _declare(raw_channel, name, dlx, max_length=1, overflow="reject-publish-dlx")
    raw_channel.publish("", queue, b"1")
    raw_channel.publish("", queue, b"2")

    letter = raw_channel.get_soon(grave)
    assert letter.body == b"2"
    assert _deaths(letter)[0]["reason"] == "maxlen"


def test_refused_publish_is_not_dead_lettered_under_reject_publish(
    raw_channel: RawChannel, name: Namer, dlx: str, grave: str
) -> None:
    queue = _declare(raw_channel, name, dlx, max_length=1, overflow="reject-publish")
    raw_channel.call("confirm.select")
    raw_channel.publish("", queue, b"1")
    raw_channel.publish("", queue, b"2")
    assert {raw_channel.read().name, raw_channel.read().name} == {"basic.ack", "basic.nack"}

    assert raw_channel.get(grave) is None


@pytest.mark.parametrize("method", ["queue.purge", "queue.delete"])
def test_purged_and_deleted_messages_are_not_dead_lettered(
    raw_channel: RawChannel, source: str, grave: str, method: str
) -> None:
    raw_channel.publish("", source, b"x")
    raw_channel.call(method, queue=source)

    assert raw_channel.get(grave) is None


def test_letter_shows_the_dlx_and_the_original_key(
    raw_channel: RawChannel, source: str, grave: str, dlx: str
) -> None:
    raw_channel.publish("", source, b"x")
    _reject(raw_channel, source)

    letter = raw_channel.get_soon(grave)
    assert (letter.exchange, letter.routing_key) == (dlx, source)
    assert letter.redelivered is False


def test_dead_letter_routing_key_replaces_the_original(
    raw_channel: RawChannel, name: Namer, grave: str
) -> None:
    queue = _declare(raw_channel, name, "", dead_letter_routing_key=grave)
    raw_channel.publish("", queue, b"x")
    _reject(raw_channel, queue)

    letter = raw_channel.get_soon(grave)
    assert (letter.exchange, letter.routing_key) == ("", grave)


def test_story_of_one_death_has_exactly_these_fields_and_types(
    raw_channel: RawChannel, source: str, grave: str
) -> None:
    before = int(time.time()) - 2
    raw_channel.publish("amq.direct", "nobody", b"x")
    raw_channel.call("queue.bind", queue=source, exchange="amq.direct", routing_key=source)
    raw_channel.publish("amq.direct", source, b"x")
    _reject(raw_channel, source)

    headers = raw_channel.get_soon(grave).content.headers
    assert headers["x-death"].code == "A"
    (entry,) = headers["x-death"].value
    assert entry.code == "F"
    died = entry.value.pop("time")
    assert died.code == "T"
    assert before <= died.value <= before + 60
    assert entry.value == {
        "count": Typed("l", 1),
        "reason": Typed("S", "rejected"),
        "queue": Typed("S", source),
        "exchange": Typed("S", "amq.direct"),
        "routing-keys": Typed("A", [Typed("S", source)]),
    }


def test_fields_of_a_death_come_in_their_order(
    raw_channel: RawChannel, source: str, grave: str
) -> None:
    raw_channel.publish("", source, b"x", {"expiration": "20"})

    letter = raw_channel.get_soon(grave)
    assert list(_deaths(letter)[0]) == [
        "count",
        "reason",
        "queue",
        "time",
        "exchange",
        "routing-keys",
        "original-expiration",
    ]


def test_the_first_death_is_recorded_in_three_headers(
    raw_channel: RawChannel, source: str, grave: str
) -> None:
    raw_channel.publish("", source, b"x")
    _reject(raw_channel, source)

    headers = raw_channel.get_soon(grave).content.headers
    assert headers["x-first-death-reason"] == Typed("S", "rejected")
    assert headers["x-first-death-queue"] == Typed("S", source)
    assert headers["x-first-death-exchange"] == Typed("S", "")
    assert set(headers) == {
        "x-death",
        "x-first-death-reason",
        "x-first-death-queue",
        "x-first-death-exchange",
    }


def test_own_headers_keep_their_types(raw_channel: RawChannel, source: str, grave: str) -> None:
    own = {
        "short": Typed("s", -3),
        "byte": Typed("b", -1),
        "float": Typed("f", 0.5),
        "array": Typed("A", [Typed("u", 1), Typed("V", None)]),
        "table": Typed("F", {"inner": Typed("x", "raw")}),
        "when": Typed("T", 1234567890),
    }
    raw_channel.publish("", source, b"x", {"headers": own})
    _reject(raw_channel, source)

    headers = raw_channel.get_soon(grave).content.headers
    assert {key: headers[key] for key in own} == own


def test_all_other_properties_are_kept(raw_channel: RawChannel, source: str, grave: str) -> None:
    properties = {
        "content_type": "text/plain",
        "content_encoding": "utf-8",
        "delivery_mode": 2,
        "priority": 7,
        "correlation_id": "c",
        "reply_to": "r",
        "message_id": "m",
        "timestamp": 99,
        "type": "t",
        "user_id": "guest",
        "app_id": "a",
        "cluster_id": "cl",
    }
    raw_channel.publish("", source, b"x", properties)
    _reject(raw_channel, source)

    kept = raw_channel.get_soon(grave).content.properties
    kept.pop("headers")
    assert kept == properties


def test_second_death_elsewhere_is_put_in_front(
    raw_channel: RawChannel, name: Namer, grave: str
) -> None:
    second = _declare(raw_channel, name, "", dead_letter_routing_key=grave, message_ttl=20)
    first = _declare(raw_channel, name, "", dead_letter_routing_key=second)
    raw_channel.publish("", first, b"x")
    _reject(raw_channel, first)

    letter = raw_channel.get_soon(grave)
    story = [(death["queue"], death["reason"], death["count"]) for death in _deaths(letter)]
    assert story == [(second, "expired", 1), (first, "rejected", 1)]
    assert _deaths(letter)[0]["routing-keys"] == [second]
    assert plain(letter.content.headers["x-first-death-queue"]) == first


def test_same_death_again_is_counted(raw_channel: RawChannel, source: str, grave: str) -> None:
    raw_channel.publish("", source, b"x")
    for count in (1, 2, 3):
        _reject(raw_channel, source)
        letter = raw_channel.get_soon(grave)
        assert [death["count"] for death in _deaths(letter)] == [count]
        raw_channel.publish("", source, b"x", letter.content.raw_properties)


def test_counted_death_moves_to_the_front_and_keeps_its_fields(
    raw_channel: RawChannel, name: Namer, dlx: str, grave: str
) -> None:
    one, other = _declare(raw_channel, name, dlx), _declare(raw_channel, name, dlx)
    raw_channel.publish("", one, b"x", {"headers": {"CC": ["aside"]}})
    for queue in (one, other, one):
        _reject(raw_channel, queue)
        letter = raw_channel.get_soon(grave)
        target = other if queue == one else one
        raw_channel.publish("", target, b"x", letter.content.raw_properties)

    story = [(death["queue"], death["count"]) for death in _deaths(letter)]
    assert story == [(one, 2), (other, 1)]
    assert _deaths(letter)[0]["routing-keys"] == [one, "aside"]


def test_cc_keys_are_in_x_death_and_used_again(
    raw_channel: RawChannel, name: Namer, grave: str
) -> None:
    # The default exchange as DLX: the CC key leads to the grave, the first key back to the source.
    queue = _declare(raw_channel, name, "amq.direct")
    raw_channel.call("queue.bind", queue=grave, exchange="amq.direct", routing_key=grave)
    raw_channel.publish("", queue, b"x", {"headers": {"CC": [grave]}})
    raw_channel.get_soon(grave)
    _reject(raw_channel, queue)

    letter = raw_channel.get_soon(grave)
    assert _deaths(letter)[0]["routing-keys"] == [queue, grave]
    assert plain(letter.content.headers["CC"]) == [grave]
    assert letter.routing_key == queue


def test_cc_is_removed_when_a_dead_letter_routing_key_is_set(
    raw_channel: RawChannel, name: Namer, grave: str
) -> None:
    queue = _declare(raw_channel, name, "", dead_letter_routing_key=grave)
    aside = name("aside")
    raw_channel.publish("", queue, b"x", {"headers": {"CC": [aside], "kept": 1}})
    _reject(raw_channel, queue)

    letter = raw_channel.get_soon(grave)
    assert "CC" not in letter.content.headers
    assert letter.content.headers["kept"] == Typed("I", 1)
    assert _deaths(letter)[0]["routing-keys"] == [queue, aside]


def test_bcc_never_appears(raw_channel: RawChannel, source: str, grave: str) -> None:
    raw_channel.publish("", source, b"x", {"headers": {"BCC": ["hidden"]}})
    _reject(raw_channel, source)

    letter = raw_channel.get_soon(grave)
    assert "BCC" not in letter.content.headers
    assert _deaths(letter)[0]["routing-keys"] == [source]


def test_missing_dlx_drops_the_message(raw_channel: RawChannel, name: Namer) -> None:
    queue = _declare(raw_channel, name, name("missing"))
    raw_channel.publish("", queue, b"x")
    _reject(raw_channel, queue)

    raw_channel.round_trip()
    assert raw_channel.get(queue) is None


def test_cycle_of_expiries_ends(raw_channel: RawChannel, name: Namer, grave: str) -> None:
    # The message expires in the queue and would be dead-lettered to that very queue.
    queue = name()
    arguments = {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": queue,
        "x-message-ttl": 20,
    }
    raw_channel.call("queue.declare", queue=queue, arguments=arguments)
    raw_channel.publish("", queue, b"round")
    _let_pass(raw_channel, grave, name)

    assert raw_channel.call("queue.declare", queue=queue, passive=True).message_count == 0


def test_cycle_of_expiries_over_two_queues_ends(
    raw_channel: RawChannel, name: Namer, grave: str
) -> None:
    one, other = name(), name()
    for queue, target in ((one, other), (other, one)):
        arguments = {
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": target,
            "x-message-ttl": 20,
        }
        raw_channel.call("queue.declare", queue=queue, arguments=arguments)
    raw_channel.publish("", one, b"round")
    _let_pass(raw_channel, grave, name)

    assert raw_channel.get(one) is None
    assert raw_channel.get(other) is None


def test_cycle_is_broken_only_for_the_queue_which_closes_it(
    raw_channel: RawChannel, name: Namer, dlx: str, grave: str
) -> None:
    queue = _declare(raw_channel, name, dlx, message_ttl=20)
    raw_channel.call("queue.bind", queue=queue, exchange=dlx)
    raw_channel.publish("", queue, b"round")

    assert raw_channel.get_soon(grave).body == b"round"
    _let_pass(raw_channel, grave, name)
    assert raw_channel.get(grave) is None


def test_cycle_with_a_rejection_goes_on(raw_channel: RawChannel, name: Namer) -> None:
    queue = name()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    raw_channel.call("queue.declare", queue=queue, arguments=arguments)
    raw_channel.publish("", queue, b"round")

    _reject(raw_channel, queue)
    _reject(raw_channel, queue)
    assert _deaths(raw_channel.get_soon(queue))[0]["count"] == 2


def test_death_on_the_way_back_to_a_retry_queue_is_allowed_after_a_rejection(
    raw_channel: RawChannel, name: Namer
) -> None:
    # The usual retry pattern: work rejects, retry expires back into work.
    work, retry = name("work"), name("retry")
    for queue, target, extra in ((work, retry, {}), (retry, work, {"x-message-ttl": 20})):
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target, **extra}
        raw_channel.call("queue.declare", queue=queue, arguments=arguments)
    raw_channel.publish("", work, b"x")

    for _ in range(3):
        _reject(raw_channel, work)
    letter = raw_channel.get_soon(work)
    story = [(death["queue"], death["reason"], death["count"]) for death in _deaths(letter)]
    assert story == [(retry, "expired", 3), (work, "rejected", 3)]


def test_body_of_several_frames_is_dead_lettered_whole(
    raw_channel: RawChannel, source: str, grave: str
) -> None:
    body = bytes(range(256)) * 1200
    raw_channel.publish("", source, body)
    _reject(raw_channel, source)

    assert raw_channel.get_soon(grave).body == body


def _let_pass(channel: RawChannel, grave: str, name: Namer) -> None:
    """Waits until a message of 120 ms has died into the grave."""
    clock = name("clock")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave}
    channel.call("queue.declare", queue=clock, arguments=arguments)
    channel.publish("", clock, b"tick", {"expiration": "120"})
    channel.get_soon(grave)
