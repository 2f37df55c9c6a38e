"""What commands say when they cannot: one line, what to do, the right exit code, no password."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from headrace.testing import RunningBroker, run_broker
from support.ports import free_port
from support.shell import call, run, started

Capsys = pytest.CaptureFixture[str]

TALKING = [
    ["publish", "-q", "q", "x"],
    ["get", "q"],
    ["consume", "q"],
    ["purge", "q", "-y"],
    ["queue", "list"],
    ["exchange", "list"],
    ["binding", "list"],
]


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> int:
    """A port at which nobody listens."""
    port = free_port()
    monkeypatch.setenv("HEADRACE_URL", f"headrace://me:secret@127.0.0.1:{port}")
    return port


@pytest.mark.parametrize("arguments", TALKING, ids=lambda arguments: arguments[0])
def test_without_a_broker(nobody: int, capsys: Capsys, arguments: list[str]) -> None:
    done = call(capsys, *arguments)
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        f"headrace: no broker at 127.0.0.1:{nobody} (Connection refused): start one with "
        "`headrace serve`, or choose another with --url or HEADRACE_URL\n"
    )


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("amqp://guest:secret@127.0.0.1:5672/", "amqp:// is another protocol"),
        ("127.0.0.1:9090", "must begin with headrace://"),
        ("headrace://me:secret@127.0.0.1:99999", "invalid host or port"),
        ("headrace://me:secret@127.0.0.1:port", "invalid host or port"),
        ("headrace://me:secret@[::1", "invalid host or port"),
        ("headrace://me:secret@h/a/b", "write / in the name"),
        ("headrace://me:secret@h/?x=1", "unexpected text after the vhost"),
    ],
)
def test_a_url_that_is_none(capsys: Capsys, url: str, told: str) -> None:
    done = call(capsys, "queue", "list", "--url", url)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("headrace: --url: ")
    assert told in done.err
    assert len(done.err.splitlines()) == 1
    assert "secret" not in done.err


def test_a_bad_url_in_the_environment_is_named(
    capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_URL", "http://x")
    assert call(capsys, "queue", "list").err.startswith("headrace: HEADRACE_URL: ")


def test_a_refused_password(site: RunningBroker, capsys: Capsys) -> None:
    url = f"headrace://guest:wrong-one@127.0.0.1:{site.native_port}"
    done = call(capsys, "queue", "list", "--url", url)
    assert done.code == 1
    assert done.err.startswith(
        f"headrace: the broker at 127.0.0.1:{site.native_port} refused user 'guest': check"
    )
    assert "wrong-one" not in done.err
    assert "guest may log in from the broker's own machine only, and a user is locked" in done.err


def test_who_is_locked_out_can_read_that_it_may_be_so(site: RunningBroker, capsys: Capsys) -> None:
    done = call(capsys, "queue", "list", "--url", f"headrace://ann:x@127.0.0.1:{site.native_port}")
    assert done.err.endswith("; a user is locked out for a while after several wrong passwords\n")
    assert "guest" not in done.err


def test_passwords_need_not_be_on_the_command_line(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADRACE_URL", raising=False)
    with run_broker(sync=False, default_user="ann", default_password="p@/ss") as broker:
        url = f"headrace://ann@127.0.0.1:{broker.native_port}"
        file = tmp_path / "password"
        file.write_text("p@/ss\n")
        assert call(capsys, "queue", "list", "--url", url).code == 1
        assert call(capsys, "queue", "list", "--url", url, "--password-file", str(file)).code == 0
        monkeypatch.setenv("HEADRACE_PASSWORD", "p@/ss")
        assert call(capsys, "queue", "list", "--url", url).code == 0
        quoted = url.replace("ann@", "ann:p%40%2Fss@") + "/%2F"
        monkeypatch.setenv("HEADRACE_PASSWORD", "other")
        assert call(capsys, "queue", "list", "--url", quoted).code == 0
        missing = call(capsys, "queue", "list", "--password-file", str(tmp_path / "none"))
        assert missing.code == 2
        assert "No such file" in missing.err


@pytest.mark.parametrize(
    "arguments", [["get"], ["consume"], ["purge", "-y"], ["queue", "delete"]], ids=" ".join
)
def test_a_queue_that_is_not_there(
    site: RunningBroker, capsys: Capsys, arguments: list[str]
) -> None:
    done = call(capsys, *arguments, "nosuch\x1b[31m")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "headrace: no queue 'nosuch\\x1b[31m' in vhost '/'; `headrace queue list` lists them\n"
    )


def test_a_vhost_that_is_not_there(site: RunningBroker, capsys: Capsys) -> None:
    url = f"headrace://127.0.0.1:{site.native_port}/none"
    done = call(capsys, "queue", "list", "--url", url)
    assert done.code == 1
    assert "vhost none not found" in done.err
    assert "path of the URL" in done.err


def test_a_port_that_speaks_something_else(site: RunningBroker, capsys: Capsys) -> None:
    done = call(capsys, "queue", "list", "--url", f"headrace://127.0.0.1:{site.amqp_port}")
    assert done.code == 1
    assert "may not be a native port" in done.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--header", "a:={"], "--header a: '{' is not valid JSON"),
        (["--header", "a:=NaN"], "is not valid JSON"),
        (["--header", "a:=" + "[" * 100_000], "is not valid JSON"),
        (["--header", "a:=[99999999999999999999]"], "must fit into 64 bits"),
        (["--header", "novalue"], "is not name=text or name:=JSON"),
        (["--header", "=x"], "is not name=text or name:=JSON"),
        (["--property", "colour=red"], "no such property: colour"),
        (["--property", "timestamp=noon"], "'noon' is not a number"),
        (["--property", "headers=x"], "give each with --header"),
        (["--file", "/no/such/file"], "cannot read /no/such/file: No such file"),
    ],
)
def test_bad_values_are_reported_in_one_line(
    site: RunningBroker, capsys: Capsys, arguments: list[str], told: str
) -> None:
    body = [] if "--file" in arguments else ["x"]
    done = call(capsys, "publish", "-q", "q", *arguments, *body)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert done.err.startswith("headrace: ")
    assert len(done.err.splitlines()) == 1
    assert site.queues() == {}


@pytest.mark.parametrize(
    "arguments",
    [
        ["publish", "x"],
        ["publish", "-q", "", "x"],
        ["publish", "-q", "q", "-k", "k", "x"],
        ["publish", "-q", "q", "-f", "file", "x"],
        ["publish", "-q", "q", "--lines", "x"],
        ["get", "q", "--json", "--raw"],
        ["consume", "q", "--count", "0"],
        ["queue", "declare", ""],
    ],
    ids=" ".join,
)
def test_wrong_usage_has_exit_code_2(capsys: Capsys, arguments: list[str]) -> None:
    done = call(capsys, *arguments)
    assert (done.code, done.out) == (2, "")
    assert "Error: " in done.err


def test_a_name_that_is_not_utf_8(site: RunningBroker) -> None:
    done = run("get", b"\xff\xfe".decode("utf-8", "surrogateescape"))
    assert done.returncode == 2
    assert done.stderr == b"headrace: a name, key or property is not valid UTF-8\n"


def test_a_message_above_the_limit(capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_broker(sync=False, max_message_size=100) as broker:
        monkeypatch.setenv("HEADRACE_URL", f"headrace://127.0.0.1:{broker.native_port}")
        done = call(capsys, "publish", "-q", "q", "x" * 101)
    assert done.code == 1
    assert "message size 101 is larger than configured max size 100" in done.err


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_a_list_into_a_pipe_that_is_closed_is_quiet(
    site: RunningBroker, monkeypatch: pytest.MonkeyPatch, unbuffered: str
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with started("exchange", "list", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(20) == 1
        assert process.stderr.read() == b""


def test_an_exchange_type_that_is_none_lists_those_there_are(
    site: RunningBroker, capsys: Capsys
) -> None:
    done = call(capsys, "exchange", "declare", "e", "tpic")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "headrace: invalid exchange type 'tpic'; allowed: direct, fanout, topic, headers, "
        "x-delayed-message\n"
    )
