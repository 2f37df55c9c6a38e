"""A process that is killed: what it was told to be committed is there afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import headrace
from headrace.store.sqlite import SqliteMetadata

# Declares for ever; a line on standard output for each ticket that on_commit reports.
DECLARE_FOR_EVER = """
import itertools, os, queue, sys
from pathlib import Path
from headrace.store.api.rows import BindingRow, QueueRow
from headrace.store.sqlite import SqliteMetadata

calls = queue.SimpleQueue()
store = SqliteMetadata(Path(sys.argv[1]))
store.load()
store.start(calls.put, lambda ticket: os.write(1, b"%d\\n" % ticket), sys.exit)
for number in itertools.count(1):
    store.save(QueueRow(number, "u", "/", f"q{number}"))
    store.save(BindingRow("/", "ex", True, f"q{number}", ""))
    calls.get(timeout=20)()  # at least one commit per round, so that there is no end of batches
"""


def test_everything_reported_as_committed_survives_a_kill(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(headrace.__file__).parents[1])}
    with subprocess.Popen(
        [sys.executable, "-c", DECLARE_FOR_EVER, str(tmp_path)], stdout=subprocess.PIPE, env=env
    ) as process:
        assert process.stdout is not None
        try:
            told = [process.stdout.readline() for _ in range(20)]
        finally:
            process.kill()
        told += process.stdout.readlines()
    assert process.returncode == -9

    store = SqliteMetadata(tmp_path)
    declarations = store.load()
    store.close()

    queues, bindings = len(declarations.queues), len(declarations.bindings)
    assert queues + bindings >= int(told[-1]) >= 20
    assert [row.id for row in declarations.queues] == list(range(1, queues + 1))
    assert queues - bindings in (0, 1)  # a prefix of the changes, in their order
    assert declarations.next_queue_id == queues + 1
