"""Scenarios 8 to 13 and 17 to 19: messages are kept in order, read back equal, and go for good."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.client import NotFound
from support.brokers import _environment
from support.protocol_clients import Got, NativeDoor
from support.restartable_broker import Restartable

PERSISTENT = 2


def publish(door: NativeDoor, queue: str, count: int) -> list[bytes]:
    bodies = [f"testMessage{number}".encode() for number in range(count)]
    door.channel.publish_batch([("", queue, {"delivery_mode": 2}, body) for body in bodies])
    return bodies


def reopened(site: Restartable, door: NativeDoor) -> NativeDoor:
    door.close()
    site.restart()
    return NativeDoor({"native": site.port})


@pytest.fixture
def door(restartable: Restartable) -> NativeDoor:
    door = NativeDoor({"native": restartable.port})
    door.declare_queue("testQueue", durable=True)
    return door


def counts(door: NativeDoor) -> dict[str, int]:
    return {row["name"]: row["messages"] for row in door.rows("queues")}


def test_8_9_queues_have_counts_of_their_own(restartable: Restartable, door: NativeDoor) -> None:
    door.declare_queue("other", durable=True)
    publish(door, "testQueue", 100)
    publish(door, "other", 50)
    door = reopened(restartable, door)
    assert counts(door) == {"testQueue": 100, "other": 50}
    door.close()


def test_10_one_persistent_message(restartable: Restartable, door: NativeDoor) -> None:
    door.publish("", "testQueue", b"testMessage", PERSISTENT)
    before = door.channel.basic_get("testQueue")
    assert before is not None
    door = reopened(restartable, door)

    assert counts(door) == {"testQueue": 1}
    after = door.channel.basic_get("testQueue")
    assert after is not None
    assert after.message_id == before.message_id
    assert after.redelivered
    assert (after.routing_key, after.properties.delivery_mode) == ("testQueue", PERSISTENT)
    assert after.body == b"testMessage"
    door.close()


def test_11_a_hundred_messages_in_order(restartable: Restartable, door: NativeDoor) -> None:
    sent = publish(door, "testQueue", 100)
    door = reopened(restartable, door)
    assert door.take_all("testQueue") == sent
    door.close()


def test_12_the_first_three_of_ten_are_gone(restartable: Restartable, door: NativeDoor) -> None:
    sent = publish(door, "testQueue", 10)
    for _ in range(3):
        door.take("testQueue")
    door = reopened(restartable, door)
    assert door.take_all("testQueue") == sent[3:]
    door.close()


def test_13_compaction_keeps_what_was_not_deleted(
    restartable: Restartable, door: NativeDoor, tmp_path: Path
) -> None:
    bodies = [b"%d" % number + b"x" * 50_000 for number in range(100)]
    door.channel.publish_batch([("", "testQueue", {"delivery_mode": 2}, one) for one in bodies])
    held = [door.channel.basic_get("testQueue") for _ in range(100)]
    for one in held[::2]:
        assert one is not None
        one.ack()
    door.close()
    restartable.stop()
    before = size(tmp_path / "data")
    compact(tmp_path / "data")
    assert size(tmp_path / "data") < before

    restartable.start()
    door = NativeDoor({"native": restartable.port})
    assert door.take_all("testQueue") == bodies[1::2]
    door.close()


def compact(directory: Path) -> None:
    command = [sys.executable, "-m", "headrace", "compact", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=_environment({}))
    assert done.returncode == 0, done.stdout + done.stderr


def size(directory: Path) -> int:
    """Blocks, not lengths: segments are laid out in advance."""
    return sum(one.stat().st_blocks for one in directory.rglob("*") if one.is_file())


def test_17_18_messages_come_out_as_they_went_in(door: NativeDoor) -> None:
    for number in range(10):
        door.publish("", "testQueue", b"%d" % number)

    got = [door.take("testQueue") for _ in range(11)]
    assert got == [*(Got("testQueue", 1, b"%d" % number) for number in range(10)), None]
    door.close()


def test_19_an_unacknowledged_message_is_found_by_queue_and_id(door: NativeDoor) -> None:
    door.publish("", "testQueue", b"x")
    delivery = door.channel.basic_get("testQueue")
    assert delivery is not None
    door.channel.basic_ack("testQueue", delivery.message_id)

    with pytest.raises(NotFound):
        door.channel.basic_ack("testQueue", delivery.message_id)
    assert counts(door) == {"testQueue": 0}
    door.close()
