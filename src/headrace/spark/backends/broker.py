"""A broker as a backend: ranges and pins for the driver, Arrow batches for the tasks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from headrace.bulk.client import BulkConnection, ReadableSource
from headrace.client.errors import ConnectionClosed, HeadraceError
from headrace.client.settings import settings_of
from headrace.model.log_epochs import current_epoch
from headrace.spark.backends.base import AGAIN_SECONDS, GAP_SECONDS, retried
from headrace.spark.errors import DataLost, SourceChanged, SparkError
from headrace.spark.offsets import SourceOffset, StreamOffset
from headrace.spark.options import ReadOptions
from headrace.spark.selection import selection
from headrace.spark.task_plan import TaskRange

FETCH_SECONDS = 120.0
_SAME = {"data_lost": DataLost, "source_changed": SourceChanged}


def connect(url: str, patience: float = 0.0) -> BulkConnection:
    """Connect to headrace://user:password@host:port/vhost.

    Retries for ``patience`` seconds while the broker is unreachable: it may be restarting.
    """
    settings = replace(settings_of(url), request_timeout=FETCH_SECONDS)
    with translated_errors():
        return retried(patience, lambda: BulkConnection(settings), ConnectionClosed)


class BrokerBackend:
    """Queues and topics of a running broker."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def sources(
        self, time_ms: int | None = None, *, complete: bool = False
    ) -> dict[str, ReadableSource]:
        options = self._options
        wanted = [{options.kind: name} for name in options.names]
        with connect(options.url, options.patience) as connection, translated_errors():
            found = connection.sources(wanted, time_ms or 0, GAP_SECONDS if complete else 0.0)
        return {one.name: one for one in found}

    def batches(self, part: TaskRange, uuid: str) -> Iterator[pa.RecordBatch]:
        options = self._options
        choose = selection(options)
        wanted: dict[str, object] = {
            options.kind: part.source,
            "partition": part.partition,
            "uuid": uuid,
            "columns": list(choose.needed),
        }
        if options.fail_on_data_loss and options.is_stream:
            wanted |= {"complete": True}
            wanted |= {"epoch": part.epoch} if part.epoch is not None else {}
        start, progress = part.start, time.monotonic()
        while start < part.end:
            with connect(options.url, options.patience) as connection, translated_errors():
                try:
                    rows = 0
                    for batch in _decoded(connection.fetch(start, part.end, **wanted)):
                        yield choose.apply(batch)
                        rows += batch.num_rows
                        start = batch.column("offset")[-1].as_py() + 1
                        progress = time.monotonic()
                    if not connection.is_sparse:
                        _check_count(part, rows, connection.messages)
                        _check_end(part, start, options)
                    return
                except ConnectionClosed:
                    if time.monotonic() - progress >= options.patience:
                        raise
            time.sleep(AGAIN_SECONDS)

    def pin(self, position: StreamOffset) -> None:
        options = self._options
        positions = {name: (one.uuid, one.next) for name, one in position.sources.items()}
        epochs = {name: one.epochs for name, one in position.sources.items()}
        wanted = (position.query, options.kind, positions, options.pin_bytes, epochs)
        with connect(options.url, options.patience) as connection:
            try:
                with translated_errors():
                    connection.pin(*wanted)
            except DataLost:
                if options.fail_on_data_loss:
                    raise
                with translated_errors():  # lost messages stay lost: pin from here on
                    connection.unpin(position.query)
                    connection.pin(*wanted)

    def pinned(self, query: str) -> StreamOffset | None:
        options = self._options
        with connect(options.url, options.patience) as connection, translated_errors():
            pins = {pin.name: pin for pin in connection.pins()
                    if (pin.query, pin.kind) == (query, options.kind)}  # fmt: skip
            names = [{options.kind: name} for name in options.names if name in pins]
            found = connection.sources(names) if names else []
        sources = {
            one.name: SourceOffset(
                one.uuid,
                {int(part): int(at) for part, at in pins[one.name].positions.items()},
                {part: current_epoch(epochs) for part, epochs in one.epochs.items()},
            )
            for one in found
            if one.uuid == pins[one.name].uuid
        }
        return StreamOffset(query, sources) if sources else None

    def unpin(self, query: str) -> None:
        with connect(self._options.url, self._options.patience) as connection, translated_errors():
            connection.unpin(query)


def _check_count(part: TaskRange, rows: int, messages: int) -> None:
    if rows != messages:
        raise SparkError(
            f"the broker has {messages} messages of '{part.source}' before offset {part.end} and "
            f"sent {rows}"
        )


def _check_end(part: TaskRange, reached: int, options: ReadOptions) -> None:
    """The offsets of a topic have no holes: a range that ends early was not read completely."""
    is_strict = options.kind == "topic" and options.fail_on_data_loss and options.is_stream
    if is_strict and reached != part.end:
        raise DataLost(
            f"'{part.source}' partition {part.partition}: offsets {reached} to {part.end - 1} "
            "could not be read"
        )


def _decoded(pieces: Iterator[bytes]) -> Iterator[pa.RecordBatch]:
    """Every piece is whole messages of an Arrow stream; where one begins, there is its schema."""
    for piece in filter(None, pieces):
        for message in pa.ipc.MessageReader.open_stream(piece):
            if message.type == "schema":
                schema = pa.ipc.read_schema(message)
            else:
                yield pa.ipc.read_record_batch(message, schema)


@contextmanager
def translated_errors() -> Iterator[None]:
    """Errors of the broker as SparkError."""
    try:
        yield
    except HeadraceError as error:
        if error.code in _SAME:
            raise _SAME[error.code](error.text) from None
        raise SparkError(str(error)) from None
