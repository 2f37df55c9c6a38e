"""The fetch process: jobs in, Arrow frames out. `python -m headrace.server.fetch.process FD`.

The only part of the broker that imports NumPy and pyarrow. It reads files through descriptors it
is given, opens nothing by name, and ends when the broker does.
"""

from __future__ import annotations

import logging
import mmap
import os
import socket
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from threading import BoundedSemaphore

import numpy as np
import pyarrow as pa

from headrace.errors import StoreError
from headrace.server.fetch.job import Job, Piece
from headrace.store.arrow.batches import Decoder, batches_of
from headrace.store.arrow.contents import ContentColumns
from headrace.store.arrow.entries import EntryColumns
from headrace.store.arrow.gather import Bytes
from headrace.store.arrow.records import Slice, rows_of
from headrace.store.arrow.schema import schema_of
from headrace.wire.native.messages import Op, message, message_head

logger = logging.getLogger(__name__)

THREADS = 4
NICE = 10  # where the broker wants the same core, messages go first and bulk reads wait
MAX_DESCRIPTORS = 250
MAX_PARTS = 1000  # of one call; the system takes 1024
IDLE_SECONDS = 300.0
STALLED_SECONDS = 120.0  # a client that takes nothing for so long is given up


def _decoder(job: Job) -> Decoder:
    if job.kind == "topic":
        return lambda rows: EntryColumns(rows, job.lane)
    return ContentColumns


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
    """One job; its descriptors are closed whatever happens, and a closed output ends the fetch."""
    try:
        with socket.socket(fileno=fds[0]) as out:
            out.settimeout(STALLED_SECONDS)
            with os.fdopen(os.dup(fds[1]), "rb") as file:
                file.seek(0)
                job = Job.decode(file.read())
            _answer(job, fds[2:], out)
    except (BrokenPipeError, ConnectionResetError, TimeoutError):
        pass  # the client has gone
    except Exception:
        logger.exception("a fetch has failed")
    finally:
        for fd in fds[1:]:
            os.close(fd)


def _answer(job: Job, segments: list[int], out: socket.socket) -> None:
    try:
        for parts in _stream(job, segments):
            fields = {"rid": job.rid, "ch": job.ch, "ok": True, "last": False}
            size = sum(map(len, parts))
            send_all(out, [message_head(Op.FETCH, fields, "data", size), *parts])
    except StoreError as error:
        out.sendall(_frame(job, ok=False, code="store", text=str(error), last=True))
        return
    out.sendall(_frame(job, ok=True, data=b"", last=True, next=job.next))


def _frame(job: Job, **fields: object) -> bytes:
    return message(Op.FETCH, {"rid": job.rid, "ch": job.ch, **fields})


def send_all(out: socket.socket, parts: Sequence[bytes | memoryview]) -> None:
    """Everything, in order, without joining it first."""
    waiting = deque(memoryview(part).cast("B") for part in parts if len(part))
    while waiting:
        sent = out.sendmsg(list(islice(waiting, MAX_PARTS)))
        while waiting and sent >= len(waiting[0]):
            sent -= len(waiting.popleft())
        if sent:
            waiting[0] = waiting[0][sent:]


def _stream(job: Job, segments: list[int]) -> Iterator[list[bytes | memoryview]]:
    """An Arrow stream in pieces: its schema, its batches, its end."""
    sink = _Sink()
    with pa.ipc.new_stream(sink, schema_of(job.columns)) as writer:
        for piece, fd in zip(job.pieces, segments, strict=True):
            for batch in _batches(job, piece, fd):
                writer.write_batch(batch)
                yield sink.take()
    yield sink.take()


def _batches(job: Job, piece: Piece, fd: int) -> Iterator[pa.RecordBatch]:
    data: Bytes = np.frombuffer(mmap.mmap(fd, 0, prot=mmap.PROT_READ), np.uint8)
    columns = [
        np.frombuffer(one, np.uint64).astype(np.int64)
        for one in (piece.positions, piece.firsts, piece.lows, piece.highs)
    ]
    columns[0] -= piece.base
    rows, damaged = rows_of(data, piece.base, Slice(*columns))
    if damaged:
        raise StoreError(
            f"{len(damaged)} messages of {job.source} cannot be read, the first has offset "
            f"{damaged[0]}: their checksums are wrong. `headrace fsck` tells more; nothing behind "
            f"them was read"
        )
    yield from batches_of(rows, job.source, job.partition, job.columns, _decoder(job))


class _Sink:
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
