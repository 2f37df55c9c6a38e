"""`headrace topic` and `headrace group` on a broker."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from headrace.testing import RunningBroker
from support.shell import call, on_terminal


@pytest.fixture
def topic(site: RunningBroker, capsys: pytest.CaptureFixture[str]) -> str:
    name = f"t_{uuid4().hex[:12]}"
    assert call(capsys, "topic", "create", name, "--queues", "4").code == 0
    return name


def found(capsys: pytest.CaptureFixture[str], *args: str) -> object:
    told = call(capsys, *args, "--json")
    assert told.code == 0, told.err
    return json.loads(told.out)


def test_a_topic_with_several_queues_is_counted_and_shown_whole(
    capsys: pytest.CaptureFixture[str], topic: str
) -> None:
    call(capsys, "topic", "append", topic, "x", "--count", "10", "--priority", "high")
    rows = found(capsys, "topic", "list")
    assert isinstance(rows, list)
    [row] = [one for one in rows if one["name"] == topic]
    assert (row["engine"], row["high"], row["middle"], row["queues"]) == ("log", 10, 0, 4)
    assert "high        10 messages in 4 queues\nmiddle      empty" in (
        call(capsys, "topic", "describe", topic).out
    )
    told = call(capsys, "topic", "delete", topic)
    assert told.code == 2 and "with 10 messages?" in told.err and "pass --yes" in told.err
    assert call(capsys, "topic", "delete", topic, "--yes").code == 0
    assert f"no topic '{topic}'" in call(capsys, "topic", "describe", topic).err


@pytest.mark.parametrize(
    ("where", "left"),
    [
        (("--to", "latest"), 0),
        (("--to", "earliest"), 10),
        (("--time", "2001-01-01T00:00:00+00:00"), 10),
        (("--offset", "middle=0"), 10),
    ],
)
def test_a_group_is_moved_in_all_queues(
    capsys: pytest.CaptureFixture[str], topic: str, where: tuple[str, ...], left: int
) -> None:
    call(capsys, "topic", "append", topic, "x", "--count", "10")
    assert len(call(capsys, "topic", "read", topic, "--group", "g", "-n", "7").out.split("\n")) == 8
    [row] = found(capsys, "group", "list", topic)  # type: ignore[misc]
    assert (row["group"], row["messages"]) == ("g", 3)
    assert call(capsys, "group", "list", topic).out == "g\t\theadrace-cli\t3\t0\t0\t0\n"
    told = call(capsys, "group", "reset", topic, "g", *where)
    assert told.code == 2 and "pass --yes" in told.err
    assert (
        f"g has {left} messages" in call(capsys, "group", "reset", topic, "g", *where, "--yes").out
    )
    lags = found(capsys, "group", "lag", topic, "g")
    assert isinstance(lags, list) and sum(one["messages"] for one in lags) == left
    assert call(capsys, "group", "delete", topic, "g", "--yes").code == 0
    assert found(capsys, "group", "list", topic) == []


def test_refusals_are_reported_in_one_line(capsys: pytest.CaptureFixture[str], topic: str) -> None:
    for args, said in (
        (("topic", "create", "Orders"), "'Orders' is refused"),
        (("topic", "create", "x_low"), "ends like a priority"),
        (("topic", "create", "a" * 41), "1 to 40"),
        (("topic", "create", "o'x"), "is refused"),
        (("topic", "create", topic), "is there with 4 queues"),
        (("topic", "create", "x", "--engine", "nope"), "engine 'nope' is unknown"),
        (
            ("topic", "append", "nope", "x"),
            "no topic 'nope' in vhost '/'; `headrace topic list` lists",
        ),
        (("topic", "append", topic, "x", "--source-ip", "300.1.1.1"), "300.1.1.1"),
        (("topic", "adopt", topic, "--yes"), "does not work through a broker"),
        (("group", "lag", topic, "nobody"), "no group 'nobody'"),
    ):
        told = call(capsys, *args)
        assert told.code == 1 and said in told.err and told.err.count("\n") == 1, (args, told.err)
    assert call(capsys, "topic", "append", topic, "x", "--priority", "urgent").code == 2


def test_the_vhost_is_chosen_as_for_other_commands(
    capsys: pytest.CaptureFixture[str], site: RunningBroker
) -> None:
    http = ("--url", str(site.http_url))
    assert call(capsys, "vhost", "add", "mill", *http).code == 0
    assert call(capsys, "topic", "create", "grain", "-p", "mill").code == 0
    rows = found(capsys, "topic", "list", "--vhost", "mill")
    assert isinstance(rows, list) and [one["name"] for one in rows] == ["grain"]
    assert "no topic 'grain'" in call(capsys, "topic", "describe", "grain").err
    assert call(capsys, "topic", "delete", "grain", "-p", "mill", "-y").code == 0
    told = call(capsys, "topic", "list", "-p", "mill", "--store", "mysql://h/d")
    assert told.code == 2 and "choose one of --store and --url" in told.err


def test_answering_no_changes_nothing_and_is_reported(
    capsys: pytest.CaptureFixture[str], topic: str
) -> None:
    told = on_terminal("topic", "delete", topic, typed=b"n\n")
    assert told.code == 1
    assert told.err.endswith("headrace: nothing was done\n") and "with 0 messages?" in told.err
    assert call(capsys, "topic", "describe", topic).code == 0


def test_retention_is_shown_as_it_was_written(
    capsys: pytest.CaptureFixture[str], site: RunningBroker
) -> None:
    assert call(capsys, "topic", "create", "kept", "--retention", "7d,500MB").code == 0
    assert "retention   7d,500MB\n" in call(capsys, "topic", "describe", "kept").out


def test_a_report_names_those_who_read_alone(
    capsys: pytest.CaptureFixture[str], topic: str, site: RunningBroker
) -> None:
    groups = pytest.importorskip("headrace.spark.reports.report")
    call(capsys, "topic", "append", topic, "x", "--count", "3")
    call(capsys, "topic", "read", topic, "--token", "auditor", "-n", "1")
    call(capsys, "topic", "read", topic, "--group", "post", "-n", "3")
    found = groups.group_lag(f"headrace://guest:guest@127.0.0.1:{site.native_port}/")
    assert found is not None
    assert [row[:2] for row in found.rows] == [(topic, "auditor (alone)"), (topic, "post")]


def test_a_peek_leaves_no_reader_behind(capsys: pytest.CaptureFixture[str], topic: str) -> None:
    call(capsys, "topic", "append", topic, "x", "--count", "3")
    for reader in ((), ("--group", "new"), ("--token", "other")):
        told = call(capsys, "topic", "read", topic, "--peek", "--lines", *reader)
        assert (told.code, told.out) == (0, "x\nx\nx\n")
    assert found(capsys, "group", "list", topic) == []


def test_a_peek_shows_what_a_reader_gets_next(
    capsys: pytest.CaptureFixture[str], topic: str
) -> None:
    for body in "abc":
        call(capsys, "topic", "append", topic, body, "--key", "one")
    assert call(capsys, "topic", "read", topic, "-n", "1", "--lines").out == "a\n"
    for _ in range(2):
        assert call(capsys, "topic", "read", topic, "--peek", "--lines").out == "b\nc\n"
    [row] = found(capsys, "group", "list", topic)  # type: ignore[misc]
    assert row["messages"] == 2
