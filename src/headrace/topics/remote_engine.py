"""Topics of a broker, over the native protocol: forwards calls to the engine in the broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from headrace import errors
from headrace.client import Channel, Connection, ConnectionFactory
from headrace.client.core.requests import ClientRequest, Reply, nothing
from headrace.client.errors import ConnectionClosed, HeadraceError, RequestTimeout
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
from headrace.wire.native.error_codes import CODES, ENDS_CONNECTION
from headrace.wire.native.payloads import MAX_ARRAY, Op

T = TypeVar("T")
MAX_WAIT_S: Final = 60.0
_MAX_BATCH: Final = 100_000  # as in a database
_APPEND_ROWS: Final = 5000
_APPEND_BYTES: Final = 8 << 20
_ERRORS: Final = {
    code: error
    for error, code in CODES.items()
    if error is errors.LoginRefused or error not in ENDS_CONNECTION
}


@contextmanager
def _translated(
    failure: str = "no answer from the broker", outcome: str = "it may have been done"
) -> Iterator[None]:
    """The client's errors as those of topics; ``outcome`` is what is known without an answer."""
    try:
        yield
    except (ConnectionClosed, RequestTimeout) as error:
        raise errors.EngineUnavailable(f"{failure}: {error.text}; {outcome}") from error
    except HeadraceError as error:
        raise _ERRORS.get(error.code, errors.BrokerError)(error.text) from error


def connect(factory: ConnectionFactory) -> RemoteEngine:
    """The topics of a vhost; EngineUnavailable when there is no broker."""
    with _translated(f"no broker at {factory.settings.where}", "nothing was done"):
        connection = factory.new_connection()
    return RemoteEngine(connection)


class RemoteEngine:
    """See `TopicEngine` for the promises. All methods may be called from any thread."""

    name = "log"  # the default of a broker

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        with _translated():
            self._channel = connection.create_channel()
        self.max_body = 16 << 20

    def __repr__(self) -> str:
        where = self._connection.settings
        return f"RemoteEngine({where.where}, vhost {where.vhost!r})"

    def close(self) -> None:
        self._connection.close()

    def _call(
        self,
        op: int,
        fields: dict[str, Any],
        finish: Callable[[Reply], T],
        *,
        repeatable: bool = False,
        wait_s: float = 0.0,
    ) -> T:
        timeout = self._connection.settings.request_timeout + wait_s
        with _translated():
            channel = self._open_channel()
            return self._connection.call(
                channel.state, ClientRequest(op, fields, finish, repeatable), timeout
            )

    def _open_channel(self) -> Channel:
        """A request that the broker cannot make sense of costs the channel it came on; those who
        share it with its sender must not stay without one."""
        with self._lock:
            if self._channel.state.closed is not None and self._connection.is_open:
                self._connection.forget(self._channel)
                self._channel = self._connection.create_channel()
            return self._channel

    # -- topics ----------------------------------------------------------------------------------

    def create(self, spec: TopicSpec) -> TopicInfo:
        options = dict(spec.options)
        fields: dict[str, Any] = {"name": spec.name, "queues": spec.queues}
        if engine := options.pop("engine", None):
            fields["engine"] = engine
        if spec.retention is not None:
            fields["retention_ms"] = spec.retention.ms
            fields["retention_bytes"] = spec.retention.size
        if options:
            fields["options"] = options
        return self._call(
            Op.TOPIC_DECLARE, fields, lambda reply: _topic_info(reply["topic"]), repeatable=True
        )

    def delete(self, topic: str) -> None:
        self._call(Op.TOPIC_DELETE, {"name": topic}, nothing)

    def describe(self, topic: str) -> TopicInfo:
        def finish(reply: Reply) -> TopicInfo:
            self.max_body = int(reply["topic"]["max_body"])
            return _topic_info(reply["topic"])

        return self._call(Op.TOPIC_DESCRIBE, {"name": topic}, finish, repeatable=True)

    def topics(self) -> list[TopicInfo]:
        return [_topic_info(row) for row in self._rows("topics", {})]

    def uuids(self) -> dict[str, str]:
        return {info.name: info.uuid for info in self.topics()}

    def _rows(self, kind: str, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        page, more = 0, True
        while more:
            found, more = self._call(
                Op.LIST,
                {"kind": kind, "page": page, **fields},
                lambda reply: (list(reply["rows"]), bool(reply.get("more"))),
                repeatable=True,
            )
            rows += found
            page += 1
        return rows

    # -- messages --------------------------------------------------------------------------------

    def append(self, topic: str, entries: Sequence[Entry]) -> list[int]:
        for one in entries:
            if len(one.body) > self.max_body:
                raise errors.BodyTooLarge(
                    f"a body of {len(one.body):,} bytes is refused: at most {self.max_body:,}; "
                    "nothing was stored"
                )
        ids: list[int] = []
        for token, batch in _append_batches(entries, _APPEND_ROWS, _APPEND_BYTES):
            fields = {"topic": topic, "token": token, "batch": batch}
            ids += self._call(Op.APPEND, fields, lambda reply: list(reply["ids"]))
        return ids

    def read(self, topic: str, reader: ConsumerSpec, batch: int) -> ReadResult:
        return self.read_waiting(topic, reader, batch, 0.0)

    def read_waiting(
        self, topic: str, reader: ConsumerSpec, batch: int, wait_s: float
    ) -> ReadResult:
        """The broker waits, not this thread's patience: it answers with the first message. One
        answer may hold fewer messages; read again for more, as with large bodies."""
        batch = min(batch, MAX_ARRAY) if batch <= _MAX_BATCH else batch
        left = wait_s
        while True:
            wait = min(left, MAX_WAIT_S)
            fields = _consumer_fields(
                topic, reader, batch=batch, start=reader.start, min_share=reader.min_share,
                wait_ms=round(wait * 1000),
            )  # fmt: skip
            taken = self._call(Op.READ, fields, _read_result, wait_s=wait)
            left -= wait
            if taken.messages or left <= 0:
                return taken

    def commit(self, topic: str, reader: ConsumerSpec, claim: Sequence[object]) -> None:
        fields = _consumer_fields(topic, reader, claim=list(claim))
        self._call(Op.COMMIT, fields, nothing)

    def nack(
        self,
        topic: str,
        reader: ConsumerSpec,
        claim: Sequence[object],
        ids: Sequence[tuple[Priority, int]] | None,
        delay_ms: int,
        reason: str = "",
    ) -> None:
        fields = _consumer_fields(
            topic, reader, claim=list(claim), delay_ms=delay_ms, reason=reason
        )
        if ids is not None:
            fields["ids"] = [[priority.label, number] for priority, number in ids]
        self._call(Op.TOPIC_NACK, fields, nothing)

    def renew(self, topic: str, reader: ConsumerSpec, claim: Sequence[object]) -> None:
        fields = _consumer_fields(topic, reader, claim=list(claim))
        self._call(Op.RENEW, fields, nothing, repeatable=True)

    # -- positions -------------------------------------------------------------------------------

    def seek(
        self,
        topic: str,
        reader: ConsumerSpec,
        *,
        positions: Mapping[Priority, int] | None = None,
        time_ms: int | None = None,
    ) -> None:
        fields = _consumer_fields(topic, reader)
        if positions is not None:
            fields["positions"] = {priority.label: one for priority, one in positions.items()}
        if time_ms is not None:
            fields["time_ms"] = time_ms
        self._call(Op.SEEK, fields, nothing)

    def lag(self, topic: str, reader: ConsumerSpec) -> list[PriorityLag]:
        return self._call(
            Op.LAG,
            _consumer_fields(topic, reader, start=reader.start),
            lambda reply: [_priority_lag(one) for one in reply["lag"]],
            repeatable=True,
        )

    def groups(self, topic: str) -> list[GroupInfo]:
        return [_group_info(row) for row in self._rows("groups", {"topic": topic})]

    def forget_group(self, topic: str, reader: ConsumerSpec) -> None:
        self._call(Op.FORGET_GROUP, _consumer_fields(topic, reader), nothing)

    def dead(self, topic: str, group: str, limit: int = 100) -> list[tuple[StoredMessage, str]]:
        return self._call(
            Op.DEAD,
            {"topic": topic, "group": group, "limit": min(limit, MAX_ARRAY)},
            lambda reply: [(_stored_message(row), str(reason)) for row, reason in reply["rows"]],
            repeatable=True,
        )


def _consumer_fields(topic: str, who: ConsumerSpec, **more: object) -> dict[str, Any]:
    fields: dict[str, Any] = {
        **more,
        "topic": topic,
        "token": who.token,
        "lease_ms": who.lease_ms,
        "max_attempts": who.max_attempts,
    }
    if who.group is not None:
        fields["group"] = who.group
    return fields


def _append_batches(
    entries: Sequence[Entry], max_rows: int, max_bytes: int
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """As many requests as it takes: entries of one token each, within the limits of a frame."""
    batch: list[dict[str, Any]] = []
    token, size = "", 0
    for one in entries:
        is_full = len(batch) >= max_rows or size + len(one.body) > max_bytes
        if batch and (one.token != token or is_full):
            yield token, batch
            batch, size = [], 0
        token = one.token
        batch.append(_entry_fields(one))
        size += len(one.body)
    if batch:
        yield token, batch


def _entry_fields(one: Entry) -> dict[str, Any]:
    fields: dict[str, Any] = {"priority": one.priority.label, "body": one.body}
    for name in ("key", "tags", "source_ip", "message_id", "born"):
        if (value := getattr(one, name)) is not None:
            fields[name] = value
    if one.properties:
        fields["properties"] = dict(one.properties)
    return fields


def _topic_info(fields: Mapping[str, Any]) -> TopicInfo:
    ms, size = fields["retention_ms"], fields["retention_bytes"]
    return TopicInfo(
        fields["name"],
        fields["uuid"],
        fields["engine"],
        fields["queues"],
        None if ms is None and size is None else Retention(ms, size),
        fields["created_at"],
        tuple(Part(priority_named(label), *rest) for label, *rest in fields["parts"]),
    )


def _stored_message(row: Sequence[Any]) -> StoredMessage:
    number, label, *rest = row
    return StoredMessage(number, priority_named(label), *rest)


def _read_result(reply: Mapping[str, Any]) -> ReadResult:
    return ReadResult(
        tuple(_stored_message(row) for row in reply["messages"]), tuple(reply["claim"])
    )


def _priority_lag(row: Sequence[Any]) -> PriorityLag:
    label, *rest = row
    return PriorityLag(priority_named(label), *rest)


def _group_info(row: Mapping[str, Any]) -> GroupInfo:
    return GroupInfo(
        row["group"],
        row["token"],
        tuple(row["members"]),
        tuple(_priority_lag(one) for one in row["lag"]),
    )
