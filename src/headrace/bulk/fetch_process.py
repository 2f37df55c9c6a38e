"""The fetch process: jobs in, frames out. `python -m headrace.bulk.fetch_process FD`.

Frames hold Arrow batches, or whole records for readers that decode them.

The only part of the broker that imports NumPy and pyarrow. It reads files through descriptors it
is given, opens no file by name, and ends when the broker does. Rows of a database it selects there.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from threading import BoundedSemaphore

import pyarrow as pa

from headrace.bulk.decode.batches import batches_of
from headrace.bulk.decode.schema import schema_of
from headrace.bulk.decode.sql_rows import batch_of
from headrace.bulk.raw_records import blocks_of
from headrace.bulk.read_plan import FetchRequest, ReadPlan, SqlPlan
from headrace.errors import EngineUnavailable, SourceChanged, StoreError
from headrace.wire.native.error_codes import code_of
from headrace.wire.native.payloads import Op, message, message_head

logger = logging.getLogger(__name__)

THREADS = 4
NICE = 10  # where the broker wants the same core, messages go first and bulk reads wait
MAX_DESCRIPTORS = 250
MAX_PARTS = 1000  # of one call; the system takes 1024
ROWS_PER_FRAME = 2000  # of a database
IDLE_SECONDS = 300.0
STALLED_SECONDS = 120.0  # a client that takes nothing for so long is given up


def main(descriptor: int) -> None:
    """Serve until the broker hangs up, or nothing was asked for a while."""
    os.nice(NICE)
    control = socket.socket(fileno=descriptor)
    control.settimeout(IDLE_SECONDS)
    places = BoundedSemaphore(THREADS)
    with control, ThreadPoolExecutor(THREADS) as pool:
        while True:
            places.acquire()
            try:
                data, fds, _, _ = socket.recv_fds(control, 16, MAX_DESCRIPTORS)
            except TimeoutError:
                return
            if not data:
                return
            pool.submit(_run, fds).add_done_callback(lambda _: places.release())


def _run(fds: list[int]) -> None:
    """One order; its descriptors are closed whatever happens. A closed output ends the fetch.

    The broker hears of a direct one when it begins and when it has ended.
    """
    try:
        with socket.socket(fileno=fds.pop(0)) as broker:
            broker.settimeout(STALLED_SECONDS)
            with os.fdopen(fds.pop(0), "rb") as file:
                file.seek(0)
                order = FetchRequest.decode(file.read())
            if not order.is_direct:
                _answer(order, fds, broker)
                return
            broker.sendall(b"b")  # what is written from now on cannot be taken back
            with socket.socket(fileno=fds.pop(0)) as client:
                client.settimeout(STALLED_SECONDS)
                _answer(order, fds, client)
            broker.sendall(b"e")
    except (BrokenPipeError, ConnectionResetError, TimeoutError):
        pass  # the client has gone
    except Exception:
        logger.exception("a fetch has failed")
    finally:
        for fd in fds:
            os.close(fd)


def _answer(order: FetchRequest, segments: list[int], out: socket.socket) -> None:
    try:
        for more, parts in _blocks(order, segments):
            fields = {"rid": order.rid, "ch": order.ch, "ok": True, "last": False, **more}
            size = sum(map(len, parts))
            send_all(out, [message_head(order.op, fields, "data", size), *parts])
    except (StoreError, EngineUnavailable, SourceChanged) as error:
        out.sendall(_frame(order, ok=False, code=code_of(error), text=str(error), last=True))
        return
    plan = order.job
    last = {"sparse": True} if isinstance(plan, SqlPlan) else {"messages": plan.messages}
    out.sendall(_frame(order, ok=True, data=b"", last=True, next=plan.next, **last))


def _frame(order: FetchRequest, **fields: object) -> bytes:
    return message(order.op, {"rid": order.rid, "ch": order.ch, **fields})


def _blocks(
    order: FetchRequest, segments: list[int]
) -> Iterator[tuple[dict[str, object], list[bytes | memoryview]]]:
    if order.op == Op.RECORDS and isinstance(order.job, ReadPlan):
        return blocks_of(order.job, segments)
    if order.part is not None:
        return _part(order.job, segments, *order.part)
    return (({}, parts) for parts in _stream(order.job, segments))


def send_all(out: socket.socket, parts: Sequence[bytes | memoryview]) -> None:
    """Everything, in order, without joining it first."""
    waiting = deque(memoryview(part).cast("B") for part in parts if len(part))
    while waiting:
        sent = out.sendmsg(list(islice(waiting, MAX_PARTS)))
        while waiting and sent >= len(waiting[0]):
            sent -= len(waiting.popleft())
        if sent:
            waiting[0] = waiting[0][sent:]


def _stream(job: ReadPlan | SqlPlan, segments: list[int]) -> Iterator[list[bytes | memoryview]]:
    """An Arrow stream in pieces: its schema, its batches, its end."""
    sink = _FrameBuffer()
    with pa.ipc.new_stream(sink, schema_of(job.columns)) as writer:
        for batch in _batches(job, segments):
            writer.write_batch(batch)
            yield sink.take()
    yield sink.take()


def _part(
    job: ReadPlan | SqlPlan, segments: list[int], is_first: bool, left: int
) -> Iterator[tuple[dict[str, object], list[bytes | memoryview]]]:
    """A part of an Arrow stream: the schema if it is the first, and up to ``left`` rows."""
    if is_first:
        yield {"rows": 0}, [memoryview(schema_of(job.columns).serialize())]
    for batch in _batches(job, segments):
        some = batch.slice(0, left)
        left -= some.num_rows
        yield {"rows": some.num_rows}, [memoryview(some.serialize())]
        if not left:
            return


def _batches(job: ReadPlan | SqlPlan, segments: list[int]) -> Iterator[pa.RecordBatch]:
    if isinstance(job, ReadPlan):
        yield from batches_of(job, segments)
        return
    found = batch_of(job)
    for start in range(0, found.num_rows, ROWS_PER_FRAME):
        yield found.slice(start, ROWS_PER_FRAME)


class _FrameBuffer:
    """What pyarrow writes to: collects without copying, until taken."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes | memoryview] = []

    def write(self, data: pa.Buffer | bytes) -> int:
        self._parts.append(data if isinstance(data, bytes) else memoryview(data))
        return len(data)

    def take(self) -> list[bytes | memoryview]:
        taken, self._parts = self._parts, []
        return taken

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


if __name__ == "__main__":
    main(int(sys.argv[1]))
