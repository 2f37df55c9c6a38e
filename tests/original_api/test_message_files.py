"""Scenarios 8 to 13 and 17 to 19: messages are kept in order, read back equal, and go for good."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.client import NotFound
from support.brokers import _environment
from support.protocol_clients import Got, NativeClient
from support.restartable_broker import Restartable

PERSISTENT = 2


def publish(client: NativeClient, queue: str, count: int) -> list[bytes]:
    bodies = [f"testMessage{number}".encode() for number in range(count)]
    client.channel.publish_batch([("", queue, {"delivery_mode": 2}, body) for body in bodies])
    return bodies


def reopened(site: Restartable, client: NativeClient) -> NativeClient:
    client.close()
    site.restart()
    return NativeClient({"native": site.port})


@pytest.fixture
def client(restartable: Restartable) -> NativeClient:
    client = NativeClient({"native": restartable.port})
    client.declare_queue("testQueue", durable=True)
    return client


def counts(client: NativeClient) -> dict[str, int]:
    return {row["name"]: row["messages"] for row in client.rows("queues")}


def test_8_9_queues_have_counts_of_their_own(
    restartable: Restartable, client: NativeClient
) -> None:
    client.declare_queue("other", durable=True)
    publish(client, "testQueue", 100)
    publish(client, "other", 50)
    client = reopened(restartable, client)
    assert counts(client) == {"testQueue": 100, "other": 50}
    client.close()


def test_10_one_persistent_message(restartable: Restartable, client: NativeClient) -> None:
    client.publish("", "testQueue", b"testMessage", PERSISTENT)
    before = client.channel.basic_get("testQueue")
    assert before is not None
    client = reopened(restartable, client)

    assert counts(client) == {"testQueue": 1}
    after = client.channel.basic_get("testQueue")
    assert after is not None
    assert after.message_id == before.message_id
    assert after.redelivered
    assert (after.routing_key, after.properties.delivery_mode) == ("testQueue", PERSISTENT)
    assert after.body == b"testMessage"
    client.close()


def test_11_a_hundred_messages_in_order(restartable: Restartable, client: NativeClient) -> None:
    sent = publish(client, "testQueue", 100)
    client = reopened(restartable, client)
    assert client.take_all("testQueue") == sent
    client.close()


def test_12_the_first_three_of_ten_are_gone(restartable: Restartable, client: NativeClient) -> None:
    sent = publish(client, "testQueue", 10)
    for _ in range(3):
        client.take("testQueue")
    client = reopened(restartable, client)
    assert client.take_all("testQueue") == sent[3:]
    client.close()


def test_13_compaction_keeps_what_was_not_deleted(
    restartable: Restartable, client: NativeClient, tmp_path: Path
) -> None:
    bodies = [b"%d" % number + b"x" * 50_000 for number in range(100)]
    client.channel.publish_batch([("", "testQueue", {"delivery_mode": 2}, one) for one in bodies])
    held = [client.channel.basic_get("testQueue") for _ in range(100)]
    for one in held[::2]:
        assert one is not None
        one.ack()
    client.close()
    restartable.stop()
    before = size(tmp_path / "data")
    compact(tmp_path / "data")
    assert size(tmp_path / "data") < before

    restartable.start()
    client = NativeClient({"native": restartable.port})
    assert client.take_all("testQueue") == bodies[1::2]
    client.close()


def compact(directory: Path) -> None:
    command = [sys.executable, "-m", "headrace", "compact", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=_environment({}))
    assert done.returncode == 0, done.stdout + done.stderr


def size(directory: Path) -> int:
    """Blocks, not lengths: segments are laid out in advance."""
    return sum(one.stat().st_blocks for one in directory.rglob("*") if one.is_file())


def test_17_18_messages_come_out_as_they_went_in(client: NativeClient) -> None:
    for number in range(10):
        client.publish("", "testQueue", b"%d" % number)

    got = [client.take("testQueue") for _ in range(11)]
    assert got == [*(Got("testQueue", 1, b"%d" % number) for number in range(10)), None]
    client.close()


def test_19_an_unacknowledged_message_is_found_by_queue_and_id(client: NativeClient) -> None:
    client.publish("", "testQueue", b"x")
    delivery = client.channel.basic_get("testQueue")
    assert delivery is not None
    client.channel.basic_ack("testQueue", delivery.message_id)

    with pytest.raises(NotFound):
        client.channel.basic_ack("testQueue", delivery.message_id)
    assert counts(client) == {"testQueue": 0}
    client.close()
