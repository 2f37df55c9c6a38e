"""One attack on one broker: survival, processor time, memory, and a bystander's round trips."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import headrace
from headrace.testing import wait_for
from headrace.testing.amqp_connection import ConnectionLost, NoAnswer, RawConnection
from support import brokers
from support.attacks import Attack
from support.attacks.bystander import INTERVAL
from support.attacks.target import Target
from support.process_state import is_running

_TICK = os.sysconf("SC_CLK_TCK")
SHORTEST = 1.0  # seconds that are measured at least, so that there are 50 round trips


@dataclass(slots=True)
class Outcome:
    """What one attack did. Times in seconds, memory in MiB, a bystander's times in ms."""

    name: str
    lives: bool
    seconds: float
    cpu: float
    loop_cpu: float
    peak: float
    grown: float
    p50: float = 0.0
    p99: float = 0.0
    longest: float = 0.0
    loop_p99: float = 0.0
    """Processor time of the loop during a round trip: hardly depends on the machine's load."""
    ended: str = ""
    """What ended the attack early: a refusal, a lost connection; empty when nothing did."""


class Bystander:
    """The process of ``bystander.py``."""

    def __init__(self, port: int, pid: int) -> None:
        here = Path(__file__).parent
        roots = (Path(headrace.__file__).parents[1], here.parents[1])
        self._process = subprocess.Popen(
            [sys.executable, str(here / "bystander.py"), str(port), str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # the broker may be gone
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, roots))},
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def trips(self) -> list[tuple[float, float, float]]:
        """End it; all round trips: when it began, seconds, processor seconds of the loop."""
        output, _ = self._process.communicate(timeout=60)
        return [(one[0], one[1], one[2]) for one in json.loads(output or b"[]")]

    def __enter__(self) -> Bystander:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


def measure(attack: Attack, directory: Path) -> Outcome:
    """Carry the attack out against a new broker with its files in the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    broker = brokers.start(directory, *attack.flags, env=dict(attack.env))
    assert broker.pid is not None
    try:
        target = Target(broker)
        with target.stack, Bystander(broker.amqp_port, broker.pid) as bystander:
            return _carry_out(attack, target, broker.pid, bystander)
    finally:
        broker.kill()


def _carry_out(attack: Attack, target: Target, pid: int, bystander: Bystander) -> Outcome:
    steps = attack.run(target)
    next(steps)
    _wait_until_idle(pid)
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak counts from here
    resident = _memory(pid, "VmRSS")
    cpu, loop_cpu, start = _cpu(f"/proc/{pid}/stat"), _cpu(f"/proc/{pid}/task/{pid}/stat"), _now()
    ended = _finish(steps)
    lives = is_running(pid) and _answers(target)
    if not lives:
        return Outcome(attack.name, False, _now() - start, 0, 0, 0, 0, ended=ended)
    time.sleep(max(0.0, start + SHORTEST - _now()))
    peak = _memory(pid, "VmHWM")
    outcome = Outcome(
        name=attack.name,
        lives=True,
        seconds=_now() - start,
        cpu=_cpu(f"/proc/{pid}/stat") - cpu,
        loop_cpu=_cpu(f"/proc/{pid}/task/{pid}/stat") - loop_cpu,
        peak=peak,
        grown=peak - resident,
        ended=ended,
    )
    _note_trips(outcome, [one for one in bystander.trips() if one[0] + one[1] > start])
    return outcome


def _finish(steps: Iterator[None]) -> str:
    """The measured half of an attack; a refusal by the broker is one way for it to end."""
    try:
        next(steps, None)
    except (ConnectionLost, NoAnswer, OSError, AssertionError) as error:  # urllib's are OSErrors
        return f"{type(error).__name__}: {error}"
    return ""


def _answers(target: Target) -> bool:
    """Whether a new connection is still served."""
    try:
        RawConnection(target.broker.amqp_port).close()
    except (ConnectionLost, NoAnswer):
        return False
    return True


def _wait_until_idle(pid: int) -> None:
    """What the preparation left to do is no part of the attack."""

    def is_idle() -> bool:
        before = _cpu(f"/proc/{pid}/stat")
        time.sleep(0.2)
        return _cpu(f"/proc/{pid}/stat") - before < 0.06

    wait_for(is_idle, timeout=60)


def _note_trips(outcome: Outcome, trips: list[tuple[float, float, float]]) -> None:
    """A trip that took long stands for those which could not begin in the meantime as well."""
    walls: list[float] = []
    loops: list[float] = []
    for _, seconds, loop in trips:
        n = max(1, round(seconds / INTERVAL))
        walls += [seconds * (n - i) / n for i in range(n)]
        loops += [loop * (n - i) / n for i in range(n)]
    walls.sort()
    loops.sort()
    outcome.p50 = walls[len(walls) // 2] * 1000
    outcome.p99 = walls[len(walls) * 99 // 100] * 1000
    outcome.longest = walls[-1] * 1000
    outcome.loop_p99 = loops[len(loops) * 99 // 100] * 1000


def _now() -> float:
    return time.monotonic()


def _cpu(stat: str) -> float:
    """Processor seconds of a process or thread, in the kernel and outside."""
    user, system = Path(stat).read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / _TICK


def _memory(pid: int, field: str) -> float:
    """VmRSS or VmHWM in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise LookupError(field)
