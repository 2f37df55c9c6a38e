"""The topics SPI over the native protocol, spoken by hand: what a broker promises to anybody."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import msgpack

from headrace import errors
from headrace.model.retention import Retention
from headrace.model.topics.message_priority import Priority, priority_named
from headrace.store.topics.types import (
    ConsumerSpec,
    Entry,
    GroupInfo,
    Part,
    PriorityLag,
    ReadResult,
    StoredMessage,
    TopicInfo,
    TopicSpec,
)

HELLO, CHANNEL_OPEN, LIST = 0x0D, 0x01, 0x14
DECLARE, DELETE, DESCRIBE, APPEND, READ, COMMIT, NACK, RENEW, SEEK, LAG, FORGET, DEAD = range(
    0x20, 0x2C
)
ERRORS = {
    "no_such_topic": errors.NoSuchTopic,
    "bad_topic_name": errors.BadTopicName,
    "bad_topic_value": errors.BadTopicValue,
    "body_too_large": errors.BodyTooLarge,
    "topic_conflict": errors.TopicConflict,
    "claim_lost": errors.ClaimLost,
    "engine_unavailable": errors.EngineUnavailable,
    "access_refused": errors.AccessRefused,
}


class Line:
    """One connection, used by one thread."""

    def __init__(
        self, address: tuple[str, int], user: str = "guest", password: str = "guest"
    ) -> None:
        self.socket = socket.create_connection(address, timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self.socket.makefile("rb")
        self._rid = 0
        try:
            who = {"user": user, "password": password, "vhost": "/", "client": "tests"}
            self.call(HELLO, None, version=1, **who)
            self.call(CHANNEL_OPEN)
        except BaseException:
            self.close()
            raise

    def send(self, kind: int, ch: int | None = 1, /, **fields: object) -> int:
        self._rid += 1
        named = {} if ch is None else {"ch": ch}
        payload = msgpack.packb({"rid": self._rid, **named, **fields})
        self.socket.sendall(struct.pack(">ii", kind, len(payload)) + payload)
        return self._rid

    def receive(self, rid: int) -> dict[str, Any]:
        while True:
            _, length = struct.unpack(">ii", self._exactly(8))
            answer: dict[str, Any] = msgpack.unpackb(self._exactly(length))
            if answer.get("rid") == rid:
                break
        if not answer["ok"]:
            raise ERRORS.get(answer["code"], errors.BrokerError)(answer["text"])
        return answer

    def call(self, kind: int, ch: int | None = 1, /, **fields: object) -> dict[str, Any]:
        return self.receive(self.send(kind, ch, **fields))

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def _exactly(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            raise ConnectionError("the broker hung up")
        return data


class NativeEngine:
    """A TopicEngine on the other side of a broker's native port."""

    def __init__(self, address: tuple[str, int], engine: str = "log") -> None:
        self.name = engine
        self.max_body = 16 << 20
        self._address = address
        self._local = threading.local()
        self._lines: list[Line] = []

    @property
    def line(self) -> Line:
        line: Line | None = getattr(self._local, "line", None)
        if line is None:
            line = self._local.line = Line(self._address)
            self._lines.append(line)
        return line

    def close(self) -> None:
        for line in self._lines:
            line.close()
        self._lines.clear()
        self._local = threading.local()

    # -- topics

    def create(self, spec: TopicSpec) -> TopicInfo:
        retention = spec.retention or Retention()
        answer = self.line.call(
            DECLARE,
            name=spec.name,
            queues=spec.queues,
            engine=self.name,
            retention_ms=retention.ms,
            retention_bytes=retention.size,
            options=dict(spec.options),
        )
        return _info(answer["topic"])

    def delete(self, topic: str) -> None:
        self.line.call(DELETE, name=topic)

    def describe(self, topic: str) -> TopicInfo:
        return _info(self.line.call(DESCRIBE, name=topic)["topic"])

    def topics(self) -> list[TopicInfo]:
        rows = self.line.call(LIST, kind="topics")["rows"]
        return [info for row in rows if (info := _info(row)).engine == self.name]

    def uuids(self) -> dict[str, str]:
        return {info.name: info.uuid for info in self.topics()}

    # -- messages

    def append(self, topic: str, entries: Sequence[Entry]) -> list[int]:
        if not entries:
            return []
        batch = [
            {
                "body": one.body,
                "priority": one.priority.label,
                "key": one.key,
                "tags": one.tags,
                "source_ip": one.source_ip,
                "message_id": one.message_id,
                "born": one.born,
                "properties": dict(one.properties),
            }
            for one in entries
        ]
        token = entries[0].token
        ids: list[int] = self.line.call(APPEND, topic=topic, token=token, batch=batch)["ids"]
        return ids

    def read(self, topic: str, reader: ConsumerSpec, batch: int, wait_ms: int = 0) -> ReadResult:
        answer = self.line.call(READ, topic=topic, batch=batch, wait_ms=wait_ms, **_who(reader))
        return ReadResult(tuple(map(_message, answer["messages"])), tuple(answer["claim"]))

    def commit(self, topic: str, reader: ConsumerSpec, claim: Sequence[object]) -> None:
        self.line.call(COMMIT, topic=topic, claim=list(claim), **_who(reader))

    def nack(
        self,
        topic: str,
        reader: ConsumerSpec,
        claim: Sequence[object],
        ids: Sequence[tuple[Priority, int]] | None,
        delay_ms: int,
        reason: str = "",
    ) -> None:
        named = {} if ids is None else {"ids": [[priority.label, one] for priority, one in ids]}
        self.line.call(
            NACK,
            topic=topic,
            claim=list(claim),
            **named,
            delay_ms=delay_ms,
            reason=reason,
            **_who(reader),
        )

    def renew(self, topic: str, reader: ConsumerSpec, claim: Sequence[object]) -> None:
        self.line.call(RENEW, topic=topic, claim=list(claim), **_who(reader))

    # -- readers

    def seek(
        self,
        topic: str,
        reader: ConsumerSpec,
        *,
        positions: Mapping[Priority, int] | None = None,
        time_ms: int | None = None,
    ) -> None:
        named = (
            None
            if positions is None
            else {priority.label: at for priority, at in positions.items()}
        )
        self.line.call(SEEK, topic=topic, positions=named, time_ms=time_ms, **_who(reader))

    def lag(self, topic: str, reader: ConsumerSpec) -> list[PriorityLag]:
        return list(map(_lag, self.line.call(LAG, topic=topic, **_who(reader))["lag"]))

    def groups(self, topic: str) -> list[GroupInfo]:
        rows = self.line.call(LIST, kind="groups", topic=topic)["rows"]
        return [
            GroupInfo(
                row["group"], row["token"], tuple(row["members"]), tuple(map(_lag, row["lag"]))
            )
            for row in rows
        ]

    def forget_group(self, topic: str, reader: ConsumerSpec) -> None:
        self.line.call(FORGET, topic=topic, **_who(reader))

    def dead(self, topic: str, group: str, limit: int = 100) -> list[tuple[StoredMessage, str]]:
        rows = self.line.call(DEAD, topic=topic, group=group, limit=limit)["rows"]
        return [(_message(row), reason) for row, reason in rows]


def _who(reader: ConsumerSpec) -> dict[str, object]:
    return {
        "token": reader.token,
        "group": reader.group,
        "start": reader.start,
        "lease_ms": reader.lease_ms,
        "min_share": reader.min_share,
        "max_attempts": reader.max_attempts,
    }


def _message(row: Sequence[Any]) -> StoredMessage:
    return StoredMessage(row[0], priority_named(row[1]), *row[2:])


def _lag(row: Sequence[Any]) -> PriorityLag:
    return PriorityLag(priority_named(row[0]), *row[1:])


def _info(row: Mapping[str, Any]) -> TopicInfo:
    retention = None
    if row["retention_ms"] is not None or row["retention_bytes"] is not None:
        retention = Retention(row["retention_ms"], row["retention_bytes"])
    parts = tuple(Part(priority_named(one[0]), *one[1:]) for one in row["parts"])
    return TopicInfo(
        row["name"],
        row["uuid"],
        row["engine"],
        row["queues"],
        retention,
        row["created_at"],
        parts,
    )
