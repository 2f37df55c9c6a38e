"""`headrace demo` and the examples: what a newcomer runs first must work as it says."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest

from headrace.cli.main import main
from headrace.demo import run
from headrace.demo.broker import lasting_ports
from headrace.demo.chapters import pipeline, topics
from headrace.demo.clients import Clients
from headrace.demo.output import DemoOutput
from headrace.spark.pipelines.file import load as load_pipeline
from headrace.testing import wait_for
from support import brokers
from support.brokers import Broker
from support.process_state import descendants, is_running

EXAMPLES = Path(__file__).parents[2] / "examples"


def demonstrate(*args: str, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headrace", "demo", *args],
        env=brokers._environment(extra),
        capture_output=True,
        text=True,
        timeout=400,
    )


# -- the demonstration -----------------------------------------------------------------------------


@pytest.mark.timeout(420)
def test_every_claim_of_the_demonstration_holds() -> None:
    done = demonstrate(PYTHONIOENCODING="utf-8")

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "✗" not in done.stdout
    assert "\x1b" not in done.stdout  # colours are for terminals
    held = re.search(r"^(\d+) of (\d+) claims held", done.stdout, re.M)
    assert held is not None
    assert held[1] == held[2]
    assert done.stdout.count("✓") == int(held[1]) >= 20
    for chapter in (run.three_ways, *run.CHAPTERS, run.crash, *run.QUICK, *run.SLOW):
        assert f". {chapter.__doc__}\n" in done.stdout
    assert max(map(len, done.stdout.splitlines())) < 80
    assert "$ headrace publish -e counter -k order.shell" in done.stdout
    assert "anna 100  ben 100  clara 100" in done.stdout
    assert re.search(r"measured here: [\d,]+ messages/s in, [\d,]+ messages/s out", done.stdout)
    assert "200 parcels consumed, each once; other tags are skipped" in done.stdout
    assert "   shop           web   counter      post       all\n" in done.stdout


def test_keep_leaves_a_broker_that_works() -> None:
    done = demonstrate("--keep", "--quick")
    assert done.returncode == 0, done.stdout + done.stderr
    url = re.search(r"still running: (\S+)", done.stdout)
    stop = re.search(r"kill (\d+)   \(its files: (.*)\)", done.stdout)
    assert url is not None
    assert stop is not None
    pid, directory = int(stop[1]), Path(stop[2])
    look = re.search(r"List its queues: headrace (.*)", done.stdout)
    assert look is not None
    page = re.search(r"Its page: (\S+)", done.stdout)
    assert page is not None
    try:
        listed = subprocess.run(
            [sys.executable, "-m", "headrace", *look[1].split()],
            env=brokers._environment({}),
            capture_output=True,
            text=True,
            timeout=20,
        )
        assert "orders-unattended\t0\t" in listed.stdout
        with urllib.request.urlopen(page[1], timeout=20) as reply:
            assert b"<title>Headrace" in reply.read()
        with pika.BlockingConnection(pika.URLParameters(url[1])) as connection:
            declared = connection.channel().queue_declare("orders-in-the-storm", passive=True)
            assert declared.method.message_count >= 300
    finally:
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: not is_running(pid), timeout=20)
        shutil.rmtree(directory)


def test_a_claim_that_does_not_hold_is_named_and_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(output: DemoOutput, clients: Clients) -> None:
        """A bad day"""
        output.expect("two and two make five", 2 + 2, 5)

    def broken(output: DemoOutput, clients: Clients) -> None:
        """A worse day"""
        clients.connect().channel.queue_declare("missing", passive=True)

    monkeypatch.setattr(run, "CHAPTERS", (wrong, broken))
    for name in ("three_ways", "crash"):
        monkeypatch.setattr(run, name, lambda output, broker: None)
    monkeypatch.setattr(run, "QUICK", ())

    assert main(["demo", "--quick"]) == 1
    told = capsys.readouterr().out
    assert "seen 4, expected 5" in told
    assert "did not hold: two and two make five" in told
    assert "ChannelClosedByBroker" in told
    assert "1 of 3 claims held" in told


def only(monkeypatch: pytest.MonkeyPatch, *chapters: Any) -> None:  # noqa: ANN401
    """Tell nothing but these chapters, which start other programs."""
    for name in ("three_ways", "crash"):
        monkeypatch.setattr(run, name, lambda output, broker: None)
    for name in ("CHAPTERS", "QUICK"):
        monkeypatch.setattr(run, name, ())
    monkeypatch.setattr(run, "SLOW", chapters)


def test_without_java_the_exit_status_is_not_zero(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    only(monkeypatch, pipeline.pipeline)
    monkeypatch.setattr("headrace.demo.chapters.pipeline.shutil.which", lambda name: None)

    assert main(["demo"]) == 1
    told = capsys.readouterr().out
    assert "it needs Java 17: apt-get install openjdk-17-jre-headless" in told
    assert "did not hold: Spark can run on this machine" in told


def test_without_mariadb_the_skipped_steps_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    only(monkeypatch, topics.in_a_database)
    monkeypatch.setattr("headrace.testing.mariadb.find_server", lambda: None)

    assert main(["demo"]) == 0
    assert "MariaDB is not installed (apt-get install mariadb-server)" in capsys.readouterr().out


def test_without_a_driver_for_mariadb_it_does_not_say_that_mariadb_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    only(monkeypatch, topics.in_a_database)
    monkeypatch.setattr("headrace.testing.mariadb.find_server", lambda: ("mariadbd", "install"))
    monkeypatch.setitem(sys.modules, "pymysql", None)

    assert main(["demo"]) == 0
    told = capsys.readouterr().out
    assert "PyMySQL is not installed (pip install 'headrace[mysql]'): skipped." in told


def test_the_file_of_the_pipeline_is_a_good_one(tmp_path: Path) -> None:
    doors = {"web": 'queue = "w"', "counter": 'topic = "c"'}
    file = tmp_path / "totals.toml"
    file.write_text(pipeline.pipeline_text(doors))
    loaded = load_pipeline(file)

    assert [one.name for one in loaded.sources] == ["web", "counter"]
    totals = pipeline.expected(doors)
    assert sum(count for count, _ in totals.values()) == len(doors) * pipeline.ORDERS
    lines = pipeline.table(totals, doors)
    assert lines[0].split() == ["shop", "web", "counter", "all"]
    assert [line.split()[0] for line in lines[1:]] == sorted(pipeline.SHOPS)


def test_its_ports_are_not_those_of_outgoing_connections(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The broker is killed and must find them free again."""
    known = tmp_path / "range"
    monkeypatch.setattr("headrace.demo.broker._EPHEMERAL", known)
    assert set(lasting_ports().values()) == {0}  # nobody says which those are

    known.write_text("32768\t60999\n")
    found = lasting_ports()
    assert len(set(found.values())) == len(found) == 5
    assert all(1024 < port < 32768 for port in found.values())


def test_without_pika_the_skipped_steps_are_named() -> None:
    program = """
import sys
sys.modules["pika"] = None
from headrace.cli.main import main
sys.exit(main(["demo", "--quick"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=brokers._environment({"PYTHONIOENCODING": "utf-8"}),
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "pika is not installed (pip install pika): its message is skipped." in done.stdout
    assert "Twelve chapters need pika" in done.stdout
    assert len(run.CHAPTERS) + 1 == 12
    held = re.search(r"^(\d+) of (\d+) claims held", done.stdout, re.M)
    assert held is not None
    assert held[1] == held[2]
    assert done.stdout.count("✓") == int(held[1]) >= 10


@pytest.mark.parametrize("early", [True, False], ids=["while-starting", "while-running"])
def test_a_demonstration_that_is_ended_takes_its_broker_along(early: bool) -> None:
    command = [sys.executable, "-m", "headrace", "demo", "--quick"]
    with subprocess.Popen(
        command, env=brokers._environment({}), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        if not early:
            assert process.stdout.readline().startswith(b"Headrace")  # its broker is up
        file = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        children = wait_for(lambda: file.read_text().split(), timeout=10, interval=0.0005)
        process.send_signal(signal.SIGTERM)

        assert process.wait(20) == 1

    assert children
    assert not any(is_running(int(child)) for child in children)


@pytest.mark.timeout(300)  # Spark starts, beside everything else
@pytest.mark.parametrize(("number", "times"), [(signal.SIGTERM, 2), (signal.SIGINT, 1)])
def test_a_demonstration_that_is_ended_waits_for_its_pipeline(number: int, times: int) -> None:
    """Twice is what `timeout` does: to the process and to its group."""
    if shutil.which("java") is None and not os.environ.get("CI"):
        pytest.skip("no Java")
    program = """
import sys
from headrace.cli.main import main
from headrace.demo import run
from headrace.demo.chapters.pipeline import pipeline
run.three_ways = lambda output, broker: None
run.WITH_PIKA, run.QUICK, run.SLOW = False, (), (pipeline,)
sys.exit(main(["demo"]))
"""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=brokers._environment({}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        wait_for(lambda: descendants(process.pid, b"SparkSubmit"), timeout=60, interval=0.05)
        started = descendants(process.pid)
        process.send_signal(number)
        if times == 2:
            wait_for(lambda: signal_ignored(process.pid, number), timeout=20, interval=0.001)
            process.send_signal(number)

        assert process.wait(200) == 1
        assert [pid for pid in started if is_running(pid)] == []


def signal_ignored(pid: int, number: int) -> bool:
    found = re.search(r"^SigIgn:\t(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.M)
    return found is not None and bool(int(found[1], 16) >> (number - 1) & 1)


def test_marks_are_plain_where_the_terminal_knows_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", sink)
    output = DemoOutput()
    output.check("fine", True)
    output.check("not fine", False)
    sink.flush()

    lines = sink.buffer.getvalue().decode().splitlines()  # type: ignore[attr-defined]
    assert lines == [" ok fine", " NO not fine"]


# -- the examples ----------------------------------------------------------------------------------


@contextmanager
def example(broker: Broker, name: str, *args: str) -> Iterator[subprocess.Popen[str]]:
    """Run an example; one that is still running at the end gets a Ctrl-C and must exit with 0."""
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLES / name), *args],
        env=brokers._environment(
            {"AMQP_URL": broker.url, "HEADRACE_NATIVE_PORT": str(broker.native_port)}
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=20)[1]
        assert (process.returncode, errors) == (0, "")
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def read_lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().rstrip() for _ in range(count)]


@pytest.fixture
def own_broker(start_broker: Any) -> Broker:  # noqa: ANN401
    """The examples use fixed names, so they get a broker to themselves."""
    started: Broker = start_broker()
    return started


def test_a_consumer_gets_what_the_producer_sends(own_broker: Broker) -> None:
    with example(own_broker, "consumer.py") as consumer:
        assert read_lines(consumer, 1) == ["waiting for messages, stop with Ctrl-C"]
        with example(own_broker, "producer.py", "3") as producer:
            sent = read_lines(producer, 3)
            producer.wait(20)

        assert sent == [f"published hello {number}, reached 1 queue" for number in (1, 2, 3)]
        got = [f"ctag1.1 got 'hello {number}', key hello-queue" for number in (1, 2, 3)]
        assert read_lines(consumer, 3) == got


def test_the_producer_may_come_first(own_broker: Broker) -> None:
    with example(own_broker, "producer.py") as producer:
        producer.wait(20)

    with example(own_broker, "consumer.py") as consumer:
        assert read_lines(consumer, 2)[1] == "ctag1.1 got 'hello 1', key hello-queue"


def test_what_the_consumer_printed_does_not_come_again(own_broker: Broker) -> None:
    for _ in range(2):
        with example(own_broker, "producer.py", "2") as producer:
            producer.wait(20)
        with example(own_broker, "consumer.py") as consumer:
            got = read_lines(consumer, 3)[1:]
        assert got == [f"ctag1.1 got 'hello {number}', key hello-queue" for number in (1, 2)]


def test_with_pika_a_consumer_gets_what_the_producer_sends(own_broker: Broker) -> None:
    with example(own_broker, "pika_consumer.py") as consumer:
        assert read_lines(consumer, 1) == ["waiting for messages, stop with Ctrl-C"]
        with example(own_broker, "pika_producer.py", "3") as producer:
            sent = read_lines(producer, 3)
            producer.wait(20)

        assert sent == [f"published message {number}" for number in (1, 2, 3)]
        assert read_lines(consumer, 3) == [f"received message {number}" for number in (1, 2, 3)]


def test_with_pika_the_producer_may_come_first(own_broker: Broker) -> None:
    with example(own_broker, "pika_producer.py") as producer:
        producer.wait(20)

    with example(own_broker, "pika_consumer.py") as consumer:
        assert read_lines(consumer, 6)[1:] == [f"received message {n}" for n in range(1, 6)]


@pytest.mark.parametrize("first", ["rpc_server.py", "rpc_client.py"])
def test_requests_are_answered_whichever_program_starts_first(
    own_broker: Broker, first: str
) -> None:
    second = {"rpc_server.py": "rpc_client.py", "rpc_client.py": "rpc_server.py"}[first]
    with example(own_broker, first) as one, example(own_broker, second) as two:
        client = one if first == "rpc_client.py" else two
        assert read_lines(client, 2) == ["the square of 3 is 9", "the square of 12 is 144"]
        client.wait(20)


def test_examples_are_short_and_told_in_their_first_line() -> None:
    files = sorted(EXAMPLES.glob("*.py"))
    assert [file.name for file in files] == [
        "consumer.py",
        "pika_consumer.py",
        "pika_producer.py",
        "producer.py",
        "rocketmq_consumer.py",
        "rocketmq_producer.py",
        "rpc_client.py",
        "rpc_server.py",
        "sqlite_engine.py",
    ]
    for file in files:
        text = file.read_text()
        assert text.startswith('"""')
        # A topic engine is a program, not a first message.
        assert len(text.splitlines()) < (200 if file.name == "sqlite_engine.py" else 30)
