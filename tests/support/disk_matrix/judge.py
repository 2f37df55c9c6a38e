"""Decides whether a damaged data directory was handled as promised.

Everything confirmed is served, or what is missing is named, or the broker refuses to start with one
line that names the file and what to do. Never a traceback, never silence.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from headrace.bulk.client import BulkConnection
from headrace.client.errors import HeadraceError, LoginRefused, NotAllowed
from headrace.client.settings import Settings
from headrace.testing import wait_for
from headrace.wire.native.payloads import Op
from support.disk_matrix.original import (
    GROUP,
    QUEUES,
    SEGMENT_SIZE,
    TOPIC,
    Original,
    body,
    comparable,
    mark_of,
    number_of,
)
from support.disk_matrix.programs import Programs, Unreadable
from support.disk_matrix.reported import Reported, lines_about_loss

OPERATOR = "operator"
OPERATOR_DEFINITIONS = {
    "users": [{"name": OPERATOR, "password": OPERATOR, "tags": "administrator"}],
    "permissions": [
        {"user": OPERATOR, "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
    ],
}
REMEDY = re.compile(r"fsck|restore|put it back|backup|free|upgrade|knows only")


@dataclass
class Outcome:
    """What happened, and what is wrong with it."""

    refusal: str = ""
    log: str = ""
    fsck: dict[str, Any] = field(default_factory=dict)
    fsck_text: str = ""
    definitions: dict[str, object] = field(default_factory=dict)
    delivered: dict[str, list[int]] = field(default_factory=dict)
    group: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    levels: set[str] = field(default_factory=set)
    missing: int = 0
    is_locked_out: bool = False

    @property
    def declared(self) -> set[str]:
        """Names of queues and topics."""
        queues: Any = self.definitions.get("queues", ())
        exchanges: Any = self.definitions.get("exchanges", ())
        return {one["name"].removeprefix("topic.") for one in (*queues, *exchanges)}

    @property
    def verdict(self) -> str:
        if self.faults:
            return "; ".join(self.faults)
        if self.refusal:
            return f"refused: {self.refusal}"
        if self.missing:
            levels = " and ".join(sorted(self.levels)) or "nothing: an unfinished write"
            return f"{self.missing} missing, named by {levels}"
        return "all served"


# -- the run ------------------------------------------------------------------------------------


def run(programs: Programs, data: Path, unreadable: Unreadable | None, work: Path) -> Outcome:
    """Check the directory, start a broker on it, take out everything.

    Where the user cannot log in because its rows are lost, do what the log asks the operator to do.
    """
    outcome = Outcome()
    _fsck(programs, data, unreadable, work, outcome)
    _serve(programs, data, unreadable, work, outcome)
    if outcome.is_locked_out and "meta.db: table" in outcome.log:
        outcome.is_locked_out = False
        repaired = programs.run(["fsck", "--repair", str(data)], work / "repair.txt", unreadable)
        if repaired != 0:
            outcome.faults.append(f"fsck --repair ended with status {repaired}")
        users = work / "operator.json"
        users.write_text(json.dumps(OPERATOR_DEFINITIONS))
        args = ("--load-definitions", str(users))
        _serve(programs, data, unreadable, work, outcome, *args, user=OPERATOR)
    return outcome


def _serve(
    programs: Programs,
    data: Path,
    unreadable: Unreadable | None,
    work: Path,
    outcome: Outcome,
    *more: str,
    user: str = "guest",
) -> None:
    ready, output = work / f"ready-{user}.json", work / "output.txt"
    args = ["serve", "--amqp-port", "0", "--native-port", "0", "--http-port", "0", "--no-remoting"]
    args += ["--segment-size", SEGMENT_SIZE, "--data-dir", str(data), "--ready-file", str(ready)]
    pid = programs.start([*args, *more], output, unreadable)
    code: int | None = None
    try:
        code = wait_for(lambda: _ended(programs, pid) or ready.exists(), 60)  # type: ignore[assignment]
        if code is True:
            _take_out(json.loads(ready.read_text()), outcome, user)
            os.kill(pid, signal.SIGTERM)
            code = programs.wait(pid, 30)
            if code != 0:
                outcome.faults.append(f"the broker ended with status {code}")
        else:
            outcome.refusal = "?"
    finally:
        if code is None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            programs.wait(pid)
    outcome.log = output.read_text(errors="replace")


def _ended(programs: Programs, pid: int) -> str:
    code = programs.wait(pid, 0)
    return "" if code is None else f"status {code}"


def _fsck(
    programs: Programs, data: Path, unreadable: Unreadable | None, work: Path, outcome: Outcome
) -> None:
    output = work / "fsck.json"
    code = programs.run(["fsck", "--json", str(data)], output, unreadable)
    text = outcome.fsck_text = output.read_text(errors="replace")
    if code not in (0, 1, 2):
        outcome.faults.append(f"fsck ended with status {code}")
    with suppress(json.JSONDecodeError):
        outcome.fsck = json.loads(text.strip().splitlines()[-1]) if text.strip() else {}


def _take_out(ports: dict[str, int], outcome: Outcome, user: str) -> None:
    url = f"http://127.0.0.1:{ports['http']}/api/definitions"
    settings = Settings(port=ports["native"], request_timeout=20, user=user, password=user)
    try:
        found = httpx.get(url, auth=(user, user), timeout=20)
        outcome.definitions = comparable(found.json()) if found.is_success else {}
        with BulkConnection(settings) as bulk:
            for queue in [one for one in QUEUES if one in outcome.declared]:
                outcome.delivered[queue] = list(_queue(bulk, queue, outcome))
            if TOPIC in outcome.declared:
                outcome.delivered[TOPIC] = list(_topic(bulk, outcome, token="alone"))
                outcome.group = list(_topic(bulk, outcome, token="member", group=GROUP))
    except (LoginRefused, NotAllowed):  # the user is lost, or its permissions are
        outcome.is_locked_out = True
    except (HeadraceError, httpx.HTTPError) as error:
        outcome.errors.append(f"{type(error).__name__}: {error}")


def _queue(bulk: BulkConnection, queue: str, outcome: Outcome) -> Iterator[int]:
    """What comes out of a queue, and then a new message: it must come too."""
    try:
        yield from _got(bulk, queue, outcome)
        new = body("one" if queue == "one" else "fan", 10**6)
        bulk.call(Op.PUBLISH, key=queue, properties={"delivery_mode": 2}, body=new)
        yield from _got(bulk, queue, outcome)
    except HeadraceError as error:
        outcome.errors.append(f"queue '{queue}': {type(error).__name__}: {error}")


def _got(bulk: BulkConnection, queue: str, outcome: Outcome) -> Iterator[int]:
    while (found := bulk.call(Op.GET, queue=queue, auto_ack=True)["message"]) is not None:
        yield _number(found["body"], outcome)


def _topic(bulk: BulkConnection, outcome: Outcome, **who: str) -> Iterator[int]:
    fields = {"topic": TOPIC, **who}
    try:
        for round_ in range(2):
            while (found := bulk.call(Op.READ, batch=1000, **fields))["messages"]:
                yield from (_number(row[4], outcome) for row in found["messages"])
                bulk.call(Op.COMMIT, claim=found["claim"], **fields)
            if round_ == 0:
                bulk.call(Op.APPEND, topic=TOPIC, body=body(TOPIC, 10**6 + len(who)))
    except HeadraceError as error:
        outcome.errors.append(f"topic '{TOPIC}': {type(error).__name__}: {error}")


def _number(text: bytes, outcome: Outcome) -> int:
    found = number_of(text)
    if found is None:
        outcome.faults.append(f"a message that was never published was delivered: {text[:30]!r}")
    return -1 if found is None else found[1]


# -- the verdict --------------------------------------------------------------------------------


def judge(outcome: Outcome, original: Original, file: Path, unfinished: str = "") -> None:
    """Add to the outcome what is against the promises.

    Messages in the file named ``unfinished`` may be missing without a word: the last writes before
    a crash, of which no other file knows.
    """
    for name, text in (("the broker", outcome.log), ("fsck", outcome.fsck_text)):
        if "Traceback" in text:
            last = [line for line in text.splitlines() if line.strip()][-1]
            outcome.faults.append(f"{name} printed a traceback: {last[:150]}")
    if outcome.refusal:
        _judge_refusal(outcome, file)
        return
    said = lines_about_loss(outcome.log)
    if not outcome.fsck:  # it refused, in words
        said += lines_about_loss(outcome.fsck_text)
    if outcome.definitions != original.ledger.definitions:
        _judge_definitions(outcome, original, said)
    if outcome.is_locked_out:
        outcome.faults.append("the user cannot log in")
    outcome.faults += [f"a reader got an error: {line[:150]}" for line in outcome.errors]
    _judge_order(outcome)
    _judge_messages(outcome, original, said, unfinished)


def _judge_refusal(outcome: Outcome, file: Path) -> None:
    lines = [line for line in outcome.log.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    outcome.refusal = last[-200:]
    if "Traceback" in outcome.log:
        return  # said already
    if file.name.partition("-")[0].removesuffix(file.suffix) not in last:
        outcome.faults.append(f"the refusal does not name the file: {last[:200]}")
    elif not REMEDY.search(last):
        outcome.faults.append(f"the refusal does not say what to do: {last[:200]}")


def _judge_definitions(outcome: Outcome, original: Original, said: list[str]) -> None:
    found = outcome.definitions
    changed = [k for k, v in original.ledger.definitions.items() if found.get(k) != v]
    damaged = [place["file"] for place in outcome.fsck.get("damage", ())]
    if "meta.db" in damaged or any("meta.db" in line for line in said):
        outcome.levels.add("file")
    else:
        outcome.faults.append(f"silent: {', '.join(changed)} are not as declared")


def _judge_order(outcome: Outcome) -> None:
    for queue, numbers in outcome.delivered.items():
        if any(b < a for a, b in pairwise(numbers) if a >= 0 and b >= 0):
            outcome.faults.append(f"{queue}: out of order")
        if len(set(numbers)) < len(numbers) and -1 not in numbers:
            outcome.faults.append(f"{queue}: a message came twice")


def _judge_messages(outcome: Outcome, original: Original, said: list[str], unfinished: str) -> None:
    ledger, silent = original.ledger, []
    places = original.places()
    reported = Reported(outcome.fsck, outcome.declared, places, said)
    for name in (*QUEUES, TOPIC):
        got = set(outcome.delivered.get(name, ()))
        missing = [number for number in ledger.waiting(name) if number not in got]
        outcome.missing += len(missing)
        silent += [(name, one) for one in missing if not reported.covers(name, one)]
        if name in outcome.declared and not any(one >= 10**6 for one in got):
            outcome.faults.append(f"{name}: a new message was not delivered")
    outcome.levels |= reported.levels
    again = sorted(ledger.acked & set(outcome.delivered.get("one", ())))
    if again and not unfinished and not said and not outcome.fsck.get("damage"):
        outcome.faults.append(f"silent: acknowledged messages came again: {again[:5]}")
    again = sorted(one for one in outcome.group if 0 <= one < ledger.position)
    if again and not said and not outcome.fsck.get("damage"):
        outcome.faults.append(f"silent: the group reads {len(again)} messages again")
    skipped = [one for one in range(ledger.position, ledger.sent[TOPIC])
               if one not in outcome.group and one in outcome.delivered.get(TOPIC, ())]  # fmt: skip
    if skipped:
        outcome.faults.append(f"the group skips {len(skipped)} messages: {skipped[:5]}")
    if TOPIC in outcome.declared and sum(one >= 10**6 for one in outcome.group) < 2:
        outcome.faults.append("silent: the group does not get what was appended afterwards")
    silent = [one for one in silent if not _is_only_in(unfinished, places.get(mark_of(*one), ()))]
    if silent:
        names = {name: sum(one == name for one, _ in silent) for name, _ in silent}
        outcome.faults.append(f"silent: {len(silent)} messages are missing: {names}")


def _is_only_in(file: str, places: Sequence[tuple[str, int]]) -> bool:
    return bool(file) and all(name == file for name, _ in places)
