"""Queue, exchange and consumer arguments: every rule with the text RabbitMQ gives."""

from decimal import Decimal
from functools import partial

import pytest

from headrace.errors import PreconditionFailed
from headrace.model.exchange_arguments import (
    Declaration,
    check_equivalent_exchange,
    check_exchange_arguments,
    comparable,
    plain_type_name,
)
from headrace.model.queue_arguments import (
    QueueSettings,
    check_equivalent_queue,
    check_queue_arguments,
    consumer_priority,
    queue_settings,
)

INTEGERS = ["x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes", "x-max-priority"]
TEN_YEARS_MS = 10 * 365 * 86_400 * 1000


class Stamp(int):
    """Stands for the wire's time stamp, an int that is none."""


def type_name(value: object) -> str:
    return "timestamp" if isinstance(value, Stamp) else plain_type_name(value)


def check(arguments: dict[str, object], **changes: bool) -> None:
    properties = {"durable": True, "exclusive": False, "auto_delete": False} | changes
    declared = Declaration(arguments=arguments, **properties)
    check_queue_arguments("q", "/", declared, type_name=type_name)


def told(arguments: dict[str, object], **changes: bool) -> str:
    with pytest.raises(PreconditionFailed) as caught:
        check(arguments, **changes)
    return str(caught.value)


# -- new queues ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"x-message-ttl": 0},
        {"x-message-ttl": TEN_YEARS_MS},
        {"x-expires": 1},
        {"x-expires": TEN_YEARS_MS},
        {"x-max-length": 0},
        {"x-max-length": 2**62},
        {"x-max-length-bytes": 0},
        {"x-max-priority": 0},
        {"x-max-priority": 255},
        {"x-overflow": "drop-head"},
        {"x-overflow": "reject-publish"},
        {"x-overflow": "reject-publish-dlx"},
        {"x-dead-letter-exchange": ""},
        {"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": "k"},
        {"x-queue-type": "classic"},
        {"x-queue-mode": "default"},
        {"x-queue-mode": "lazy"},
        {"x-queue-version": 1},
        {"x-queue-version": 2},
        {"x-single-active-consumer": False},
        {"x-queue-master-locator": "min-masters"},
        {"x-queue-leader-locator": "balanced"},
        {"x-ack-timeout": 1, "x-ack-timeout-action": "requeue"},
        {"x-ack-timeout": 1, "x-ack-timeout-action": "dead-letter"},
        {"x-consumer-timeout": 1000},
        {"x-anything-else": -1, "more": None},
        {"x-queue-type": "quorum"},
        {"x-queue-type": "quorum", "x-delivery-limit": 2},
        {"x-queue-type": "quorum", "x-delivery-limit": -1},
        {"x-queue-type": "quorum", "x-expires": 5, "x-message-ttl": 5, "x-max-length": 5},
        {"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once"},
        {"x-queue-type": "quorum", "x-max-in-memory-length": 5},
        {"x-queue-type": "quorum", "x-quorum-initial-group-size": 1},
        {"x-queue-type": "quorum", "x-queue-leader-locator": "client-local"},
        {"x-queue-type": "quorum", "x-single-active-consumer": True},
    ],
)
def test_legal_arguments_are_taken(arguments: dict[str, object]) -> None:
    check(arguments)


@pytest.mark.parametrize("name", [*INTEGERS, "x-queue-version", "x-ack-timeout"])
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("5", "longstr"),
        (True, "bool"),
        (1.5, "double"),
        (None, "void"),
        (Decimal(5), "decimal"),
        ([1], "array"),
        ({"a": 1}, "table"),
        (b"x", "binary"),
        (Stamp(5), "timestamp"),
    ],
)
def test_a_number_must_be_an_integer(name: str, value: object, kind: str) -> None:
    assert told({name: value}) == (
        f"invalid arg '{name}' for queue 'q' in vhost '/': \"expected integer, got {kind}\""
    )


@pytest.mark.parametrize("name", [*INTEGERS, "x-ack-timeout", "x-consumer-timeout"])
def test_a_number_must_not_be_negative(name: str) -> None:
    assert told({name: -1}) == (
        f"invalid arg '{name}' for queue 'q' in vhost '/': {{value_negative,-1}}"
    )


@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        ("x-expires", 0, "{value_zero,0}"),
        ("x-ack-timeout", 0, "{value_zero,0}"),
        ("x-consumer-timeout", 0, "{value_zero,0}"),
        ("x-message-ttl", TEN_YEARS_MS + 1, "{value_too_large,315360000001}"),
        ("x-expires", TEN_YEARS_MS + 1, "{value_too_large,315360000001}"),
        ("x-max-priority", 256, "{max_value_exceeded,256}"),
        ("x-overflow", "bogus", "invalid_overflow"),
        ("x-overflow", 5, "{unacceptable_type,signedint}"),
        ("x-overflow", None, "{unacceptable_type,void}"),
        ("x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
        ("x-dead-letter-routing-key", 5, "{unacceptable_type,signedint}"),
        ("x-queue-type", "bogus", "\"unsupported queue type 'bogus'\""),
        ("x-queue-type", "", "\"unsupported queue type ''\""),
        ("x-queue-type", 5, "{unacceptable_type,signedint}"),
        ("x-queue-mode", "bogus", "\"unsupported queue mode 'bogus'\""),
        ("x-queue-mode", 5, "{unacceptable_type,signedint}"),
        ("x-queue-version", 3, "\"unsupported queue version '3'\""),
        ("x-single-active-consumer", 1, "{unacceptable_type,signedint}"),
        ("x-single-active-consumer", "true", "{unacceptable_type,longstr}"),
        ("x-ack-timeout-action", "close", "invalid_ack_timeout_action"),
    ],
)
def test_other_values_are_refused(name: str, value: object, wrong: str) -> None:
    assert told({name: value}) == f"invalid arg '{name}' for queue 'q' in vhost '/': {wrong}"


@pytest.mark.parametrize(("value", "kind"), [(5, "signedint"), (True, "bool"), (None, "void")])
def test_the_dead_letter_exchange_must_be_a_string(value: object, kind: str) -> None:
    assert told({"x-dead-letter-exchange": value}) == (
        f"invalid type '{kind}' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'"
    )


def test_of_several_mistakes_the_one_that_rabbitmq_reports_is_reported() -> None:
    assert "x-expires" in told({"x-message-ttl": -1, "x-expires": 0})
    assert "x-queue-type" in told({"x-expires": 0, "x-queue-type": "bogus"})
    assert "no_dlx" in told({"x-max-length": -1, "x-dead-letter-routing-key": "k"})
    assert "value_zero" in told({"x-queue-type": "quorum", "x-expires": 0}, durable=False)
    assert "x-expires" in told({"x-delivery-limit": 5, "x-expires": 0})
    assert "x-dead-letter-exchange" in told({"x-expires": 0, "x-dead-letter-exchange": 5})


def test_of_several_arguments_of_another_queue_type_the_first_is_reported() -> None:
    assert "x-max-age" in told({"x-max-age": "1h", "x-delivery-limit": 5})
    assert "x-delivery-limit" in told({"x-delivery-limit": 5, "x-max-age": "1h"})


@pytest.mark.parametrize(
    ("queue_type", "name", "value"),
    [
        ("classic", "x-delivery-limit", 5),
        ("classic", "x-dead-letter-strategy", "at-least-once"),
        ("classic", "x-max-in-memory-length", 5),
        ("classic", "x-max-in-memory-bytes", 5),
        ("classic", "x-quorum-initial-group-size", 1),
        ("classic", "x-max-age", "1h"),
        ("classic", "x-stream-max-segment-size-bytes", 5),
        ("classic", "x-initial-cluster-size", 3),
        ("quorum", "x-max-priority", 5),
        ("quorum", "x-max-priority", -5),
        ("quorum", "x-queue-mode", "lazy"),
        ("quorum", "x-queue-version", 1),
        ("quorum", "x-queue-master-locator", "min-masters"),
        ("quorum", "x-max-age", "1h"),
    ],
)
def test_arguments_of_another_queue_type_are_refused(
    queue_type: str, name: str, value: object
) -> None:
    assert told({"x-queue-type": queue_type, name: value}) == (
        f"invalid arg '{name}' for queue 'q' in vhost '/' of queue type rabbit_{queue_type}_queue"
    )


def test_a_queue_is_classic_unless_it_says_otherwise() -> None:
    assert told({"x-delivery-limit": 5}).endswith("of queue type rabbit_classic_queue")


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"durable": False}, "non-durable"),
        ({"exclusive": True}, "exclusive-owner"),
        ({"auto_delete": True}, "auto-delete"),
        ({"durable": False, "exclusive": True}, "exclusive-owner"),
        ({"durable": False, "exclusive": True, "auto_delete": True}, "auto-delete"),
    ],
)
def test_a_quorum_queue_is_durable_and_shared(changes: dict[str, bool], wrong: str) -> None:
    check({}, **changes)
    assert told({"x-queue-type": "quorum"}, **changes) == (
        f"invalid property '{wrong}' for queue 'q' in vhost '/'"
    )


@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        ("x-delivery-limit", "a", '"expected integer, got longstr"'),
        ("x-dead-letter-strategy", "bogus", "invalid_dlx_strategy"),
        ("x-dead-letter-strategy", 5, "{unacceptable_type,signedint}"),
        ("x-max-in-memory-length", -1, "{value_negative,-1}"),
        ("x-quorum-initial-group-size", "a", '"expected integer, got longstr"'),
    ],
)
def test_values_of_quorum_arguments(name: str, value: object, wrong: str) -> None:
    assert told({"x-queue-type": "quorum", name: value}) == (
        f"invalid arg '{name}' for queue 'q' in vhost '/': {wrong}"
    )


def test_streams_are_refused_with_advice() -> None:
    text = told({"x-queue-type": "stream", "x-max-age": "1h"})

    assert "Headrace does not support streams; use a topic" in text


# -- meaning ------------------------------------------------------------------------------------


def test_nothing_given_is_the_default() -> None:
    assert queue_settings({}, {}) == QueueSettings()


def test_every_argument_has_its_place() -> None:
    arguments: dict[str, object] = {
        "x-message-ttl": 1,
        "x-expires": 2,
        "x-max-length": 3,
        "x-max-length-bytes": 4,
        "x-overflow": "reject-publish",
        "x-dead-letter-exchange": "dlx",
        "x-dead-letter-routing-key": "k",
        "x-max-priority": 5,
        "x-queue-type": "classic",
        "x-single-active-consumer": True,
        "x-ack-timeout": 7,
        "x-ack-timeout-action": "dead-letter",
    }

    assert queue_settings(arguments, {}) == QueueSettings(
        message_ttl_ms=1,
        expires_ms=2,
        max_length=3,
        max_length_bytes=4,
        overflow="reject-publish",
        dead_letter_exchange="dlx",
        dead_letter_routing_key="k",
        max_priority=5,
        queue_type="classic",
        single_active_consumer=True,
        delivery_limit=None,
        ack_timeout_ms=7,
        ack_timeout_action="dead-letter",
    )


def test_a_policy_fills_what_the_arguments_leave_open() -> None:
    policy: dict[str, object] = {
        "message-ttl": 1,
        "overflow": "reject-publish",
        "dead-letter-exchange": "dlx",
        "ack-timeout": 9,
        "ack-timeout-action": "dead-letter",
    }

    assert queue_settings({}, policy) == QueueSettings(
        message_ttl_ms=1,
        overflow="reject-publish",
        dead_letter_exchange="dlx",
        ack_timeout_ms=9,
        ack_timeout_action="dead-letter",
    )


@pytest.mark.parametrize(("argument", "policy"), [(5, 9), (9, 5)])
def test_of_two_numbers_the_smaller_counts(argument: int, policy: int) -> None:
    settings = queue_settings({"x-max-length": argument}, {"max-length": policy})

    assert settings.max_length == 5


def test_zero_is_a_limit_too() -> None:
    assert queue_settings({"x-message-ttl": 0}, {"message-ttl": 5}).message_ttl_ms == 0


def test_the_queue_argument_overrides_the_policy() -> None:
    settings = queue_settings(
        {"x-dead-letter-exchange": "", "x-overflow": "drop-head"},
        {"dead-letter-exchange": "p", "overflow": "reject-publish"},
    )

    assert (settings.dead_letter_exchange, settings.overflow) == ("", "drop-head")


@pytest.mark.parametrize(
    ("arguments", "policy", "limit"),
    [
        ({"x-queue-type": "quorum"}, {}, None),
        ({"x-queue-type": "quorum", "x-delivery-limit": 2}, {}, 2),
        ({"x-queue-type": "quorum", "x-delivery-limit": -1}, {}, None),
        ({"x-queue-type": "quorum"}, {"delivery-limit": 4}, 4),
        ({}, {"delivery-limit": 4}, None),
    ],
)
def test_only_quorum_queues_limit_deliveries(
    arguments: dict[str, object], policy: dict[str, object], limit: int | None
) -> None:
    assert queue_settings(arguments, policy).delivery_limit == limit


@pytest.mark.parametrize(
    ("arguments", "policy", "timeout"),
    [
        ({"x-consumer-timeout": 5}, {}, 5),
        ({}, {"consumer-timeout": 5}, 5),
        ({"x-consumer-timeout": 5, "x-ack-timeout": 3}, {}, 3),
        ({"x-ack-timeout": 8}, {"consumer-timeout": 5}, 5),
    ],
)
def test_consumer_timeout_is_another_name_of_ack_timeout(
    arguments: dict[str, object], policy: dict[str, object], timeout: int
) -> None:
    settings = queue_settings(arguments, policy)

    assert (settings.ack_timeout_ms, settings.ack_timeout_action) == (timeout, "requeue")


# -- redeclared queues --------------------------------------------------------------------------


def redeclare(received: Declaration, current: Declaration) -> str | None:
    try:
        check_equivalent_queue("q", "/", received=received, current=current, type_name=type_name)
    except PreconditionFailed as error:
        return str(error)
    return None


def with_arguments(**arguments: object) -> Declaration:
    return Declaration(
        arguments={"x-" + key.replace("_", "-"): arguments[key] for key in arguments}
    )


@pytest.mark.parametrize(
    ("received", "current"),
    [
        (Declaration(durable=True), Declaration(durable=True)),
        (Declaration(exclusive=True), Declaration(exclusive=False)),
        (with_arguments(message_ttl=1000), with_arguments(message_ttl=Stamp(1000))),
        (with_arguments(queue_type="classic"), Declaration()),
        (Declaration(), with_arguments(queue_type="classic")),
        (with_arguments(unknown=1), with_arguments(unknown=2)),
        (with_arguments(unknown=1), Declaration()),
        (with_arguments(max_in_memory_length=5, delivery_limit=5), Declaration()),
    ],
)
def test_an_equivalent_queue_is_the_same(received: Declaration, current: Declaration) -> None:
    assert redeclare(received, current) is None


@pytest.mark.parametrize(
    ("received", "current", "told"),
    [
        (
            Declaration(),
            Declaration(durable=True),
            "'durable' *: received 'false' but current is 'true'",
        ),
        (
            Declaration(durable=True),
            Declaration(),
            "'durable' *: received 'true' but current is 'false'",
        ),
        (
            Declaration(),
            Declaration(auto_delete=True),
            "'auto_delete' *: received 'false' but current is 'true'",
        ),
        (
            Declaration(durable=True),
            Declaration(auto_delete=True),
            "'durable' *: received 'true' but current is 'false'",
        ),
        (
            with_arguments(message_ttl=1001),
            with_arguments(message_ttl=1000),
            "'x-message-ttl' *: received '1001' but current is '1000'",
        ),
        (
            Declaration(),
            with_arguments(message_ttl=1000),
            "'x-message-ttl' *: received none but current is the value '1000' of type 'signedint'",
        ),
        (
            with_arguments(message_ttl=2**40),
            Declaration(),
            "'x-message-ttl' *: received the value '1099511627776' of type 'long' "
            "but current is none",
        ),
        (
            with_arguments(dead_letter_exchange="b"),
            with_arguments(dead_letter_exchange="a"),
            "'x-dead-letter-exchange' *: received 'b' but current is 'a'",
        ),
        (
            with_arguments(single_active_consumer=True),
            Declaration(),
            "'x-single-active-consumer' *: received the value 'true' of type 'bool' "
            "but current is none",
        ),
        (
            with_arguments(single_active_consumer=False),
            with_arguments(single_active_consumer=True),
            "'x-single-active-consumer' *: received 'false' but current is 'true'",
        ),
        (
            with_arguments(max_length="5"),
            with_arguments(max_length=5),
            "'x-max-length' *: received '5' but current is '5'",
        ),
        (
            with_arguments(max_length=None),
            Declaration(),
            "'x-max-length' *: received the value 'undefined' of type 'void' but current is none",
        ),
        (
            with_arguments(queue_type="quorum", delivery_limit=3),
            with_arguments(queue_type="quorum", delivery_limit=2),
            "'x-delivery-limit' *: received '3' but current is '2'",
        ),
        (
            with_arguments(queue_type="quorum"),
            Declaration(),
            "'x-queue-type' *: received the value 'quorum' of type 'longstr' but current is none",
        ),
        (
            with_arguments(queue_type="classic"),
            with_arguments(queue_type="quorum"),
            "'x-queue-type' *: received 'classic' but current is 'quorum'",
        ),
        (
            Declaration(),
            with_arguments(message_ttl=1, expires=2),
            "'x-expires' *: received none but current is the value '2' of type 'signedint'",
        ),
        (
            with_arguments(queue_master_locator="min-masters"),
            with_arguments(queue_master_locator="client-local"),
            "'x-queue-master-locator' *: received 'min-masters' but current is 'client-local'",
        ),
    ],
)
def test_another_queue_is_told_apart(
    received: Declaration, current: Declaration, told: str
) -> None:
    expected = "inequivalent arg " + told.replace("*", "for queue 'q' in vhost '/'")

    assert redeclare(received, current) == expected


# -- exchanges ----------------------------------------------------------------------------------


exchange = partial(Declaration, kind="direct")


@pytest.mark.parametrize(
    ("received", "current", "told"),
    [
        (exchange(kind="topic"), exchange(), "'type' *: received 'topic' but current is 'direct'"),
        (exchange(), exchange(durable=True), "'durable' *: received 'false' but current is 'true'"),
        (
            exchange(),
            exchange(auto_delete=True),
            "'auto_delete' *: received 'false' but current is 'true'",
        ),
        (
            exchange(internal=True),
            exchange(),
            "'internal' *: received 'true' but current is 'false'",
        ),
        (
            exchange(arguments={"alternate-exchange": "a"}),
            exchange(),
            "'alternate-exchange' *: received the value 'a' of type 'longstr' but current is none",
        ),
        (
            exchange(),
            exchange(arguments={"alternate-exchange": "a"}),
            "'alternate-exchange' *: received none but current is the value 'a' of type 'longstr'",
        ),
        (
            exchange(kind="x-delayed-message", arguments={"x-delayed-type": "topic"}),
            exchange(kind="x-delayed-message", arguments={"x-delayed-type": "direct"}),
            "'x-delayed-type' *: received 'topic' but current is 'direct'",
        ),
    ],
)
def test_another_exchange_is_told_apart(
    received: Declaration, current: Declaration, told: str
) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        check_equivalent_exchange("x", "/", received=received, current=current, type_name=type_name)

    assert str(caught.value) == "inequivalent arg " + told.replace(
        "*", "for exchange 'x' in vhost '/'"
    )


def test_unknown_exchange_arguments_are_not_compared() -> None:
    check_equivalent_exchange(
        "x",
        "/",
        received=exchange(arguments={"x-foo": 1}),
        current=exchange(arguments={"x-delayed-type": "topic"}),
        type_name=type_name,
    )


@pytest.mark.parametrize(("value", "kind"), [(5, "signedint"), (True, "bool"), (None, "void")])
def test_the_alternate_exchange_must_be_a_string(value: object, kind: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        check_exchange_arguments("x", "/", "direct", {"alternate-exchange": value})

    assert str(caught.value) == (
        f"invalid type '{kind}' for arg 'alternate-exchange' in exchange 'x' in vhost '/'"
    )


def test_good_exchange_arguments_are_taken() -> None:
    check_exchange_arguments("x", "/", "direct", {"alternate-exchange": "", "x-foo": 5})
    for kind in ("direct", "fanout", "topic", "headers"):
        check_exchange_arguments("x", "/", "x-delayed-message", {"x-delayed-type": kind})


@pytest.mark.parametrize("value", ["bogus", "x-delayed-message", 5, ["topic"], None])
def test_a_delayed_exchange_needs_a_real_type(value: object) -> None:
    for arguments in ({"x-delayed-type": value}, {}):
        with pytest.raises(PreconditionFailed, match="invalid arg 'x-delayed-type' for exchange"):
            check_exchange_arguments("x", "/", "x-delayed-message", arguments)


# -- consumers and values -----------------------------------------------------------------------


def test_the_priority_of_a_consumer() -> None:
    assert consumer_priority({}) == 0
    assert consumer_priority({"x-priority": -5}) == -5
    assert consumer_priority({"x-priority": 2**40}) == 2**40


@pytest.mark.parametrize(("value", "kind"), [("a", "longstr"), (True, "bool"), (None, "void")])
def test_a_priority_must_be_an_integer(value: object, kind: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        consumer_priority({"x-priority": value}, queue="q", vhost="/")

    assert str(caught.value) == (
        f"invalid arg 'x-priority' for queue 'q' in vhost '/': \"expected integer, got {kind}\""
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, Stamp(1)),
        ("x", b"x"),
        ("\udcff", b"\xff"),
        (b"x", bytearray(b"x")),
        ([1, "a"], (1, b"a")),
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}),
        (Decimal("1.0"), Decimal(1)),
        (None, None),
    ],
)
def test_values_that_are_the_same(one: object, other: object) -> None:
    assert comparable(one) == comparable(other)
    assert hash(comparable(one)) == hash(comparable(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (0, False),
        (1, "1"),
        (True, "true"),
        (1, Decimal(1)),
        (1, None),
        ([1], [True]),
        ([1], 1),
        ({"a": 1}, {"a": 2}),
        ([], {}),
    ],
)
def test_values_that_differ(one: object, other: object) -> None:
    assert comparable(one) != comparable(other)


def test_what_no_wire_can_carry_is_a_bug() -> None:
    with pytest.raises(TypeError, match="no AMQP value: set"):
        comparable({1})


def test_unknown_types_are_called_by_their_python_name() -> None:
    assert plain_type_name(object()) == "object"
