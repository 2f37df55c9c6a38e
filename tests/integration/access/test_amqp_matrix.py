"""Every AMQP method with every permission missing: refused as specified, or done."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from headrace.server.amqp.handlers import HANDLERS
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.method_codec import Method
from support.access_matrix import (
    GENERATED,
    Matrix,
    Rule,
    Site,
    clear,
    configure,
    every_subset,
    nothing,
    read,
    write,
)

_numbers = count()


class Case:
    """One attempt: a channel, and names that nothing else has."""

    def __init__(self, connection: pika.BlockingConnection, guest: BlockingChannel) -> None:
        number = next(_numbers)
        self.new = f"new-{number}"
        self.queue = f"q-{number}"
        self.exchange, self.other = f"x-{number}", f"y-{number}"
        guest.queue_declare(self.queue)
        guest.exchange_declare(self.exchange, "fanout")
        guest.exchange_declare(self.other, "fanout")
        self.connection = connection
        self.guest = guest
        self.channel = connection.channel()
        self.tag = 0

    def fill(self) -> None:
        """Get a message and keep it unacknowledged, while that is allowed."""
        self.guest.basic_publish("", self.queue, b"m")
        self.tag = self.channel.basic_get(self.queue)[0].delivery_tag

    def start_transaction(self) -> None:
        self.channel.tx_select()

    def clear(self) -> None:
        if self.channel.is_open:
            self.channel.close()


def publish(case: Case, exchange: str, key: str) -> None:
    case.channel.confirm_delivery()
    case.channel.basic_publish(exchange, key, b"m")


def publish_and_commit(case: Case) -> None:
    case.channel.basic_publish(case.exchange, "", b"m")
    case.channel.tx_commit()


def synced(case: Case) -> None:
    """A method without an answer: the next answer tells whether the channel lives."""
    case.channel.basic_qos(prefetch_count=1)


RULES: dict[str, Rule[type[Method], Case]] = {
    "exchange.declare": Rule(
        m.ExchangeDeclare,
        lambda c: c.channel.exchange_declare(c.new, "fanout"),
        lambda c: [configure("exchange", c.new)],
    ),
    "exchange.declare again": Rule(
        m.ExchangeDeclare,
        lambda c: c.channel.exchange_declare(c.exchange, "fanout"),
        lambda c: [configure("exchange", c.exchange)],
    ),
    "exchange.declare passive": Rule(
        m.ExchangeDeclare,
        lambda c: c.channel.exchange_declare(c.exchange, passive=True),
        nothing,
    ),
    "exchange.declare with alternate-exchange": Rule(
        m.ExchangeDeclare,
        lambda c: c.channel.exchange_declare(
            c.new, "fanout", arguments={"alternate-exchange": c.other}
        ),
        lambda c: [
            configure("exchange", c.new),
            read("exchange", c.new),
            write("exchange", c.other),
        ],
    ),
    "exchange.delete": Rule(
        m.ExchangeDelete,
        lambda c: c.channel.exchange_delete(c.exchange),
        lambda c: [configure("exchange", c.exchange)],
    ),
    "exchange.bind": Rule(
        m.ExchangeBind,
        lambda c: c.channel.exchange_bind(c.other, c.exchange),
        lambda c: [write("exchange", c.other), read("exchange", c.exchange)],
    ),
    "exchange.unbind": Rule(
        m.ExchangeUnbind,
        lambda c: c.channel.exchange_unbind(c.other, c.exchange),
        lambda c: [write("exchange", c.other), read("exchange", c.exchange)],
    ),
    "queue.declare": Rule(
        m.QueueDeclare,
        lambda c: c.channel.queue_declare(c.new),
        lambda c: [configure("queue", c.new)],
    ),
    "queue.declare again": Rule(
        m.QueueDeclare,
        lambda c: c.channel.queue_declare(c.queue),
        lambda c: [configure("queue", c.queue)],
    ),
    "queue.declare passive": Rule(
        m.QueueDeclare, lambda c: c.channel.queue_declare(c.queue, passive=True), nothing
    ),
    "queue.declare exclusive": Rule(
        m.QueueDeclare,
        lambda c: c.channel.queue_declare(c.new, exclusive=True),
        lambda c: [configure("queue", c.new)],
    ),
    "queue.declare without a name": Rule(
        m.QueueDeclare,
        lambda c: c.channel.queue_declare("", exclusive=True),
        lambda c: [configure("queue", GENERATED)],
    ),
    "queue.declare with dead-letter-exchange": Rule(
        m.QueueDeclare,
        lambda c: c.channel.queue_declare(c.new, arguments={"x-dead-letter-exchange": c.other}),
        lambda c: [configure("queue", c.new), read("queue", c.new), write("exchange", c.other)],
    ),
    "queue.declare without a name, with dead-letter-exchange": Rule(
        m.QueueDeclare,
        lambda c: c.channel.queue_declare(
            "", exclusive=True, arguments={"x-dead-letter-exchange": ""}
        ),
        lambda c: [
            configure("queue", GENERATED),
            read("queue", GENERATED),
            write("exchange", "amq.default"),
        ],
    ),
    "queue.bind": Rule(
        m.QueueBind,
        lambda c: c.channel.queue_bind(c.queue, c.exchange),
        lambda c: [write("queue", c.queue), read("exchange", c.exchange)],
    ),
    "queue.unbind": Rule(
        m.QueueUnbind,
        lambda c: c.channel.queue_unbind(c.queue, c.exchange),
        lambda c: [write("queue", c.queue), read("exchange", c.exchange)],
    ),
    "queue.purge": Rule(
        m.QueuePurge,
        lambda c: c.channel.queue_purge(c.queue),
        lambda c: [read("queue", c.queue)],
    ),
    "queue.delete": Rule(
        m.QueueDelete,
        lambda c: c.channel.queue_delete(c.queue),
        lambda c: [configure("queue", c.queue)],
    ),
    "basic.get": Rule(
        m.BasicGet,
        lambda c: c.channel.basic_get(c.queue),
        lambda c: [read("queue", c.queue)],
    ),
    "basic.consume": Rule(
        m.BasicConsume,
        lambda c: c.channel.basic_consume(c.queue, lambda *_: None),
        lambda c: [read("queue", c.queue)],
    ),
    "basic.consume of replies": Rule(
        m.BasicConsume,
        lambda c: c.channel.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True),
        nothing,
    ),
    "basic.publish": Rule(
        m.BasicPublish,
        lambda c: publish(c, c.exchange, ""),
        lambda c: [write("exchange", c.exchange)],
    ),
    "basic.publish to the default exchange": Rule(
        m.BasicPublish,
        lambda c: publish(c, "", c.queue),
        lambda c: [write("exchange", "amq.default")],
    ),
    "tx.commit of a publish": Rule(
        m.TxCommit,
        publish_and_commit,
        lambda c: [write("exchange", c.exchange)],
        Case.start_transaction,
    ),
    "tx.rollback": Rule(
        m.TxRollback, lambda c: c.channel.tx_rollback(), nothing, Case.start_transaction
    ),
    "tx.select": Rule(m.TxSelect, lambda c: c.channel.tx_select(), nothing),
    "confirm.select": Rule(m.ConfirmSelect, lambda c: c.channel.confirm_delivery(), nothing),
    "channel.flow": Rule(m.ChannelFlow, lambda c: c.channel.flow(True), nothing),
    "basic.qos": Rule(m.BasicQos, lambda c: c.channel.basic_qos(prefetch_count=1), nothing),
    "basic.cancel": Rule(m.BasicCancel, lambda c: c.channel.basic_cancel("none"), nothing),
    "basic.recover": Rule(
        m.BasicRecover, lambda c: c.channel.basic_recover(True), nothing, Case.fill
    ),
    "basic.ack": Rule(
        m.BasicAck, lambda c: (c.channel.basic_ack(c.tag), synced(c)), nothing, Case.fill
    ),
    "basic.nack": Rule(
        m.BasicNack, lambda c: (c.channel.basic_nack(c.tag), synced(c)), nothing, Case.fill
    ),
    "basic.reject": Rule(
        m.BasicReject, lambda c: (c.channel.basic_reject(c.tag), synced(c)), nothing, Case.fill
    ),
}
# Nothing is reached through these, or pika has no call for them.
WITHOUT_RULE = {
    m.ChannelOpen,
    m.ChannelClose,
    m.AccessRequest,
    m.BasicCancelOk,
    m.BasicRecoverAsync,
}


@pytest.fixture(scope="module")
def connection(site: Site) -> Iterator[pika.BlockingConnection]:
    site.allow_everything()
    with site.connection() as connection:
        yield connection


@pytest.fixture(scope="module")
def guest(site: Site) -> Iterator[BlockingChannel]:
    with site.as_guest() as channel:
        channel.confirm_delivery()
        yield channel


@pytest.fixture
def case(site: Site, connection: pika.BlockingConnection, guest: BlockingChannel) -> Iterator[Case]:
    site.allow_everything()
    case = Case(connection, guest)
    yield case
    case.clear()
    site.do(clear)


def refusal(rule: Rule[type[Method], Case], case: Case) -> str | None:
    """The text of the 403, or None when the method was carried out."""
    try:
        rule.act(case)
    except ChannelClosedByBroker as closed:
        assert closed.reply_code == 403, closed
        return str(closed.reply_text)
    return None


MATRIX = Matrix(RULES, refusal)
UNUSED = object.__new__(Case)
UNUSED.new, UNUSED.queue, UNUSED.exchange, UNUSED.other = "n", "q", "x", "y"


@every_subset
@pytest.mark.parametrize("name", RULES)
def test_a_method_is_done_with_the_actions_it_needs_and_refused_without(
    site: Site, case: Case, name: str, granted: tuple[str, ...]
) -> None:
    MATRIX.check_actions(site, case, name, granted)


@pytest.mark.parametrize(("name", "index"), list(MATRIX.needs(UNUSED)))
def test_a_method_is_refused_for_the_one_name_that_is_not_allowed(
    site: Site, case: Case, name: str, index: int
) -> None:
    text = MATRIX.check_missing_name(site, case, name, index)
    assert text.startswith("ACCESS_REFUSED - ")


@pytest.mark.parametrize("name", RULES)
def test_a_method_needs_no_more_than_its_rule_says(site: Site, case: Case, name: str) -> None:
    MATRIX.check_exact_needs(site, case, name)


def test_every_method_has_a_rule() -> None:
    ruled = {rule.operation.wire_id for rule in RULES.values()}
    known = {*HANDLERS, m.BasicPublish.wire_id, m.BasicAck.wire_id}

    assert ruled | {method.wire_id for method in WITHOUT_RULE} >= known
