"""`headrace fsck`, `compact`, `backup` and `restore` beside real brokers, also under load."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from headrace.cli.main import main
from headrace.testing import wait_for
from support import brokers
from support.brokers import Broker
from support.shell import on_terminal

PERSISTENT = pika.BasicProperties(delivery_mode=2)
StartBroker = Callable[..., Broker]


def connect(broker: Broker) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(broker.url))


def publish(channel: BlockingChannel, queue: str, *bodies: bytes) -> None:
    """Confirmed when this returns."""
    for body in bodies:
        channel.basic_publish("", queue, body, PERSISTENT)


def drain(broker: Broker, queue: str) -> list[bytes]:
    found = []
    with connect(broker) as connection:
        channel = connection.channel()
        while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
            found.append(got[2])
    return found


def fill(broker: Broker, queue: str, *bodies: bytes, acknowledge: int = 0) -> None:
    with connect(broker) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(queue, durable=True)
        publish(channel, queue, *bodies)
        for _ in range(acknowledge):
            got, _, _ = channel.basic_get(queue)
            assert got is not None
            channel.basic_ack(got.delivery_tag)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "data"


class Load:
    """A publisher that waits for every confirm, and a consumer that acknowledges most of it."""

    def __init__(self, broker: Broker, queue: str) -> None:
        self._broker = broker
        self._queue = queue
        self._stop = threading.Event()
        self.confirmed: list[int] = []
        self.acknowledging: set[int] = set()  # about to be; after that nothing is known
        self._threads = [threading.Thread(target=one) for one in (self._publish, self._consume)]
        for thread in self._threads:
            thread.start()

    def _publish(self) -> None:
        with connect(self._broker) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            number = 0
            while not self._stop.is_set():
                publish(channel, self._queue, b"%d." % number + b"x" * 60_000)
                self.confirmed.append(number)
                number += 1

    def _consume(self) -> None:
        with connect(self._broker) as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=50)
            while not self._stop.is_set():
                got, _, body = channel.basic_get(self._queue)
                if got is None:
                    connection.process_data_events(0.001)
                elif (number := number_of(body)) % 10:
                    self.acknowledging.add(number)
                    channel.basic_ack(got.delivery_tag)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def number_of(body: bytes | None) -> int:
    assert body is not None
    return int(body.partition(b".")[0])


@pytest.mark.timeout(120)
def test_a_backup_under_load_has_everything_that_was_confirmed(
    start_broker: StartBroker, home: Path, tmp_path: Path
) -> None:
    broker = start_broker("--data-dir", str(home))
    fill(broker, "orders")
    load = Load(broker, "orders")
    wanted: list[tuple[set[int], set[int]]] = []
    try:
        for number in range(3):
            goal = 400 * (number + 1)
            wait_for(lambda goal=goal: len(load.confirmed) >= goal, timeout=60)  # type: ignore[misc]
            confirmed = set(load.confirmed)
            assert main(["backup", str(home), str(tmp_path / f"copy-{number}")]) == 0
            wanted.append((confirmed, set(load.acknowledging)))
    finally:
        load.stop()

    for number, (confirmed, acknowledged) in enumerate(wanted):
        again = tmp_path / f"again-{number}"
        assert main(["restore", str(tmp_path / f"copy-{number}"), str(again)]) == 0
        restored = start_broker("--data-dir", str(again))
        assert "damage" not in restored.log()
        found = [number_of(body) for body in drain(restored, "orders")]
        assert confirmed - acknowledged <= set(found)
        assert len(found) == len(set(found))
        restored.stop()
        assert main(["fsck", str(again)]) == 0


def test_a_restored_broker_goes_on_where_the_backup_was_made(
    start_broker: StartBroker, home: Path, tmp_path: Path
) -> None:
    broker = start_broker("--data-dir", str(home))
    fill(broker, "orders", b"one", b"two", b"three", acknowledge=1)
    assert main(["backup", str(home), str(tmp_path / "copy")]) == 0
    assert drain(broker, "orders") == [b"two", b"three"]

    assert main(["restore", str(tmp_path / "copy"), str(tmp_path / "again")]) == 0
    restored = start_broker("--data-dir", str(tmp_path / "again"))
    fill(restored, "orders", b"four")
    restored.kill()
    restored = start_broker("--data-dir", str(tmp_path / "again"))
    assert drain(restored, "orders") == [b"two", b"three", b"four"]


def test_tools_refuse_a_directory_in_use(
    start_broker: StartBroker, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start_broker("--data-dir", str(home))

    for command in ("fsck", "compact"):
        assert main([command, str(home)]) == 1
        told = capsys.readouterr()
        assert told.err == f"headrace: a broker is running on {home}: stop it first\n"
        assert told.out == ""


def test_fsck_names_the_damaged_message_and_repairs(
    home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    broker = brokers.start(tmp_path)
    fill(broker, "orders", b"first body", b"second body", b"third body")
    broker.stop()
    assert main(["fsck", str(home)]) == 0
    assert "sound: 3 messages alive in 1 segments" in capsys.readouterr().out
    (file,) = (home / "journal").glob("*.log")
    file.write_bytes(file.read_bytes().replace(b"second", b"sEcond"))

    assert main(["fsck", str(home)]) == 1
    told = capsys.readouterr().out
    assert "lost: queue 'orders' in vhost '/': message 1\n" in told
    assert main(["fsck", str(home), "--json"]) == 1
    (place,) = json.loads(capsys.readouterr().out)["damage"]
    assert place["lost"] == [
        {"vhost": "/", "queue": "orders", "queue_number": 1, "first": 1, "last": 1}
    ]
    assert main(["fsck", str(home), "--repair"]) == 0
    assert "repaired, 2 messages alive" in capsys.readouterr().out
    assert main(["fsck", str(home)]) == 0
    assert list((home / "lost+found").iterdir())

    broker = brokers.start(tmp_path)
    assert drain(broker, "orders") == [b"first body", b"third body"]
    broker.stop()


def test_compact_gives_space_back(
    home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    broker = brokers.start(tmp_path)
    bodies = [b"%d." % number + b"x" * 100_000 for number in range(20)]
    fill(broker, "orders", *bodies, acknowledge=19)
    broker.stop()

    assert main(["compact", str(home), "--json"]) == 0
    sizes = json.loads(capsys.readouterr().out)
    assert sizes["after"]["messages"] == sizes["before"]["messages"] == 1
    assert sizes["after"]["bytes"] < sizes["before"]["bytes"] / 5
    assert main(["compact", str(home)]) == 0
    assert "1 messages alive" in capsys.readouterr().out

    broker = brokers.start(tmp_path)
    assert drain(broker, "orders") == [bodies[-1]]
    broker.stop()


def test_long_commands_show_their_progress_on_a_terminal(
    home: Path, tmp_path: Path, start_broker: StartBroker
) -> None:
    broker = start_broker("--data-dir", str(home))
    fill(broker, "orders", b"one", b"two")
    broker.stop()
    backup = str(tmp_path / "backup")
    for command, shown in (
        (("fsck", str(home)), "checking"),
        (("fsck", str(home), "--repair"), "repairing"),
        (("backup", str(home), backup), "copying"),
        (("restore", backup, str(tmp_path / "restored")), "copying"),
        (("compact", str(home)), "compacting"),
    ):
        done = on_terminal(*command, errors_too=True)
        assert done.code == 0, done.out
        assert shown in done.out, command


def test_after_a_crash_the_check_is_clean_and_changes_nothing(home: Path, tmp_path: Path) -> None:
    broker = brokers.start(tmp_path)
    fill(broker, "orders", b"one", b"two")
    broker.kill()
    before = {one: one.read_bytes() for one in home.rglob("*") if one.is_file()}

    assert main(["fsck", str(home)]) == 0

    assert {one: one.read_bytes() for one in home.rglob("*") if one.is_file()} == before
    broker = brokers.start(tmp_path)
    assert drain(broker, "orders") == [b"one", b"two"]
    broker.stop()


@pytest.mark.parametrize(
    "command",
    [["fsck", "{}"], ["compact", "{}"], ["backup", "{}", "{}-copy"], ["restore", "{}", "{}-new"]],
    ids=lambda command: command[0],
)
def test_what_is_no_data_directory_gets_one_clear_line(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "missing"

    assert main([one.format(missing) for one in command]) == 1

    assert capsys.readouterr().err == f"headrace: {missing} is not a Headrace data directory\n"
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_backup_stands_in_the_way_of_the_next_and_is_named(
    home: Path, tmp_path: Path, start_broker: StartBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    start_broker("--data-dir", str(home)).stop()
    (tmp_path / "copy.partial").mkdir()

    assert main(["backup", str(home), str(tmp_path / "copy")]) == 1
    assert "copy.partial already exists: another backup is running" in capsys.readouterr().err


def test_what_cannot_be_repaired_is_not_offered_a_repair(
    home: Path, tmp_path: Path, start_broker: StartBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = start_broker("--data-dir", str(home))
    fill(broker, "orders", b"a book")
    broker.stop()
    (home / "meta.db").unlink()

    assert main(["fsck", str(home)]) == 1
    assert capsys.readouterr().out.endswith("; this cannot be repaired: restore a backup\n")
    assert main(["restore", str(home), str(tmp_path / "new")]) == 1
    assert capsys.readouterr().err.endswith("; take another backup\n")
