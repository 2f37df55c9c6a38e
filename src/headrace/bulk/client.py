"""Bulk reads and staged writes over the native protocol, for programs that work in batches.

A plain blocking connection with one request at a time: simpler than the client's own connection,
which is made for many small messages. One thread uses it; processes make their own.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.client.errors import ConnectionClosed, ProtocolViolation, RequestTimeout, error_in
from headrace.client.settings import HostRotation, Settings
from headrace.closing import Closing
from headrace.errors import CommandInvalid
from headrace.model.log_epochs import Epochs
from headrace.model.readable_range import ReadableRange
from headrace.wire.native.frames import HEAD
from headrace.wire.native.payloads import VERSION, Op, message, unpack_trusted


@dataclass(frozen=True, slots=True)
class ReadableSource:
    """A queue or topic as far as it can be read by offset; the mappings are by partition id."""

    kind: str
    name: str
    uuid: str  # differs from that of a later one of the same name; empty: it has no identity
    ranges: Mapping[int, ReadableRange]
    priorities: Mapping[int, str]
    at_time: Mapping[int, int] = field(default_factory=dict)
    """The first offset stored at the requested time or later."""
    epochs: Mapping[int, Epochs] = field(default_factory=dict)
    """Missing where a source has no epochs."""
    gap: str = ""
    """Which missing offsets keep committed messages from being read, and why."""


@dataclass(frozen=True, slots=True)
class Pin:
    """From where on the broker holds messages for a reader outside, such as a Spark query."""

    query: str
    kind: str  # queue or topic
    name: str
    uuid: str
    positions: Mapping[str, int]  # the next offset by partition
    max_bytes: int
    updated_at: int  # ms since 1970
    lost: bool  # more had to be held than was allowed
    messages: int  # that it has still to read


class BulkConnection(Closing):
    """Connects when made; raises what the client raises."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._socket = self._connect()
        self.is_sparse = False  # offsets of the last fetch may be missing, and that is right
        self.messages = 0  # that the broker has sent in all fetches, by its index
        self._rid = 0
        self._sent_at = time.monotonic()
        self._heartbeat = 0.0
        try:
            limits = self.call(
                Op.HELLO,
                version=VERSION,
                user=settings.user,
                password=settings.password,
                vhost=settings.vhost,
                client="headrace bulk",
            )["limits"]
            self._heartbeat = float(limits["heartbeat"])
            self.frame_max = int(limits["frame_max"])
            self.call(Op.CHANNEL_OPEN)
        except ConnectionClosed:
            self.close()
            raise ConnectionClosed(
                f"{settings.where} hung up before the login. Is that the port of "
                "the native protocol (9090)?"
            ) from None
        except BaseException:
            self.close()
            raise

    def _connect(self) -> socket.socket:
        settings, tls = self._settings, self._settings.tls_context()
        hosts = HostRotation(settings)
        while True:
            address = hosts.current
            try:
                raw = socket.create_connection(address, hosts.connect_timeout)
                break
            except OSError as error:
                hosts.failed()
                if not hosts.are_left:
                    raise ConnectionClosed(
                        f"no broker answers at {settings.where}: {error}. Is `headrace serve` "
                        "running there?"
                    ) from error
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.settimeout(settings.request_timeout)
        return tls.wrap_socket(raw, server_hostname=address[0]) if tls is not None else raw

    # -- requests -------------------------------------------------------------------------------

    def call(self, kind: Op, /, **fields: object) -> dict[str, Any]:
        """One request and its answer; raises the broker's refusal."""
        rid = self._send(kind, fields)
        while True:
            answer = self._receive()
            if answer.get("rid") == rid:
                return _checked(answer)

    def rows(self, kind: str) -> Iterator[dict[str, Any]]:
        """What the broker lists under ``kind``, page by page."""
        page, more = 0, True
        while more:
            answer = self.call(Op.LIST, kind=kind, page=page)
            yield from answer["rows"]
            page, more = page + 1, bool(answer.get("more"))

    def sources(
        self, destinations: Sequence[Mapping[str, str]], time_ms: int = 0, patience: float = 0.0
    ) -> list[ReadableSource]:
        """What can be read of each; {"queue": name} or {"topic": name} each. ``patience``: seconds
        to wait for transactions that hold ids below committed messages of a database."""
        wanted = {"destinations": list(destinations), "time": time_ms}
        rows = self.call(Op.BOUNDS, **wanted, patience_ms=int(patience * 1000))["rows"]
        return [_source(row) for row in rows]

    def fetch(self, start: int, end: int, **fields: object) -> Iterator[bytes]:
        """The rows start .. end - 1 of a partition, as pieces of Arrow streams.

        Each is whole messages. The one that ends a stream is followed by b"": the next one begins
        a stream of its own.
        """
        while start < end:
            rid = self._send(Op.FETCH, {"start": start, "end": end, **fields})
            while True:
                answer = self._receive()
                if answer.get("rid") != rid:
                    continue
                data: bytes = _checked(answer).get("data", b"")
                if answer["last"]:
                    break
                self.stay_alive()
                yield data
            yield b""
            self.is_sparse = answer.get("sparse", False)
            self.messages += answer.get("messages", 0)
            start = answer["next"]

    # -- pins -----------------------------------------------------------------------------------

    def pin(
        self,
        query: str,
        kind: str,
        positions: Mapping[str, tuple[str, Mapping[int, int]]],
        max_bytes: int,
        epochs: Mapping[str, Mapping[int, int]] | None = None,
    ) -> None:
        """Hold everything from these positions (source: uuid and offset by partition) on for the
        query, up to ``max_bytes``; what was held before them is let go. ``epochs``: in which the
        offsets were seen, by source and partition."""
        rows = [
            {
                kind: name,
                "uuid": uuid,
                "next": _by_text(offsets),
                "epochs": _by_text((epochs or {}).get(name, {})),
            }
            for name, (uuid, offsets) in positions.items()
        ]
        self.call(Op.PIN, query=query, positions=rows, max_bytes=max_bytes)

    def pins(self) -> list[Pin]:
        """All pins of the vhost that the user may see."""
        return [Pin(**row) for row in self.rows("pins")]

    def unpin(self, query: str) -> None:
        """The query is over for good."""
        self.call(Op.UNPIN, query=query)

    def report_pipeline(self, name: str, state: Mapping[str, object]) -> None:
        """Say how a pipeline is doing; the broker's API shows it."""
        self.call(Op.TELL_PIPELINE, name=name, state=dict(state))

    # -- staged writes --------------------------------------------------------------------------

    def stage(
        self,
        query: str,
        batch: int,
        attempt: str,
        messages: Sequence[Mapping[str, object]],
        *,
        topic: str | None = None,
    ) -> None:
        """Put messages aside: for a topic, or each for its own exchange."""
        fields: dict[str, object] = {"topic": topic} if topic is not None else {}
        self.call(
            Op.STAGE, query=query, batch=batch, attempt=attempt, messages=list(messages), **fields
        )

    def publish_staged(self, query: str, batch: int, attempts: Sequence[str]) -> bool:
        """Everything staged by these attempts, in one step. False: it was done before."""
        answer = self.call(Op.PUBLISH_STAGED, query=query, batch=batch, attempts=list(attempts))
        return not answer["already"]

    def discard_staged(self, query: str, batch: int) -> None:
        """Forget what was staged and not published."""
        self.call(Op.PUBLISH_STAGED, query=query, batch=batch, attempts=[], discard=True)

    # -- bytes out ------------------------------------------------------------------------------

    def _send(self, kind: Op, fields: Mapping[str, object]) -> int:
        self._rid += 1
        self._write(message(kind, {"rid": self._rid, "ch": 1, **fields}))
        return self._rid

    def stay_alive(self) -> None:
        """Reading alone does not show the broker that we live."""
        if self._heartbeat and time.monotonic() - self._sent_at > self._heartbeat / 4:
            self._send(Op.PING, {})

    def _write(self, data: bytes) -> None:
        self._sent_at = time.monotonic()
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise RequestTimeout("the broker accepted no more data in time") from None
        except OSError as error:
            raise ConnectionClosed(f"the connection to the broker is lost: {error}") from error

    def _receive(self) -> dict[str, Any]:
        """The next frame's fields."""
        _, length = HEAD.unpack(self._exactly(HEAD.size))
        payload = self._exactly(length)
        try:
            return unpack_trusted(payload)
        except (CommandInvalid, ValueError) as error:
            raise ProtocolViolation(f"cannot decode the broker's reply: {error}") from error

    def _exactly(self, size: int) -> bytearray:
        """Received where it stays: what is fetched comes in megabytes."""
        buffer = bytearray(size)
        view, have = memoryview(buffer), 0
        while have < size:
            try:
                count = self._socket.recv_into(view[have:])
            except TimeoutError:
                seconds = self._settings.request_timeout
                raise RequestTimeout(f"the broker did not answer within {seconds:g} s") from None
            except OSError as error:
                raise ConnectionClosed(f"the connection to the broker is lost: {error}") from error
            if not count:
                raise ConnectionClosed("the broker closed the connection")
            have += count
        return buffer

    # -- life -----------------------------------------------------------------------------------

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()


def _source(row: Mapping[str, Any]) -> ReadableSource:
    ranges, priorities, at_time = {}, {}, {}
    for priority, partition, first, complete, end, first_time, last_time, found in row["parts"]:
        ranges[partition] = ReadableRange(first, end, complete, first_time, last_time)
        priorities[partition] = priority
        if found is not None:
            at_time[partition] = found
    epochs = {
        int(partition): [(number, at) for number, at in known]
        for partition, known in row.get("epochs", {}).items()
    }
    return ReadableSource(
        row["kind"], row["name"], row["uuid"], ranges, priorities, at_time, epochs,
        row.get("gap", ""),
    )  # fmt: skip


def _by_text(numbers: Mapping[int, int]) -> dict[str, int]:
    return {str(part): at for part, at in numbers.items()}


def _checked(answer: dict[str, Any]) -> dict[str, Any]:
    if not answer["ok"]:
        raise error_in(answer)
    return answer
