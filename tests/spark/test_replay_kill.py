"""`headrace replay`, killed in the middle and repeated: every message is sent once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import headrace.topics
from headrace.bulk.client import BulkConnection
from headrace.client import Channel, ConnectionFactory
from headrace.demo.broker import lasting_ports
from headrace.testing import wait_for
from support import brokers

COUNT = 2500
SECONDS = 240.0
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


class Place:
    """A broker with the topic ``events``, whose messages are replayed into the queue ``again``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = lasting_ports()["native"]  # for the next broker, too
        self.broker = self._started()
        with headrace.topics.open(self.url) as store:
            store.create("events", queues=2)
            producer = store.producer("events", token="t")
            producer.append_many([headrace.topics.NewMessage(b"%d" % n) for n in range(COUNT)])
        with self.connected() as connection:
            connection.create_channel().queue_declare("again", durable=True)
        self.until = datetime.now(UTC) + timedelta(milliseconds=1)

    @property
    def url(self) -> str:
        return f"headrace://guest:guest@127.0.0.1:{self.port}/"

    def _started(self) -> brokers.Broker:
        return brokers.start(self.directory, "--native-port", str(self.port))

    def connected(self) -> Any:  # noqa: ANN401 - a connection
        return ConnectionFactory("127.0.0.1", self.port).new_connection()

    def kill_broker(self) -> None:
        self.broker.kill()
        self.broker = self._started()

    def replay(self, rate: int) -> subprocess.Popen[str]:
        source = str(Path(__file__).parents[2] / "src")
        state = str(self.directory / "state")
        command = [sys.executable, "-m", "headrace", "replay", "--url", self.url, "-t", "events",
                   "--from", LONG_AGO.isoformat(), "--to", self.until.isoformat(), "--into", "",
                   "--routing-key", "again", "--rate", str(rate), "--yes", "--json",
                   "--master", "local[2]", "--state-dir", state]  # fmt: skip
        return subprocess.Popen(
            command,
            env=os.environ | {"PYTHONPATH": source},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def sent(self) -> int:
        with self.connected() as connection:
            return int(connection.create_channel().queue_declare("again", durable=True).messages)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.broker.stop()


def drain(channel: Channel) -> list[bytes]:
    found = []
    while (message := channel.basic_get("again", auto_ack=True)) is not None:
        found.append(message.body)
    return found


def until_sent(place: Place, process: subprocess.Popen[str], wanted: int) -> None:
    wait_for(lambda: place.sent() >= wanted or process.poll() is not None, SECONDS, 0.05)
    assert process.poll() is None, process.communicate()


@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_a_replay_that_is_killed_and_repeated_sends_every_message_once(place: Place) -> None:
    chance = random.Random(int(os.environ.get("CHAOS_SEED", "3")))
    for _ in range(3):
        before = place.sent()
        with place.replay(rate=300) as process:
            until_sent(place, process, before + chance.randrange(1, 500))
            os.killpg(process.pid, signal.SIGKILL)
    with place.replay(rate=300) as process:  # the broker instead: that is told, and no more
        until_sent(place, process, place.sent() + 1)
        place.kill_broker()
        _, err = process.communicate(timeout=SECONDS)
        assert (process.returncode, err.count("\n")) == (1, 1), err
    partly = place.sent()
    assert 0 < partly < COUNT
    for sent, before in ((COUNT - partly, partly), (0, COUNT)):
        with place.replay(rate=100_000) as process:
            out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, err
        assert json.loads(out) == {"found": COUNT, "sent": sent, "sent_before": before}

    with place.connected() as connection:
        found = Counter(drain(connection.create_channel()))
    assert found == Counter(b"%d" % n for n in range(COUNT))


def test_what_a_killed_replay_has_staged_is_not_sent_by_its_repetition(
    spark: Any,  # noqa: ANN401 - pyspark's own
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from headrace.spark.replay.replay import Replay
    from headrace.spark.replay.request import ReplayRequest

    def killed(*args: object) -> bool:
        raise KeyboardInterrupt

    request = ReplayRequest((), ("events",), LONG_AGO, place.until, None, "", "again")
    job = Replay(spark, request, place.url)
    with monkeypatch.context() as patched:
        patched.setattr(BulkConnection, "publish_staged", killed)
        with pytest.raises(KeyboardInterrupt):
            job.send(1e6, lambda sent, before: None)
    assert place.sent() == 0

    assert job.send(1e6, lambda sent, before: None) == (COUNT, 0)
    with place.connected() as connection:
        assert Counter(drain(connection.create_channel())) == Counter(
            b"%d" % n for n in range(COUNT)
        )
