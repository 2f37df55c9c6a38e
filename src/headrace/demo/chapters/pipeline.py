"""Spark: one pipeline over a queue, a topic of the broker and a topic in the database."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib.util import find_spec

from headrace import topics
from headrace.client import ConnectionFactory
from headrace.demo.broker import DemoBroker
from headrace.demo.database import DemoDatabase
from headrace.demo.output import DemoOutput
from headrace.testing.broker_process import own_environment

ORDERS = 2000  # at each door
SHOPS = ("Oslo", "Lyon", "Turin")
BROKEN = b"{ cut off"
WEB, COUNTER, POST, TOTALS = "web-orders", "counter_orders", "post_orders", "totals"
_SECONDS = 240
_STOP_SECONDS = 150  # the start of Spark and a batch end first

_HEAD = """\
name = "shop-totals"
"""
_SOURCE = """
[sources.{door}]
{where}
decode = "json"
schema = "shop STRING NOT NULL, amount INT NOT NULL"
"""
_STEPS = """
[[steps]]
name = "orders"
sql = \"\"\"
{union}
\"\"\"

[[steps]]
name = "totals"
sql = \"\"\"
SELECT to_json(struct(shop, door, count(*) AS orders, sum(amount) AS revenue)) AS body,
       concat(shop, ' ', door) AS key
FROM orders GROUP BY shop, door
\"\"\"

[sinks.totals]
type = "topic"
topic = "totals"
mode = "update"
"""

Totals = dict[tuple[str, str], tuple[int, int]]
"""Orders and revenue of each shop and door."""


def pipeline(output: DemoOutput, broker: DemoBroker, database: DemoDatabase) -> None:
    """Spark: one pipeline over a queue, a topic and a MariaDB table"""
    lacking = _lacking()
    if lacking:
        output.check("Spark can run on this machine", False, lacking)
        output.remark("headrace demo --quick skips this chapter.")
        return
    doors = {"web": f'queue = "{WEB}"', "counter": f'topic = "{COUNTER}"'}
    if database.is_running:
        doors["post"] = f'url = "${{DATABASE}}"\ntopic = "{POST}"'
    else:
        output.remark("MariaDB is not installed: its source is skipped.")
    _take_orders(broker, database, doors)
    output.remark(
        f"{ORDERS:,} orders are in each of {len(doors)} sources, and one with invalid JSON. Two "
        "SQL steps in a pipeline file compute the revenue of each shop and source."
    )
    file = broker.directory / "totals.toml"
    file.write_text(pipeline_text(doors))
    begun = time.monotonic()
    done = _run(output, broker, database)
    seconds = time.monotonic() - begun
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        output.check("the pipeline finished", False, last[:300])
        return
    output.check("the pipeline finished", True, f"{seconds:.1f} s, including the start of Spark")
    with topics.open(broker.native_url) as store:
        messages = store.consumer(TOTALS, token="demo").read(1000)
    found = totals_in(one.body for one in messages)
    for line in table(found, doors):
        output.say(line)
    output.expect("the totals match those computed in plain Python", found, expected(doors))
    bad = "1 bad record in " in done.stderr
    output.check("the invalid order was set aside as a bad record", bad)


def _lacking() -> str:
    """What must be installed for Spark; empty when nothing is missing."""
    if any(find_spec(name) is None for name in ("pyspark", "pyarrow")):
        return "it needs pip install 'headrace[spark]'"
    if shutil.which("java") is None:
        return "it needs Java 17: apt-get install openjdk-17-jre-headless"
    return ""


def pipeline_text(doors: Mapping[str, str]) -> str:
    """The file of the pipeline."""
    sources = [_SOURCE.format(door=door, where=where) for door, where in doors.items()]
    union = "\nUNION ALL ".join(
        f"SELECT '{door}' AS door, shop, amount FROM {door}" for door in doors
    )
    return "".join([_HEAD, *sources, _STEPS.format(union=union)])


def _take_orders(broker: DemoBroker, database: DemoDatabase, doors: Mapping[str, str]) -> None:
    persistent = {"delivery_mode": 2}
    with ConnectionFactory(port=broker.native_port).new_connection() as connection:
        channel = connection.create_channel()
        channel.queue_declare(WEB, durable=True)
        bodies = [*_bodies("web"), BROKEN]
        channel.publish_batch(("", WEB, persistent, body) for body in bodies)
    with topics.open(broker.native_url) as store:
        store.create(COUNTER, queues=2)
        store.create(TOTALS)
        store.producer(COUNTER, token="appid-counter").append_many(_bodies("counter"))
    if "post" in doors:
        with topics.open(database.url) as store:
            store.create(POST)
            store.producer(POST, token="appid-post").append_many(_bodies("post"))


def _run(
    output: DemoOutput, broker: DemoBroker, database: DemoDatabase
) -> subprocess.CompletedProcess[str]:
    command = ["pipeline", "run", "totals.toml", "--once"]
    output.remark("Spark starts now; with a busy processor that takes a minute or two.")
    output.say(f"$ headrace {shlex.join(command)}")
    with subprocess.Popen(
        [sys.executable, "-m", "headrace", *command, "--master", "local[2]"],
        cwd=broker.directory,
        env={
            **own_environment(),
            "HEADRACE_URL": broker.native_url,
            "HEADRACE_STATE_DIR": str(broker.directory / "state"),
            "DATABASE": database.url if database.is_running else "",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C ends the demo, which then stops the pipeline
    ) as process:
        try:
            out, err = _output_of(process, output)
        finally:
            if process.poll() is None:
                output.remark("Stopping Spark.")
                _end(process)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def _output_of(process: subprocess.Popen[str], output: DemoOutput) -> tuple[str, str]:
    begun = time.monotonic()
    while (seconds := time.monotonic() - begun) < _SECONDS:
        output.progress(f"{seconds:.0f} s")
        try:
            return process.communicate(timeout=1)
        except subprocess.TimeoutExpired:
            continue
        finally:
            output.progress("")
    raise subprocess.TimeoutExpired("headrace pipeline run", _SECONDS)


# -- the same in plain Python ----------------------------------------------------------------------


def _orders(door: str) -> list[tuple[str, int]]:
    """Shop and amount, different at each door."""
    shift = len(door)
    return [(SHOPS[(n + shift) % len(SHOPS)], (n * shift) % 97) for n in range(ORDERS)]


def _bodies(door: str) -> list[bytes]:
    return [json.dumps({"shop": shop, "amount": n}).encode() for shop, n in _orders(door)]


def expected(doors: Iterable[str]) -> Totals:
    found: Totals = {}
    for door in doors:
        orders, revenue = Counter[str](), Counter[str]()
        for shop, amount in _orders(door):
            orders[shop] += 1
            revenue[shop] += amount
        found |= {(shop, door): (orders[shop], revenue[shop]) for shop in orders}
    return found


def totals_in(bodies: Iterable[bytes]) -> Totals:
    """The latest value of each pair: the pipeline emits changes, batch by batch."""
    rows = map(json.loads, bodies)
    return {(row["shop"], row["door"]): (row["orders"], row["revenue"]) for row in rows}


def table(totals: Totals, doors: Iterable[str]) -> list[str]:
    """A line for each shop, a column for each door."""
    names = [*doors]
    lines = ["shop    " + "".join(f"{door:>10}" for door in (*names, "all"))]
    for shop in sorted({shop for shop, _ in totals}):
        cells = [totals.get((shop, door), (0, 0))[1] for door in names]
        lines.append(f"{shop:<8}" + "".join(f"{cell:>10,}" for cell in (*cells, sum(cells))))
    return lines
