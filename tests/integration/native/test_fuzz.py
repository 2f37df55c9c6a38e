"""Plausible requests in implausible orders: each is answered once, and nothing breaks inside.

Other than plain noise these get past the checks of types, deep into the broker.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from support.native_types import Connect
from support.raw_native import (
    ACK,
    BIND,
    CANCEL,
    CHANNEL_CLOSE,
    CHANNEL_OPEN,
    CONSUME,
    EXCHANGE_DECLARE,
    EXCHANGE_DELETE,
    GET,
    LIST,
    NACK,
    PUBLISH,
    PURGE,
    QOS,
    QUEUE_DECLARE,
    QUEUE_DELETE,
    UNBIND,
    Native,
    SocketEnded,
)

pytestmark = pytest.mark.usefixtures("alive")

REQUESTS = 300
QUEUES = ["fuzz-a", "fuzz-a", "fuzz-b", "fuzz-b", "missing", "amq.rabbitmq.reply-to", "amq.gen-x"]
EXCHANGES = ["", "fuzz-x", "fuzz-y", "amq.topic", "amq.headers", "missing"]
KEYS = ["", "fuzz-a", "fuzz-b", "a.b", "#", "a.*", "amq.rabbitmq.reply-to.nobody"]
TAGS = ["t1", "t2", "", "missing"]


class Monkey:
    """Makes requests; mostly sensible ones, sometimes with a field too many or of another kind."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._makers = [
            self._declarations,
            self._bindings,
            self._publishes,
            self._publishes,
            self._consuming,
            self._settling,
            self._settling,
            self._others,
        ]

    def request(self) -> tuple[int, int, dict[str, Any]]:
        """Operation, channel, fields."""
        pick = self._random.choice
        kind, fields = pick(self._makers)()
        if self._random.random() < 0.003:
            fields[pick(["queue", "arguments", "tag", "durable"])] = pick([None, {}, "x", 7])
        return kind, pick([1, 1, 2, 2, 3]), fields

    def _flag(self) -> bool:
        return self._random.random() < 0.3

    def _declarations(self) -> tuple[int, dict[str, Any]]:
        pick = self._random.choice
        arguments = pick(
            [
                {},
                {},
                {"x-max-length": 3, "x-overflow": pick(["drop-head", "reject-publish", "?"])},
                {"x-message-ttl": pick([0, 1, -1, 2**63, "soon"])},
                {"x-dead-letter-exchange": pick(EXCHANGES), "x-max-priority": pick([0, 5, 999])},
                {"x-queue-type": pick(["classic", "quorum", "stream", 5])},
                {"alternate-exchange": pick(EXCHANGES), "x-delayed-type": "fanout"},
            ]
        )
        common = {"durable": self._flag(), "auto_delete": self._flag(), "arguments": arguments}
        types = ["direct", "fanout", "topic", "headers", "x-delayed-message", "unknown"]
        return pick(
            [
                (QUEUE_DECLARE, {"name": pick(QUEUES), "exclusive": self._flag(), **common}),
                (EXCHANGE_DECLARE, {"name": pick(EXCHANGES), "type": pick(types), **common}),
            ]
        )

    def _bindings(self) -> tuple[int, dict[str, Any]]:
        pick = self._random.choice
        end = {"queue": pick(QUEUES)} if self._flag() else {"exchange": pick(EXCHANGES[1:])}
        arguments = pick([{}, {"x-match": pick(["all", "any", "?"]), "a": pick([1, None, [1]])}])
        fields = {**end, "source": pick(EXCHANGES), "key": pick(KEYS), "arguments": arguments}
        if self._flag():
            del fields["key"]
        return pick([BIND, UNBIND]), fields

    def _publishes(self) -> tuple[int, dict[str, Any]]:
        batch = [self._message() for _ in range(self._random.randrange(6))]
        return PUBLISH, ({"batch": batch} if self._flag() else self._message())

    def _message(self) -> dict[str, Any]:
        pick = self._random.choice
        properties: dict[str, Any] = pick(
            [
                {},
                {"delivery_mode": pick([1, 2, 2, 3, True])},
                {"message_id": "same", "priority": pick([0, 9, 300])},
                {"headers": {"CC": ["fuzz-a", pick(["fuzz-b", 5])], "x-delay": pick([0, 1, -1])}},
                {"headers": {"a": pick([1, "text", None, [1, {"b": b"x"}]])}},
                {"expiration": pick(["0", "1", "-1", "x", 5])},
                {"reply_to": "amq.rabbitmq.reply-to", "user_id": pick(["guest", "other"])},
            ]
        )
        body = self._random.randbytes(pick([0, 1, 100, 200_000]))
        key, exchange = pick(KEYS), pick(EXCHANGES)
        return {"exchange": exchange, "key": key, "properties": properties, "body": body}

    def _consuming(self) -> tuple[int, dict[str, Any]]:
        pick = self._random.choice
        queue, tag = pick(QUEUES), pick(TAGS)
        consume = {
            "queue": queue,
            "consumer_tag": tag,
            "auto_ack": self._flag() or "reply" in queue,
            "exclusive": self._random.random() < 0.1,
            "arguments": pick([{}, {"x-priority": pick([1, -1, "high"])}]),
        }
        return pick(
            [
                (CONSUME, consume),
                (CONSUME, consume),
                (CANCEL, {"consumer_tag": tag}),
                (GET, {"queue": queue, "auto_ack": self._flag()}),
                (QOS, {"prefetch": pick([0, 1, 100, 70_000])}),
            ]
        )

    def _settling(self) -> tuple[int, dict[str, Any]]:
        pick = self._random.choice
        fields: dict[str, Any] = {"multiple": self._flag()}
        if self._flag():
            fields |= {"queue": pick(QUEUES), "message_id": pick(["same", "missing"])}
        else:
            fields["tag"] = self._random.randrange(40)
        return pick([(ACK, fields), (NACK, {**fields, "requeue": self._flag()})])

    def _others(self) -> tuple[int, dict[str, Any]]:
        pick = self._random.choice
        return pick(
            [
                (CHANNEL_OPEN, {}),
                (CHANNEL_OPEN, {}),
                (CHANNEL_CLOSE, {}),
                (QUEUE_DELETE, {"name": pick(QUEUES), "if_empty": self._flag()}),
                (EXCHANGE_DELETE, {"name": pick(EXCHANGES), "if_unused": self._flag()}),
                (PURGE, {"queue": pick(QUEUES)}),
                (LIST, {"kind": pick(["queues", "exchanges", "bindings", "consumers", "?"])}),
            ]
        )


def play(client: Native, monkey: Monkey) -> list[dict[str, Any]]:
    """Send everything; the answers, in the order of the questions, as far as they came."""
    rids = [client.request(CHANNEL_OPEN, channel) for channel in (2, 3)]
    rids += [client.request(QUEUE_DECLARE, name=name) for name in ("fuzz-a", "fuzz-b")]
    rids.append(client.request(EXCHANGE_DECLARE, name="fuzz-x", type="fanout"))
    try:
        for _ in range(REQUESTS):
            kind, channel, fields = monkey.request()
            rids.append(client.request(kind, channel, **fields))
        client.request(LIST, 99, kind="queues")  # refused: the last answer to wait for
    except OSError:
        pass  # it has hung up already: it was told something impossible
    found: dict[Any, dict[str, Any]] = {}
    try:
        # A refusal may overtake the answer to a publish, which waits for the disk.
        while client._rid not in found or not set(rids) <= set(found):
            _, fields = client.read(20)
            if fields.get("rid") is not None:
                assert fields["rid"] not in found, "answered twice"
                found[fields["rid"]] = fields
    except SocketEnded:
        assert any(one.get("closed") for one in found.values()), "hung up without a word"
    else:
        assert set(rids) <= set(found), "a request without an answer"
    return list(found.values())


@pytest.mark.parametrize("seed", range(40))
def test_every_request_is_answered_once_and_nothing_fails_inside(
    connect: Connect, seed: int
) -> None:
    monkey, client = Monkey(seed), connect()
    answers = play(client, monkey)
    assert [one["text"] for one in answers if one.get("code") in ("internal", "store")] == []
    cleaner = connect()
    for row in cleaner.rows("queues"):
        if row["name"].startswith("fuzz-") and not row["exclusive"]:
            cleaner.call(QUEUE_DELETE, name=row["name"])
