"""The data directories that are damaged: what was confirmed in them, and where its bytes are."""

from __future__ import annotations

import os
import re
import shutil
import signal
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from headrace.bulk.client import BulkConnection
from headrace.client.settings import Settings
from headrace.wire.native.payloads import Op

SEGMENT_SIZE = "32KiB"
FILLER = b"." * 600
QUEUES = ("one", "left", "right", "late")
NUMBERS = {1: "one", 2: "left", 3: "right", 4: "events", 5: "late"}  # as they were declared
GROUP, TOPIC = "readers", "events"
PASSWORD = "a password of hers"
MARK = re.compile(rb"<(one|fan|late|events) (\d+)>")


def body(name: str, number: int) -> bytes:
    return b"<%s %d>" % (name.encode(), number) + FILLER


def mark_of(queue: str, number: int) -> tuple[str, int]:
    """What the body of a message says: one record holds it for `left` and for `right`."""
    return {"left": "fan", "right": "fan"}.get(queue, queue), number


def number_of(text: bytes) -> tuple[str, int] | None:
    """What a body says it is; None when it is not as it was published."""
    found = MARK.match(text)
    if found is None or text[found.end() :] != FILLER:
        return None
    return found[1].decode(), int(found[2])


@dataclass
class Ledger:
    """What was confirmed. Message N of a queue or topic has the offset N there."""

    sent: dict[str, int] = field(default_factory=dict)  # queue or topic: how many
    acked: set[int] = field(default_factory=set)  # of the queue `one`
    position: int = 0  # of the group: messages that are done
    definitions: dict[str, object] = field(default_factory=dict)

    def waiting(self, queue: str) -> list[int]:
        """Confirmed and not acknowledged."""
        acked = self.acked if queue == "one" else ()
        return [number for number in range(self.sent.get(queue, 0)) if number not in acked]


@dataclass(frozen=True)
class Original:
    """A data directory after its broker ended, an older copy of it, and another broker's."""

    data: Path
    older: Path
    foreign: Path
    is_clean: bool
    ledger: Ledger

    def segments(self) -> list[Path]:
        return sorted(self.data.glob("journal/*.log"))

    def places(self) -> dict[tuple[str, int], list[tuple[str, int]]]:
        """Where the bytes of a message are: files and offsets in them."""
        found: dict[tuple[str, int], list[tuple[str, int]]] = {}
        for segment in self.segments():
            for mark in MARK.finditer(segment.read_bytes()):
                key = mark[1].decode(), int(mark[2])
                found.setdefault(key, []).append((segment.name, mark.start()))
        return found


class Writer:
    """A broker that is filled, and the ledger of what it confirmed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.ledger = Ledger()
        self.open()

    def open(self) -> None:
        from support import brokers

        self.broker = brokers.start(self.directory, "--segment-size", SEGMENT_SIZE)
        self.bulk = BulkConnection(Settings(port=self.broker.native_port))

    def declare(self, *queues: str) -> None:
        for name in queues:
            self.bulk.call(Op.QUEUE_DECLARE, name=name, durable=True)

    def declare_rest(self) -> None:
        self.bulk.call(Op.EXCHANGE_DECLARE, name="fan", type="fanout", durable=True)
        for queue in ("left", "right"):
            self.bulk.call(Op.BIND, queue=queue, source="fan", key="")
        self.bulk.call(Op.TOPIC_DECLARE, name=TOPIC, queues=1)
        with self.api() as api:
            for path, value in (
                ("users/anna", {"password": PASSWORD, "tags": "monitoring"}),
                ("permissions/%2F/anna", {"configure": "^a", "write": "^b", "read": "^c"}),
                ("policies/%2F/p", {"pattern": "^x", "definition": {"max-length": 5}}),
            ):
                assert api.put(f"/api/{path}", json=value).is_success

    def api(self) -> httpx.Client:
        url = f"http://127.0.0.1:{self.broker.ports['http']}"
        return httpx.Client(base_url=url, auth=("guest", "guest"), timeout=30)

    def publish(self, count: int) -> None:
        """To `one`, and to `left` and `right` by one record each; every fifth time several."""
        for step in range(count):
            runs = 4 if step % 5 == 0 else 1
            for exchange, key, name in (("", "one", "one"), ("fan", "", "fan")):
                first = self.ledger.sent.get("one" if key else "left", 0)
                rows = [
                    {"exchange": exchange, "key": key, "properties": {"delivery_mode": 2},
                     "body": body(name, number)}
                    for number in range(first, first + runs)
                ]  # fmt: skip
                self.bulk.call(Op.PUBLISH, batch=rows)
                for queue in ("one",) if key else ("left", "right"):
                    self.ledger.sent[queue] = first + runs

    def publish_late(self, count: int) -> None:
        for number in range(count):
            properties = {"delivery_mode": 2}
            text = body("late", number)
            self.bulk.call(Op.PUBLISH, key="late", properties=properties, body=text)
        self.ledger.sent["late"] = count

    def append(self, count: int) -> None:
        first = self.ledger.sent.get(TOPIC, 0)
        for number in range(first, first + count):
            self.bulk.call(Op.APPEND, topic=TOPIC, body=body(TOPIC, number))
        self.ledger.sent[TOPIC] = first + count

    def commit(self, count: int) -> None:
        who = {"topic": TOPIC, "token": "member", "group": GROUP}
        found = self.bulk.call(Op.READ, batch=count, **who)
        assert len(found["messages"]) == count
        self.bulk.call(Op.COMMIT, claim=found["claim"], **who)
        self.ledger.position += count

    def acknowledge(self, count: int) -> None:
        for _ in range(count):
            found = self.bulk.call(Op.GET, queue="one")["message"]
            read = number_of(found["body"])
            assert read is not None
            self.bulk.call(Op.ACK, tag=found["tag"])
            self.ledger.acked.add(read[1])

    def note_definitions(self) -> None:
        with self.api() as api:
            self.ledger.definitions = comparable(api.get("/api/definitions").json())

    def end(self, *, clean: bool) -> None:
        self.bulk.close()
        if clean:
            self.broker.stop()
        else:
            assert self.broker.pid is not None
            os.kill(self.broker.pid, signal.SIGKILL)
            self.broker.kill()


def comparable(definitions: dict[str, object]) -> dict[str, object]:
    """Definitions without what changes at every export, in one order."""
    kinds = ("vhosts", "users", "permissions", "policies", "exchanges", "queues", "bindings")
    found: dict[str, object] = {}
    for kind in kinds:
        rows = definitions.get(kind, [])
        assert isinstance(rows, list)
        found[kind] = sorted(rows, key=repr)
    return found


def make(directory: Path, *, clean: bool) -> Original:
    """Several segments; half of it is in the older copy, too."""
    older, foreign = directory / "older", directory / "foreign"
    writer = Writer(_new(directory / "broker"))
    writer.declare("one", "left", "right")
    writer.declare_rest()
    writer.publish(40)
    writer.append(40)
    writer.commit(20)
    writer.acknowledge(10)
    writer.end(clean=True)
    shutil.copytree(writer.data, older)
    writer.open()
    writer.declare("late")
    writer.publish(40)
    writer.publish_late(10)
    writer.append(20)
    _add_new_files(writer.data, older)
    writer.append(20)
    writer.commit(45)
    writer.acknowledge(8)
    writer.note_definitions()
    writer.end(clean=clean)
    return Original(writer.data, older, _foreign(directory, foreign), clean, writer.ledger)


def _add_new_files(data: Path, older: Path) -> None:
    """Segments that were begun since then, as they are now."""
    for file in [*data.glob("journal/*.log"), data / "meta.db-wal"]:
        before = older / file.relative_to(data)
        if not before.exists():
            shutil.copyfile(file, before)


def _foreign(directory: Path, target: Path) -> Path:
    """What another broker left."""
    writer = Writer(_new(directory / "other"))
    writer.declare("right", "other")
    for queue in ("right", "other"):
        rows = [
            {"key": queue, "properties": {"delivery_mode": 2}, "body": b"strange" + FILLER}
        ] * 40
        writer.bulk.call(Op.PUBLISH, batch=rows)
    writer.end(clean=True)
    shutil.copytree(writer.data, target)
    return target


def _new(directory: Path) -> Path:
    directory.mkdir(parents=True)
    return directory
