"""A user who does no harm: one round trip per 20 ms, until its standard input is closed.

A process of its own, so that the attacker's Python does not slow it down. Prints one JSON list of
(time, seconds, processor seconds of the loop thread) per round trip.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from contextlib import suppress
from pathlib import Path

from headrace.testing.amqp_connection import RawConnection
from headrace.wire.amqp import methods as m

INTERVAL = 0.02


def main(port: int, pid: int) -> None:
    with suppress(PermissionError):  # else a busy machine lets it wait with the answer in hand
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    schedule = Path(f"/proc/{pid}/task/{pid}/schedstat")

    def loop_seconds() -> float:
        return int(schedule.read_text().split()[0]) / 1e9

    link = RawConnection(port)
    link.open_channel(1)
    link.call(1, m.QueueDeclare(queue="bystander", exclusive=True), m.QueueDeclareOk)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    trips: list[tuple[float, float, float]] = []
    while not select.select([sys.stdin], [], [], INTERVAL)[0]:
        used, start = loop_seconds(), time.monotonic()
        link.send(1, m.BasicGet(queue="bystander"))  # no publish: it would wait for an alarm
        link.wait_for(m.BasicGetEmpty, 1, 60)
        trips.append((start, time.monotonic() - start, loop_seconds() - used))
    json.dump(trips, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
