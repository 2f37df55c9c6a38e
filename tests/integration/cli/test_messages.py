"""`headrace publish`, `get`, `consume` and `purge` beside a real broker."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from headrace.client import Channel
from headrace.testing import RunningBroker, wait_for
from support.shell import call, on_terminal, run, started

Capsys = pytest.CaptureFixture[str]


def fill(channel: Channel, queue: str, *bodies: bytes) -> None:
    channel.queue_declare(queue, durable=True)
    channel.publish_batch([("", queue, None, body) for body in bodies])


def drain(channel: Channel, queue: str) -> list[bytes]:
    found = []
    while (delivery := channel.basic_get(queue, auto_ack=True)) is not None:
        found.append(delivery.body)
    return found


# -- publish ---------------------------------------------------------------------------------------


def test_the_first_five_minutes(site: RunningBroker, capsys: Capsys) -> None:
    sent = call(capsys, "publish", "-q", "hello", "hi")
    assert sent == (0, "published 1 message\n", "there was no queue hello: declared it (durable)\n")

    got = call(capsys, "get", "hello")
    assert got.code == 0
    assert got.out.split("\t")[1:] == ["", "hello", "", "hi\n"]
    assert site.queue("hello").messages == 0
    assert call(capsys, "get", "hello") == (1, "", "headrace: queue 'hello' is empty\n")


def test_properties_and_headers_arrive_as_they_were_given(channel: Channel, capsys: Capsys) -> None:
    channel.queue_declare("q")
    done = call(
        capsys,
        *("publish", "-k", "q", "--persistent", "--priority", "7", "--expiration", "60000"),
        *("--property", "content_type=text/plain", "--property", "timestamp=1700000000000"),
        *("--header", "shop=berlin", "--header", "items:=[1, 2.5, null]", "--header", "a:=true"),
        *("--header", "eq=a=b", "body"),
    )
    assert done == (0, "published 1 message\n", "")

    found = channel.basic_get("q", auto_ack=True)
    assert found is not None
    properties = found.properties
    assert (properties.delivery_mode, properties.priority, properties.expiration) == (2, 7, "60000")
    assert (properties.content_type, properties.timestamp) == ("text/plain", 1700000000000)
    wanted = {"shop": "berlin", "items": [1, 2.5, None], "a": True, "eq": "a=b"}
    assert properties.headers == wanted


def test_bodies_come_from_files_and_standard_input_byte_by_byte(
    site: RunningBroker, channel: Channel, tmp_path: Path, capsys: Capsys
) -> None:
    odd = bytes(range(256)) + b"\r\n"
    (tmp_path / "body").write_bytes(odd)
    assert call(capsys, "publish", "-q", "q", "-f", str(tmp_path / "body")).code == 0
    assert run("publish", "-q", "q", input=odd).returncode == 0
    assert run("publish", "-q", "q", "--file", "-", input=b"").returncode == 0
    assert drain(channel, "q") == [odd, odd, b""]


def test_lines_are_messages(site: RunningBroker, channel: Channel) -> None:
    lines = [b"one", b"", b"\ttwo\r", "drei €".encode(), b"x" * 700_000, b"no newline at the end"]
    done = run("publish", "-q", "q", "--lines", "--json", input=b"\n".join(lines))
    assert json.loads(done.stdout) == {"confirmed": 6, "unrouted": 0}
    assert drain(channel, "q") == lines


def test_a_line_goes_as_soon_as_it_is_there(site: RunningBroker, channel: Channel) -> None:
    channel.queue_declare("log")
    arguments = ("publish", "-q", "log", "--lines")
    with started(*arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"first\nhalf")
        process.stdin.flush()
        wait_for(lambda: site.queue("log").messages == 1, timeout=20)
        out, _ = process.communicate(b" a line\n", timeout=20)
    assert (process.returncode, out) == (0, b"published 2 messages\n")
    assert drain(channel, "log") == [b"first", b"half a line"]


def test_large_counts_go_in_batches(site: RunningBroker, capsys: Capsys) -> None:
    done = call(capsys, "publish", "-q", "many", "--count", "25001", "x")
    assert done.out == "published 25,001 messages\n"
    assert site.queue("many").messages == 25001


def test_an_unroutable_message_is_a_failure(channel: Channel, capsys: Capsys) -> None:
    channel.exchange_declare("shop", "fanout")
    done = call(capsys, "publish", "-e", "shop", "x")
    assert done.code == 1
    assert "1 of them unroutable" in done.err
    assert "headrace binding list" in done.err
    assert call(capsys, "publish", "-e", "shop", "x", "--unrouted-ok").code == 0


def test_a_queue_named_by_key_or_not_to_be_made_is_not_made(
    site: RunningBroker, capsys: Capsys
) -> None:
    for arguments in (("-k", "typo"), ("-q", "typo", "--no-create")):
        done = call(capsys, "publish", *arguments, "x")
        assert done.code == 1
        assert done.err.startswith("headrace: no queue 'typo' in vhost '/'; `headrace queue list`")
    assert site.queues() == {}


def test_a_lost_connection_reports_the_confirmed_messages(
    site: RunningBroker, channel: Channel
) -> None:
    channel.queue_declare("log")
    arguments = ("publish", "-q", "log", "--lines")
    with started(*arguments, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"one\ntwo\n")
        process.stdin.flush()
        wait_for(lambda: site.queue("log").messages == 2, timeout=20)
        channel.connection.close()
        site.stop()
        _, err = process.communicate(b"three\n", timeout=30)
    assert process.returncode == 1
    assert b"(confirmed before: 2 messages)" in err
    assert len(err.splitlines()) == 1


def test_ctrl_c_while_publishing_prints_the_confirmed_messages(
    site: RunningBroker, channel: Channel
) -> None:
    channel.queue_declare("log")
    arguments = ("publish", "-q", "log", "--lines")
    with started(*arguments, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        for count in (1, 2):
            process.stdin.write(b"a line\n")
            process.stdin.flush()
            wait_for(lambda count=count: site.queue("log").messages == count, timeout=20)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 1
        told = process.stderr.read()
    # The second one may have been confirmed a moment too late to be counted.
    assert re.fullmatch(rb"confirmed: (1 message|2 messages)\nheadrace: interrupted\n", told)


# -- get -------------------------------------------------------------------------------------------


def test_looking_does_not_take(channel: Channel, site: RunningBroker, capsys: Capsys) -> None:
    fill(channel, "q", b"1", b"2", b"3")
    assert call(capsys, "get", "q", "--count", "2", "--requeue", "--lines").out == "1\n2\n"
    wait_for(lambda: site.queue("q").messages == 3)
    assert call(capsys, "get", "q", "--count", "5", "--lines").out == "1\n2\n3\n"
    assert site.queue("q") == (0, 0, 0)


def test_rejected_messages_are_dead_lettered(channel: Channel, capsys: Capsys) -> None:
    channel.queue_declare("failed", durable=True)
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "failed"}
    channel.queue_declare("work", durable=True, arguments=dead)
    channel.publish_batch([("", "work", None, b"1"), ("", "work", None, b"2")])
    assert call(capsys, "get", "work", "--reject", "--lines").out == "1\n"
    wait_for(lambda: call(capsys, "get", "failed", "--lines").out == "1\n")
    assert drain(channel, "work") == [b"2"]
    refused = call(capsys, "get", "work", "--reject", "--requeue")
    assert (refused.code, refused.err) == (
        2,
        "headrace: --requeue and --reject exclude each other\n",
    )


def test_json_has_every_field(channel: Channel, capsys: Capsys) -> None:
    channel.queue_declare("q")
    headers = {"nan": float("nan"), "bytes": b"\xff", "list": [1]}
    channel.basic_publish("", "q", {"headers": headers, "message_id": "m1"}, b"\xff\x00")
    channel.basic_publish("", "q", None, "\x1b[31m\x9b\u202e\u2028 中".encode())

    first, second = call(capsys, "get", "q", "--json", "-n", "2").out.splitlines()
    assert json.loads(first) == {
        "queue": "q",
        "exchange": "",
        "routing_key": "q",
        "message_id": "m1",
        "redelivered": False,
        "properties": {
            "headers": {"nan": "nan", "bytes": {"base64": "/w=="}, "list": [1]},
            "delivery_mode": 1,
        },
        "body_base64": "/wA=",
    }
    assert json.loads(second)["body"] == "\x1b[31m\x9b\u202e\u2028 中"
    assert not {"\x1b", "\x9b", "\u202e", "\u2028"} & set(second)
    assert "中" in second


def test_raw_bodies_are_exact(channel: Channel) -> None:
    fill(channel, "q", b"\xff\n", b"\x00")
    assert run("get", "q", "--raw", "--count", "2").stdout == b"\xff\n\x00"


def test_control_characters_do_not_reach_the_output(channel: Channel, capsys: Capsys) -> None:
    name = "a\tb<b>\x1b[31m\\"
    fill(channel, name, b"tab\there\nline\x1b]0;title\x07\xff\\")
    fields = call(capsys, "get", name).out.rstrip("\n").split("\t")
    assert fields[2] == "a\\tb<b>\\x1b[31m\\\\"
    assert fields[4] == "tab\\there\\nline\\x1b]0;title\\x07\\xff\\\\"


# -- consume ---------------------------------------------------------------------------------------


def test_consume_prints_what_is_there_and_stops(
    channel: Channel, site: RunningBroker, capsys: Capsys
) -> None:
    fill(channel, "q", b"1", b"2")
    assert call(capsys, "consume", "q", "--lines", "--idle", "0.2") == (0, "1\n2\n", "")
    assert site.queue("q") == (0, 0, 0)


@pytest.mark.parametrize("prefetch", ["1", "7", "2000"])
@pytest.mark.parametrize("auto_ack", [[], ["--auto-ack"]], ids=["acks", "auto-ack"])
def test_no_more_than_asked_for_is_taken_or_marked_as_delivered(
    channel: Channel, site: RunningBroker, capsys: Capsys, prefetch: str, auto_ack: list[str]
) -> None:
    bodies = [b"%d" % number for number in range(50)]
    fill(channel, "q", *bodies)
    done = call(
        capsys, "consume", "q", "--count", "20", "--lines", "--prefetch", prefetch, *auto_ack
    )
    assert done.out.split() == [str(number) for number in range(20)]
    rest = []
    while (delivery := channel.basic_get("q", auto_ack=True)) is not None:
        rest.append((delivery.body, delivery.redelivered))
    assert rest == [(body, False) for body in bodies[20:]]


def test_many_messages_as_json_lines(channel: Channel, site: RunningBroker) -> None:
    channel.queue_declare("many")
    for _ in range(30):
        channel.publish_batch([("", "many", None, b"x")] * 1000)
    done = run("consume", "many", "--count", "30000", "--json")
    lines = done.stdout.splitlines()
    assert len(lines) == 30000
    assert len({json.loads(line)["message_id"] for line in lines}) == 30000
    assert site.queue("many") == (0, 0, 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_following_ends_cleanly_and_nothing_is_lost(
    channel: Channel, site: RunningBroker, number: signal.Signals
) -> None:
    fill(channel, "q", b"1", b"2")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started("consume", "q", "--follow", "--lines", **pipes) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == [b"1\n", b"2\n"]
        channel.basic_publish("", "q", None, b"3")
        assert process.stdout.readline() == b"3\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, b"", b"")
    assert site.queue("q") == (0, 0, 0)


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_ctrl_c_leaves_what_was_not_printed_in_the_queue(
    channel: Channel, site: RunningBroker, monkeypatch: pytest.MonkeyPatch, unbuffered: str
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    bodies = [b"%05d" % number + b"x" * 10_000 for number in range(3000)]
    for start in range(0, 3000, 1000):
        fill(channel, "q", *bodies[start : start + 1000])
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started("consume", "q", "--lines", "--prefetch", "100", **pipes) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()  # and then the pipe is full
        process.send_signal(signal.SIGINT)
        printed = [first, *process.stdout.readlines()]
        assert process.wait(20) == 1
        err = process.stderr.read().decode()
    assert printed == [body + b"\n" for body in bodies[: len(printed)]]
    assert 0 < len(printed) < 3000
    assert err == f"headrace: interrupted after {len(printed):,} messages\n"
    assert drain(channel, "q") == bodies[len(printed) :]


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_a_reader_that_leaves_is_no_drama(
    channel: Channel, site: RunningBroker, monkeypatch: pytest.MonkeyPatch, unbuffered: str
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    for _ in range(20):
        fill(channel, "q", *[b"x" * 500] * 1000)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started("consume", "q", "--json", **pipes) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(20) == 1
        assert process.stderr.read() == b""
    left = wait_for(lambda: site.queue("q").unacknowledged == 0 and site.queue("q").messages)
    assert left > 10_000


def test_following_survives_a_restart_of_the_broker(site: RunningBroker, channel: Channel) -> None:
    fill(channel, "q", b"1")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started("consume", "q", "--follow", "--lines", **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        site.restart()
        channel.basic_publish("", "q", {"delivery_mode": 2}, b"2")
        assert process.stdout.readline() == b"2\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_a_deleted_queue_cancels_its_consumer_with_a_reason(
    site: RunningBroker, channel: Channel
) -> None:
    fill(channel, "q", b"1")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started("consume", "q", "--follow", "--lines", **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        channel.queue_delete("q")
        _, err = process.communicate(timeout=20)
    assert process.returncode == 1
    assert err.startswith(b"headrace: ")
    assert len(err.splitlines()) == 1


# -- purge -----------------------------------------------------------------------------------------


def test_purging_is_asked_about(channel: Channel, site: RunningBroker, capsys: Capsys) -> None:
    fill(channel, "q", *[b"x"] * 1200)
    refused = call(capsys, "purge", "q")
    assert refused.code == 2
    assert "--yes" in refused.err

    no = on_terminal("purge", "q", typed=b"n\n")
    assert no.code == 1
    assert "Drop the 1,200 messages that wait in queue q?" in no.err
    assert site.queue("q").messages == 1200

    yes = on_terminal("purge", "q", typed=b"y\n")
    assert yes.code == 0
    assert "dropped 1,200 messages of queue q" in yes.out
    assert call(capsys, "purge", "q", "--yes", "--json").out == '{"queue": "q", "purged": 0}\n'


def test_purging_what_is_not_there(site: RunningBroker, capsys: Capsys) -> None:
    assert call(capsys, "purge", "none", "-y").err.startswith("headrace: no queue 'none'")
    asked = on_terminal("purge", "none")
    assert asked.code == 1
    assert asked.err.startswith("headrace: no queue 'none'")
