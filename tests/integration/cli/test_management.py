"""Commands over the HTTP API."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from headrace.client import Channel
from headrace.testing import RunningBroker
from support.shell import call

Told = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _address(site: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_HTTP_URL", str(site.http_url))


def test_a_user_from_birth_to_end(
    capsys: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: RunningBroker
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("first\n")
    assert call(capsys, "vhost", "add", "v", "--description", "words").code == 0
    made = call(capsys, "user", "add", "u", "--tags", "administrator", "--new-password-file",
                str(secret))  # fmt: skip
    assert (made.code, made.out) == (0, "added user u\n")
    assert call(capsys, "permission", "set", "u", "--vhost", "v", "--write", "").code == 0
    listed = call(capsys, "permission", "list", "--json")
    assert {"user": "u", "vhost": "v", "configure": ".*", "write": "", "read": ".*"} in json.loads(
        listed.out
    )

    url = f"http://u@127.0.0.1:{site.http_port}"
    as_user = call(capsys, "user", "list", "--url", url, "--password-file", str(secret))
    assert as_user.out == "guest\tadministrator\t\nu\tadministrator\t\n"

    monkeypatch.setenv("HEADRACE_NEW_PASSWORD", "second")
    assert call(capsys, "user", "set-password", "u").code == 0
    refused = call(capsys, "user", "list", "--url", url, "--password-file", str(secret))
    assert refused.code == 1
    assert "refused user 'u'" in refused.err and "first" not in refused.err
    told = call(capsys, "user", "set-secret", "u").out.splitlines()
    assert told[0] == "access key u"
    assert len(told[1].removeprefix("secret     ")) >= 32
    (tmp_path / "secret").write_text("of my own choice\n")
    chosen = call(capsys, "user", "set-secret", "u", "--secret-file", str(tmp_path / "secret"))
    assert chosen.out == "access key u\n"
    assert call(capsys, "user", "set-secret", "u", "--clear").out == "user u has no secret\n"
    assert call(capsys, "user", "set-secret", "nobody").code == 1
    assert call(capsys, "user", "set-tags", "u").out == "user u: no tags\n"
    assert call(capsys, "permission", "clear", "u", "--vhost", "v").code == 0
    assert call(capsys, "user", "delete", "u").code == 0
    assert call(capsys, "vhost", "delete", "v", "--yes").code == 0


def test_policies_and_definitions(capsys: Told, tmp_path: Path) -> None:
    definition = '{"max-length": 9}'
    assert call(capsys, "policy", "set", "p", "^q", definition, "--priority", "3").code == 0
    assert call(capsys, "policy", "list").out == "/\tp\t^q\tall\t3\tmax-length=9\n"
    file = tmp_path / "definitions.json"
    assert call(capsys, "definitions", "export", str(file)).code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    capped = '{"max-length": 3}'
    assert call(capsys, "policy", "set", "--operator", "o", "^q", capped).code == 0
    assert call(capsys, "policy", "list", "--operator").out == "/\to\t^q\tall\t0\tmax-length=3\n"
    assert call(capsys, "policy", "clear", "--operator", "o").code == 0
    assert call(capsys, "policy", "clear", "p").code == 0
    told = call(capsys, "definitions", "import", str(file))
    assert (told.code, "1 policy" in told.out) == (0, True)
    shown = call(capsys, "definitions", "export", "--vhost", "/")
    assert json.loads(shown.out)["policies"][0]["name"] == "p"


def test_connections_are_listed_and_closed(capsys: Told, channel: object) -> None:
    told = call(capsys, "connection", "list", "--json")
    [row] = json.loads(told.out)
    assert row["protocol"] == "Headrace native"
    assert call(capsys, "connection", "close", row["name"], "--reason", "bye").code == 0


def test_every_change_can_be_told_as_json(
    capsys: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_NEW_PASSWORD", "s3cret")

    def told(*args: str) -> object:
        answer = call(capsys, *args, "--json")
        assert answer.code == 0, answer.err
        return json.loads(answer.out)

    made = {"name": "ju", "tags": ["monitoring"], "limits": {}}
    assert told("user", "add", "ju", "--tags", "monitoring") == made
    assert told("user", "set-password", "ju") == made
    assert told("user", "set", "ju", "management") == made | {"tags": ["management"]}
    limited = {"name": "ju", "limits": {"max-connections": 3, "max-channels": 5}}
    assert told("user", "set-limits", "ju", "--max-connections", "3", "--max-channels",
                "5") == limited  # fmt: skip
    assert told("user", "set-limits", "ju", "--max-connections", "-1", "--max-channels",
                "-1") == {"name": "ju", "limits": {}}  # fmt: skip
    assert told("user", "set-secret", "ju", "--clear") == {"access_key": "ju"}
    assert told("vhost", "set", "jv", "--description", "d") == {"name": "jv", "description": "d"}
    assert told("vhost", "set-limits", "jv", "--max-queues", "7") == {
        "name": "jv", "limits": {"max-queues": 7},
    }  # fmt: skip
    where = {"user": "ju", "vhost": "jv"}
    patterns = {"configure": "", "write": ".*", "read": ".*"}
    assert told("permission", "add", "ju", "-p", "jv", "--configure", "") == where | patterns
    assert told("permission", "delete", "ju", "--vhost", "jv") == where
    policy = {"vhost": "jv", "name": "jp", "pattern": "^q", "definition": {"max-length": 9},
              "priority": 0, "apply-to": "all"}  # fmt: skip
    assert told("policy", "add", "jp", "^q", '{"max-length": 9}', "-p", "jv") == policy
    file = tmp_path / "jv.json"
    assert told("definitions", "export", str(file), "--vhost", "jv") == {"file": str(file)}
    assert told("definitions", "import", str(file), "--vhost", "jv") == {
        "policies": 1,
    }  # fmt: skip
    assert told("policy", "delete", "jp", "-p", "jv") == {"vhost": "jv", "name": "jp"}
    assert told("vhost", "delete", "jv", "--yes") == {"name": "jv"}
    assert told("user", "delete", "ju") == {"name": "ju"}


def test_rabbitmqctls_verbs_are_understood(
    capsys: Told, monkeypatch: pytest.MonkeyPatch, channel: Channel
) -> None:
    monkeypatch.setenv("HEADRACE_NEW_PASSWORD", "s3cret")

    def ctl(*args: str) -> str:
        answer = call(capsys, *args)
        assert answer.code == 0, answer.err
        return answer.out

    ctl("add_vhost", "cv")
    ctl("add_user", "cu")
    ctl("change_password", "cu")
    ctl("set_user_tags", "cu", "monitoring", "policymaker")
    ctl("set_permissions", "-p", "cv", "cu", "^c", "^w", "^r")
    assert "cu\tcv\t^c\t^w\t^r\n" in ctl("list_permissions")
    assert "cu\tmonitoring policymaker\t\n" in ctl("list_users")
    ctl("set_policy", "-p", "cv", "cp", "^q", '{"max-length": 9}')
    assert "cv\tcp\t^q" in ctl("list_policies")
    ctl("clear_policy", "-p", "cv", "cp")
    ctl("queue", "add", "cq", "-p", "cv")
    assert ctl("list_queues", "-p", "cv").startswith("cq\t0\t0")
    assert "cq" not in ctl("list_queues")
    ctl("binding", "add", "amq.topic", "cq", "a.#", "-p", "cv")
    assert "a.#" in ctl("list_bindings", "-p", "cv")
    assert "amq.topic" in ctl("list_exchanges", "-p", "cv")
    ctl("purge_queue", "cq", "-p", "cv", "--yes")
    ctl("delete_queue", "cq", "-p", "cv")
    assert "cv" in ctl("list_vhosts")
    assert json.loads(ctl("export_definitions", "-"))["rabbit_version"]
    name = ctl("list_connections").split("\t")[0]
    ctl("close_connection", name, "enough")
    ctl("clear_permissions", "-p", "cv", "cu")
    ctl("delete_user", "cu")
    ctl("delete_vhost", "cv", "--yes")


def test_a_verb_that_is_unknown_is_no_command(capsys: Told) -> None:
    assert call(capsys, "list_everything").code == 2


def test_a_new_password_may_come_from_standard_input(
    capsys: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("typed\n"))
    assert call(capsys, "user", "add", "typist", "--new-password-file", "-").code == 0


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (
            ("vhost", "delete", "nope", "--yes"),
            1,
            "no vhost 'nope'; `headrace vhost list`",
        ),
        (("vhost", "set-limits", "nope", "--max-queues", "1"), 1, "no vhost 'nope'"),
        (("user", "delete", "nope"), 1, "no user 'nope'; `headrace user list` lists"),
        (("user", "set-tags", "nope", "management"), 1, "no user 'nope'"),
        (("user", "set-secret", "nope"), 1, "no user 'nope'"),
        (("permission", "set", "nope"), 1, "no user 'nope' or no vhost '/'"),
        (("permission", "clear", "nope"), 1, "user 'nope' has no permissions in vhost '/'"),
        (("policy", "clear", "nope"), 1, "no policy 'nope' in vhost '/'"),
        (("policy", "set", "p", "x", '{"max-length": 1}', "-p", "v"), 1, "no vhost 'v'"),
        (("connection", "close", "nope"), 1, "no connection 'nope'"),
        (("vhost", "delete", "nope"), 2, "not a terminal: pass --yes"),
        (("user", "add", "nope"), 2, "not a terminal: pass the new password"),
        (("policy", "set", "p", "x", "{"), 2, "the definition is not JSON"),
        (("policy", "set", "p", "x", '{"nope": 1}'), 1, "not a recognised policy setting"),
        (("user", "list", "--url", "ftp://x"), 2, "must begin with http://"),
        (("user", "list", "--url", "http://127.0.0.1:1"), 1, "no broker at"),
        (("user", "list", "--url", "http://x:y@[::1"), 2, "invalid host or port"),
        (("user", "list", "--password-file", "/no/such"), 2, "cannot read"),
        (("definitions", "import", "/no/such"), 2, "No such file"),
    ],
)
def test_mistakes_get_one_line(capsys: Told, args: tuple[str, ...], code: int, said: str) -> None:
    told = call(capsys, *args)
    assert told.code == code
    assert said in told.err


def test_a_port_of_another_protocol_is_reported_without_its_bytes(
    capsys: Told, site: RunningBroker
) -> None:
    for port in (site.amqp_port, site.native_port):
        told = call(capsys, "user", "list", "--url", f"http://127.0.0.1:{port}")
        assert told.code == 1
        assert told.err.startswith(
            f"headrace: 127.0.0.1:{port} does not speak HTTP: it may be another port of the broker "
        )
        assert told.err.isascii() and told.err.count("\n") == 1


def test_a_tag_that_gives_no_rights_gets_a_remark(
    capsys: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_NEW_PASSWORD", "s3cret")
    told = call(capsys, "user", "add", "tagged", "--tags", "admin,monitoring")
    assert (told.code, told.out) == (0, "added user tagged\n")
    assert told.err.startswith("the tag admin has no effect; tags with an effect: adm")
    assert "admin" in call(capsys, "user", "set-tags", "tagged", "admin").err
    assert call(capsys, "user", "set-tags", "tagged", "administrator").err == ""
    assert call(capsys, "user", "delete", "tagged").code == 0
