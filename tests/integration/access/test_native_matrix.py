"""Every native request with every permission missing: refused as specified, or done."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from headrace.server.native.handlers import HANDLERS
from headrace.wire.native.payloads import Op
from support.access_matrix import (
    GENERATED,
    PASSWORD,
    USER,
    Matrix,
    Need,
    Rule,
    Site,
    clear,
    configure,
    every_subset,
    nothing,
    read,
    write,
)
from support.raw_native import Native, Refused

_numbers = count()


class Case:
    """One attempt: a channel, and names that nothing else has."""

    def __init__(self, native: Native) -> None:
        number = next(_numbers)
        self.native = native
        self.ch = number
        self.new = f"new-{number}"
        self.queue = f"q-{number}"
        self.exchange, self.other = f"x-{number}", f"y-{number}"
        native.call(Op.CHANNEL_OPEN, self.ch)
        self.call(Op.QUEUE_DECLARE, name=self.queue)
        self.call(Op.EXCHANGE_DECLARE, name=self.exchange, type="fanout")
        self.call(Op.EXCHANGE_DECLARE, name=self.other, type="fanout")
        self.tag = 0
        self.claim: object = None
        self.uuid = ""

    def call(self, kind: int, /, **fields: object) -> dict[str, object]:
        return self.native.call(kind, self.ch, **fields)

    def fill(self) -> None:
        """Get a message and keep it unacknowledged, while that is allowed."""
        self.call(Op.PUBLISH, exchange="", key=self.queue, body=b"m")
        message = self.call(Op.GET, queue=self.queue)["message"]
        assert isinstance(message, dict)
        self.tag = message["tag"]

    @property
    def topic(self) -> str:
        return f"t{self.ch}"

    def make_topic(self) -> None:
        """With a message that somebody has claimed."""
        self.call(Op.TOPIC_DECLARE, name=self.topic)
        self.call(Op.APPEND, topic=self.topic, body=b"m")
        self.claim = self.call(Op.READ, topic=self.topic, **READER, batch=1)["claim"]

    def make_durable_queue(self) -> None:
        self.call(Op.QUEUE_DECLARE, name=self.new, durable=True)
        rows = self.native.call(Op.BOUNDS, self.ch, destinations=[{"queue": self.new}])["rows"]
        self.uuid = rows[0]["uuid"]

    def make_pinned_queue(self) -> None:
        self.make_durable_queue()
        self.pin()

    def pin(self) -> None:
        positions = [{"queue": self.new, "uuid": self.uuid, "next": {"0": 0}}]
        self.call(Op.PIN, query=self.new, max_bytes=1, positions=positions)

    def stage(self, **fields: object) -> None:
        message = {"exchange": self.exchange, "key": "", "body": b"m"}
        batch = {"query": self.new, "batch": 0, "attempt": "a", "messages": [message]}
        self.call(Op.STAGE, **{**batch, **fields})

    def stage_for_topic(self) -> None:
        self.make_topic()
        self.stage(topic=self.topic, messages=[{"body": b"m"}])

    def publish_staged(self) -> None:
        self.call(Op.PUBLISH_STAGED, query=self.new, batch=0, attempts=["a"])

    def bind(self) -> None:
        self.call(Op.BIND, queue=self.queue, source=self.exchange, key="")
        self.call(Op.BIND, exchange=self.other, source=self.exchange, key="")


READER = {"token": "reader", "group": "group"}


def on_topic(op: Op, action: str, **fields: object) -> Rule:
    """An operation on a topic; its permissions are those of the exchange of its name."""

    def act(case: Case) -> object:
        claimed = {"claim": case.claim} if fields.get("claim") else {}
        return case.call(op, topic=case.topic, **{**fields, **claimed})

    return Rule(op, act, lambda c: [Need(action, "topic", f"topic.{c.topic}")], Case.make_topic)


RULES: dict[str, Rule[Op, Case]] = {
    "exchange_declare": Rule(
        Op.EXCHANGE_DECLARE,
        lambda c: c.call(Op.EXCHANGE_DECLARE, name=c.new, type="fanout"),
        lambda c: [configure("exchange", c.new)],
    ),
    "exchange_declare direct": Rule(  # it reaches every queue by name
        Op.EXCHANGE_DECLARE,
        lambda c: c.call(Op.EXCHANGE_DECLARE, name=c.new, type="direct"),
        lambda c: [configure("exchange", c.new), write("exchange", "amq.default")],
    ),
    "exchange_declare with alternate-exchange": Rule(
        Op.EXCHANGE_DECLARE,
        lambda c: c.call(
            Op.EXCHANGE_DECLARE,
            name=c.new,
            type="fanout",
            arguments={"alternate-exchange": c.other},
        ),
        lambda c: [
            configure("exchange", c.new),
            read("exchange", c.new),
            write("exchange", c.other),
        ],
    ),
    "exchange_delete": Rule(
        Op.EXCHANGE_DELETE,
        lambda c: c.call(Op.EXCHANGE_DELETE, name=c.exchange),
        lambda c: [configure("exchange", c.exchange)],
    ),
    "queue_declare": Rule(
        Op.QUEUE_DECLARE,
        lambda c: c.call(Op.QUEUE_DECLARE, name=c.new),
        lambda c: [configure("queue", c.new)],
    ),
    "queue_declare without a name": Rule(
        Op.QUEUE_DECLARE,
        lambda c: c.call(Op.QUEUE_DECLARE, name=""),
        lambda c: [configure("queue", GENERATED)],
    ),
    "queue_declare with dead-letter-exchange": Rule(
        Op.QUEUE_DECLARE,
        lambda c: c.call(
            Op.QUEUE_DECLARE, name=c.new, arguments={"x-dead-letter-exchange": c.other}
        ),
        lambda c: [configure("queue", c.new), read("queue", c.new), write("exchange", c.other)],
    ),
    "queue_delete": Rule(
        Op.QUEUE_DELETE,
        lambda c: c.call(Op.QUEUE_DELETE, name=c.queue),
        lambda c: [configure("queue", c.queue)],
    ),
    "bind of a queue": Rule(
        Op.BIND,
        lambda c: c.call(Op.BIND, queue=c.queue, source=c.exchange, key=""),
        lambda c: [write("queue", c.queue), read("exchange", c.exchange)],
    ),
    "bind of an exchange": Rule(
        Op.BIND,
        lambda c: c.call(Op.BIND, exchange=c.other, source=c.exchange, key=""),
        lambda c: [write("exchange", c.other), read("exchange", c.exchange)],
    ),
    "unbind of a queue": Rule(
        Op.UNBIND,
        lambda c: c.call(Op.UNBIND, queue=c.queue, source=c.exchange),
        lambda c: [write("queue", c.queue), read("exchange", c.exchange)],
        Case.bind,
    ),
    "unbind of an exchange": Rule(
        Op.UNBIND,
        lambda c: c.call(Op.UNBIND, exchange=c.other, source=c.exchange),
        lambda c: [write("exchange", c.other), read("exchange", c.exchange)],
        Case.bind,
    ),
    "publish": Rule(
        Op.PUBLISH,
        lambda c: c.call(Op.PUBLISH, exchange=c.exchange, key="", body=b"m"),
        lambda c: [write("exchange", c.exchange)],
    ),
    "publish to the default exchange": Rule(
        Op.PUBLISH,
        lambda c: c.call(Op.PUBLISH, exchange="", key=c.queue, body=b"m"),
        lambda c: [write("exchange", "amq.default")],
    ),
    "publish of a batch": Rule(
        Op.PUBLISH,
        lambda c: c.call(
            Op.PUBLISH,
            batch=[{"exchange": name, "key": "", "body": b"m"} for name in (c.exchange, c.other)],
        ),
        lambda c: [write("exchange", c.exchange), write("exchange", c.other)],
    ),
    "consume": Rule(
        Op.CONSUME,
        lambda c: c.call(Op.CONSUME, queue=c.queue),
        lambda c: [read("queue", c.queue)],
    ),
    "get": Rule(
        Op.GET, lambda c: c.call(Op.GET, queue=c.queue), lambda c: [read("queue", c.queue)]
    ),
    "purge": Rule(
        Op.PURGE, lambda c: c.call(Op.PURGE, queue=c.queue), lambda c: [read("queue", c.queue)]
    ),
    "qos": Rule(Op.QOS, lambda c: c.call(Op.QOS, prefetch=1), nothing),
    "ack": Rule(Op.ACK, lambda c: c.call(Op.ACK, tag=c.tag), nothing, Case.fill),
    "nack": Rule(Op.NACK, lambda c: c.call(Op.NACK, tag=c.tag), nothing, Case.fill),
    "list": Rule(Op.LIST, lambda c: c.call(Op.LIST, kind="queues"), nothing),
    "topic_declare": Rule(
        Op.TOPIC_DECLARE,
        lambda c: c.call(Op.TOPIC_DECLARE, name=c.topic),
        lambda c: [configure("topic", f"topic.{c.topic}")],
    ),
    "topic_delete": Rule(
        Op.TOPIC_DELETE,
        lambda c: c.call(Op.TOPIC_DELETE, name=c.topic),
        lambda c: [configure("topic", f"topic.{c.topic}")],
        Case.make_topic,
    ),
    "topic_describe": Rule(
        Op.TOPIC_DESCRIBE,
        lambda c: c.call(Op.TOPIC_DESCRIBE, name=c.topic),
        lambda c: [read("topic", f"topic.{c.topic}")],
        Case.make_topic,
    ),
    "append": on_topic(Op.APPEND, "write", body=b"m"),
    "read": on_topic(Op.READ, "read", **READER, batch=1),
    "commit": on_topic(Op.COMMIT, "read", **READER, claim=True),
    "topic_nack": on_topic(Op.TOPIC_NACK, "read", **READER, claim=True, ids=[]),
    "renew": on_topic(Op.RENEW, "read", **READER, claim=True),
    "seek": on_topic(Op.SEEK, "read", **READER, time_ms=0),
    "lag": on_topic(Op.LAG, "read", **READER),
    "forget_group": on_topic(Op.FORGET_GROUP, "read", **READER),
    "dead": on_topic(Op.DEAD, "read", **READER),
    "bounds": Rule(
        Op.BOUNDS,
        lambda c: c.call(Op.BOUNDS, destinations=[{"queue": c.new}]),
        lambda c: [read("queue", c.new)],
        Case.make_durable_queue,
    ),
    "fetch": Rule(
        Op.FETCH,
        lambda c: c.call(Op.FETCH, queue=c.new, start=0, end=0),
        lambda c: [read("queue", c.new)],
        Case.make_durable_queue,
    ),
    "locate": Rule(
        Op.LOCATE,
        lambda c: c.call(Op.LOCATE, queue=c.new, start=0, end=0, seeds=True),
        lambda c: [read("queue", c.new)],
        Case.make_durable_queue,
    ),
    "records": Rule(
        Op.RECORDS,
        lambda c: c.call(Op.RECORDS, queue=c.new, start=0, end=0),
        lambda c: [read("queue", c.new)],
        Case.make_durable_queue,
    ),
    "count of records": Rule(
        Op.RECORDS,
        lambda c: c.call(Op.RECORDS, queue=c.new, start=0, end=0, count=True),
        lambda c: [read("queue", c.new)],
        Case.make_durable_queue,
    ),
    "bounds of a topic": Rule(
        Op.BOUNDS,
        lambda c: c.call(Op.BOUNDS, destinations=[{"topic": c.topic}]),
        lambda c: [read("topic", f"topic.{c.topic}")],
        Case.make_topic,
    ),
    "pin": Rule(
        Op.PIN,
        lambda c: c.pin(),
        lambda c: [read("queue", c.new)],
        Case.make_durable_queue,
    ),
    "unpin": Rule(
        Op.UNPIN,
        lambda c: c.call(Op.UNPIN, query=c.new),
        lambda c: [read("queue", c.new)],
        Case.make_pinned_queue,
    ),
    "stage": Rule(Op.STAGE, lambda c: c.stage(), lambda c: [write("exchange", c.exchange)]),
    "stage for a topic": Rule(
        Op.STAGE,
        lambda c: c.stage(topic=c.topic, messages=[{"body": b"m"}]),
        lambda c: [write("topic", f"topic.{c.topic}")],
    ),
    "publish_staged": Rule(
        Op.PUBLISH_STAGED,
        lambda c: c.publish_staged(),
        lambda c: [write("exchange", c.exchange)],
        lambda c: c.stage(),
    ),
    "publish_staged to a topic": Rule(
        Op.PUBLISH_STAGED,
        lambda c: c.publish_staged(),
        lambda c: [write("topic", f"topic.{c.topic}")],
        Case.stage_for_topic,
    ),
    "tell_pipeline": Rule(
        Op.TELL_PIPELINE,
        lambda c: c.call(Op.TELL_PIPELINE, name=c.new, state={"rows": 1}),
        lambda c: [read("pipeline", c.new)],
    ),
    "channel_close": Rule(Op.CHANNEL_CLOSE, lambda c: c.call(Op.CHANNEL_CLOSE), nothing),
}
# What a user consumes may be cancelled by that user only; revocation has tests of its own.
WITHOUT_RULE = {Op.CANCEL}


@pytest.fixture(scope="module")
def native(site: Site) -> Iterator[Native]:
    site.allow_everything()
    native = Native(("127.0.0.1", site.running.ports["native"]))
    native.hello(user=USER, password=PASSWORD)
    yield native
    native.close()


@pytest.fixture
def case(site: Site, native: Native) -> Iterator[Case]:
    site.allow_everything()
    yield Case(native)
    site.do(clear)
    native.pushed.clear()


def refusal(rule: Rule[Op, Case], case: Case) -> str | None:
    """The text of the refusal, or None when the request was carried out."""
    try:
        rule.act(case)
    except Refused as refused:
        assert refused.code == "access_refused", refused
        return str(refused.answer["text"])
    return None


MATRIX = Matrix(RULES, refusal)
UNUSED = object.__new__(Case)
UNUSED.ch = 0
UNUSED.new, UNUSED.queue, UNUSED.exchange, UNUSED.other = "n", "q", "x", "y"


@every_subset
@pytest.mark.parametrize("name", RULES)
def test_a_request_is_done_with_the_actions_it_needs_and_refused_without(
    site: Site, case: Case, name: str, granted: tuple[str, ...]
) -> None:
    MATRIX.check_actions(site, case, name, granted)


@pytest.mark.parametrize(("name", "index"), list(MATRIX.needs(UNUSED)))
def test_a_request_is_refused_for_the_one_name_that_is_not_allowed(
    site: Site, case: Case, name: str, index: int
) -> None:
    MATRIX.check_missing_name(site, case, name, index)


@pytest.mark.parametrize("name", RULES)
def test_a_request_needs_no_more_than_its_rule_says(site: Site, case: Case, name: str) -> None:
    MATRIX.check_exact_needs(site, case, name)


def test_a_list_shows_what_may_be_used(site: Site, case: Case) -> None:
    site.allow("^$", f"^{case.exchange}$", f"^{case.queue}$")
    case.call(Op.LIST, kind="queues")

    shown = {
        kind: [row["name"] for row in case.native.call(Op.LIST, case.ch, kind=kind)["rows"]]
        for kind in ("queues", "exchanges")
    }

    assert shown == {"queues": [case.queue], "exchanges": [case.exchange]}


def test_every_request_has_a_rule() -> None:
    assert {rule.operation for rule in RULES.values()} | WITHOUT_RULE >= set(HANDLERS)
