"""`headrace queue`, `exchange` and `binding`: lists in three forms, declarations, deletions."""

from __future__ import annotations

import json

import pytest

from headrace.client import Channel
from headrace.testing import RunningBroker
from support.shell import call, on_terminal

Capsys = pytest.CaptureFixture[str]
ODD = "a\tb<b>[red]\x1b[31m"


def test_queues_are_declared_listed_and_deleted(site: RunningBroker, capsys: Capsys) -> None:
    assert call(capsys, "queue", "list") == (0, "", "")
    arguments = ("--argument", "x-max-length=10", "--argument", "x-queue-type=quorum")
    done = call(capsys, "queue", "declare", "jobs", *arguments)
    assert done == (0, "declared queue jobs, with 0 messages\n", "")
    assert call(capsys, "queue", "add", "temp", "--transient", "--auto-delete").code == 0

    lines = call(capsys, "queue", "list").out.splitlines()
    assert lines == [
        "jobs\t0\t0\t0\tyes\tx-max-length=10 x-queue-type=quorum",
        "temp\t0\t0\t0\tno\t",
    ]
    rows = json.loads(call(capsys, "queue", "list", "--json").out)
    assert [row["name"] for row in rows] == ["jobs", "temp"]
    assert rows[0]["arguments"] == {"x-max-length": 10, "x-queue-type": "quorum"}

    call(capsys, "publish", "-q", "jobs", "x")
    kept = call(capsys, "queue", "delete", "jobs", "--if-empty")
    assert kept.code == 1
    assert "not empty" in kept.err
    gone = call(capsys, "queue", "delete", "jobs")
    assert gone.out == "deleted queue jobs and 1 message in it\n"
    assert set(site.queues()) == {"temp"}


def test_exchanges_and_bindings(site: RunningBroker, channel: Channel, capsys: Capsys) -> None:
    channel.queue_declare("eu")
    assert call(capsys, "exchange", "declare", "shop", "topic").code == 0
    assert call(capsys, "exchange", "declare", "all", "fanout", "--transient").code == 0
    assert call(capsys, "binding", "declare", "shop", "eu", "order.*").code == 0
    assert call(capsys, "binding", "declare", "shop", "eu", "refund.#").code == 0
    assert call(capsys, "binding", "declare", "all", "shop", "--to-exchange").code == 0
    assert "shop\ttopic\tyes\tno\tno\t" in call(capsys, "exchange", "list").out.splitlines()
    assert call(capsys, "binding", "list").out.splitlines() == [
        "all\t\texchange\tshop\t",
        "shop\torder.*\tqueue\teu\t",
        "shop\trefund.#\tqueue\teu\t",
    ]
    assert call(capsys, "publish", "-e", "all", "-k", "order.1", "x").code == 0

    assert call(capsys, "binding", "delete", "shop", "eu", "order.*").code == 0
    assert call(capsys, "binding", "delete", "all", "shop", "--to-exchange").code == 0
    assert call(capsys, "binding", "delete", "shop", "eu").code == 0
    again = call(capsys, "binding", "delete", "shop", "eu")
    assert again.code == 1
    assert "no such binding" in again.err
    assert call(capsys, "exchange", "delete", "shop").code == 0
    assert [row["name"] for row in channel.rows("exchanges")].count("shop") == 0


def test_a_headers_binding_is_made_and_removed_by_its_arguments(
    channel: Channel, capsys: Capsys
) -> None:
    channel.queue_declare("q")
    arguments = ("--argument", "x-match=any", "--argument", "colour=red", "--argument", "n:=1.5")
    assert call(capsys, "binding", "declare", "amq.headers", "q", "", *arguments).code == 0
    (row,) = channel.rows("bindings")
    assert row["arguments"] == {"x-match": "any", "colour": "red", "n": 1.5}
    assert call(capsys, "binding", "delete", "amq.headers", "q", *arguments).code == 2
    assert call(capsys, "binding", "delete", "amq.headers", "q", "", *arguments).code == 0
    assert list(channel.rows("bindings")) == []


def test_more_rows_than_a_page(channel: Channel, capsys: Capsys) -> None:
    for number in range(1005):
        channel.queue_declare(f"q{number:04}")
    assert len(call(capsys, "queue", "list").out.splitlines()) == 1005


def test_tables_on_a_terminal_fit_and_names_are_harmless(
    channel: Channel, site: RunningBroker
) -> None:
    channel.queue_declare(ODD)
    channel.queue_declare("long" * 50, arguments={"x-max-length": 5})
    channel.publish_batch([("", ODD, None, b"x")] * 1234)
    shown = on_terminal("queue", "list")
    assert shown.code == 0
    assert "a\\tb<b>[red]\\x1b[31m" in shown.out
    assert "\x1b[31m" not in shown.out
    assert "1,234" in shown.out
    plain = "".join(part.partition("m")[2] for part in ("m" + shown.out).split("\x1b["))
    lines = [line.rstrip("\r") for line in plain.split("\n")]
    assert max(map(len, lines)) <= 80
    assert "unacked" in lines[1]


def test_the_exchange_without_a_name_is_called_the_default_on_a_terminal(
    site: RunningBroker,
) -> None:
    assert "(default)" in on_terminal("exchange", "list").out


def test_an_empty_queue_list_prints_a_note_on_a_terminal(site: RunningBroker) -> None:
    assert on_terminal("queue", "list").out == "no queues\r\n"


def test_messages_on_a_terminal(channel: Channel, site: RunningBroker) -> None:
    channel.queue_declare("q")
    channel.basic_publish("", "q", None, b"\x1b[2Jhello")
    channel.basic_publish("", "q", None, b"y" * 100_000)
    looked = on_terminal("get", "q", "--requeue")
    assert "\\x1b[2Jhello" in looked.out
    assert "\x1b[2J" not in looked.out
    taken = on_terminal("consume", "q", "--count", "2")
    assert "(again)" in taken.out
    assert "... (100,000 bytes)" in taken.out
    assert len(taken.out) < 5000


def test_something_else_under_the_same_name(site: RunningBroker, capsys: Capsys) -> None:
    call(capsys, "queue", "declare", "q")
    other = call(capsys, "queue", "declare", "q", "--transient")
    assert other.code == 1
    assert "inequivalent arg 'durable'" in other.err
    assert "delete it first, or declare it with" in other.err
    assert len(other.err.splitlines()) == 1
