"""Lists, and operations which are not there."""

from __future__ import annotations

import pytest

from support.native_types import Connect, Namer, StartBroker
from support.raw_native import CONSUME, EXCHANGE_DECLARE, LIST, Native, Refused


def test_queues_are_listed_with_their_attributes(client: Native, name: Namer) -> None:
    own = client.queue(name(), durable=True, arguments={"x-max-length": 5})

    assert client.rows("queues", name=own) == [
        {
            "name": own,
            "durable": True,
            "exclusive": False,
            "auto_delete": False,
            "arguments": {"x-max-length": 5},
            "messages": 0,
            "messages_unacknowledged": 0,
            "consumers": 0,
        }
    ]


def test_exchanges_and_consumers_are_listed(client: Native, name: Namer, queue: str) -> None:
    client.call(CONSUME, queue=queue, consumer_tag="c", auto_ack=True)

    assert client.rows("exchanges", name="", type="direct")
    assert client.rows("consumers", queue=queue) == [
        {"queue": queue, "consumer_tag": "c", "prefetch": 0, "ack_required": False}
    ]


def test_lists_come_in_pages(start_broker: StartBroker, connect: Connect) -> None:
    client = connect(start_broker())
    rids = [
        client.request(EXCHANGE_DECLARE, name=f"x{number:04}", type="fanout")
        for number in range(1500)
    ]
    for rid in rids:
        client.answer(rid)

    pages = [client.call(LIST, kind="exchanges", page=number) for number in range(3)]
    assert [(len(page["rows"]), page["more"]) for page in pages] == [
        (1000, True),
        (507, False),
        (0, False),
    ]


def test_lists_of_one_name_and_of_vhosts(client: Native, name: Namer) -> None:
    own, other = client.queue(name(), durable=True), client.queue(name(), durable=True)

    rows = client.call(LIST, kind="queues", name=own)["rows"]
    assert [row["name"] for row in rows] == [own]
    assert client.call(LIST, kind="queues", name=own + other)["rows"] == []
    assert {"name": "/"} in client.call(LIST, kind="vhosts")["rows"]
    assert client.call(LIST, kind="vhosts", name="nowhere")["rows"] == []
    with pytest.raises(Refused):
        client.call(LIST, kind="queues", name=7)


@pytest.mark.parametrize(
    ("kind", "code"),
    [("topic", "precondition_failed"), ("x", "precondition_failed")],
)
def test_other_lists_are_refused(client: Native, kind: str, code: str) -> None:
    with pytest.raises(Refused) as refused:
        client.call(LIST, kind=kind)
    assert refused.value.code == code
