"""Clients of others against our broker, and the same programs against Apache's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from uuid import uuid4

import pytest
import trustme

from headrace.testing import run_broker
from headrace.wire.remoting.codes import RequestCode
from headrace.wire.remoting.headers.admin import GroupConfig
from headrace.wire.remoting.json_values import json_bytes
from support.raw_remoting import Link, Site
from support.remoting_broker import Ours
from support.rocketmq.apache import OLD_VERSION, VERSION
from support.rocketmq.programs import cpp, go, java, node
from support.rocketmq.protocol_checks import accepted, new_topic

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

RUN_LIMIT = 120

JAVA_SAYS = {
    "everyday": [
        "true",
        "SEND_OK",
        "batch-0",
        "batch-1",
        "batch-2",
        "first",
        "oneway",
        "10000",
        "a",
    ],
    "selectors": ["tag-a tag-c", "tag-b"],
    "orderly": [" ".join(f"o{number}" for number in range(20))],
    "delay": ["early", "late"],
    "retry": ["bad 0 true", "bad 1 true", "bad 2 true", "bad"],
    "transaction": ["asked for open", "kept", "open"],
}
OTHERS_SAY = {
    "everyday": ["SEND_OK", "first m0 m1 m2 m3 m4"],
    "selectors": ["tag-a tag-c"],
    "orderly": ["o0 o1 o2 o3 o4 o5 o6 o7 o8 o9"],
    "retry": ["0 1", "bad"],
}
GO_SAYS = {**OTHERS_SAY, "everyday": ["SEND_OK", "batch0 batch1 batch2 first oneway"]}


@pytest.fixture(params=["ours", "apache"])
def server(request: pytest.FixtureRequest) -> Site:
    found: Site = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("scenario", JAVA_SAYS)
@pytest.mark.parametrize("version", [VERSION, OLD_VERSION])
def test_the_java_client(server: Site, version: str, scenario: str) -> None:
    said = run([*java(version), scenario, server.name_address, f"J{uuid4().hex}"])
    if scenario in ("delay", "transaction"):
        said.sort()  # queues have no order among each other

    assert said == JAVA_SAYS[scenario]


@pytest.mark.parametrize("scenario", OTHERS_SAY)
def test_the_cpp_client(server: Site, scenario: str, tmp_path: Path) -> None:
    topic = new_topic(server)
    if scenario == "retry":
        if not isinstance(server, Ours):
            pytest.skip("Apache's broker did not bury its message in two minutes; why is not known")
        limit_retries(server, f"C{topic}")
    said = run([*cpp(), scenario, server.name_address, topic], HOME=str(tmp_path))

    assert said == OTHERS_SAY[scenario]


@pytest.mark.parametrize("scenario", OTHERS_SAY)
def test_the_node_client(server: Site, scenario: str, tmp_path: Path) -> None:
    said = run([*node(), scenario, server.name_address, new_topic(server)], HOME=str(tmp_path))

    assert said == OTHERS_SAY[scenario]


def test_the_java_client_gets_a_reply(server: Site) -> None:
    """That of 5.3.1 and later forgets whom it has asked, with Apache's broker as well (issue 9319
    there); so it is the old one."""
    said = run([*java(OLD_VERSION), "request", server.name_address, f"J{uuid4().hex}"])

    assert said == ["answer to why"]


@pytest.mark.parametrize("scenario", GO_SAYS)
def test_the_go_client(server: Site, scenario: str, tmp_path: Path) -> None:
    said = run([*go(), scenario, server.name_address, new_topic(server)], HOME=str(tmp_path))

    assert said == GO_SAYS[scenario]


@pytest.mark.parametrize("version", [VERSION, OLD_VERSION])
def test_the_java_client_signs_and_uses_tls(version: str, tmp_path: Path) -> None:
    server = trustme.CA().issue_cert("127.0.0.1", "localhost")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    server.private_key_pem.write_to_path(key)
    cert.write_bytes(b"".join(one.bytes() for one in server.cert_chain_pems))
    with run_broker(sync=False, tls_cert=cert, tls_key=key, remoting_tls="required") as broker:
        site = Ours(broker)
        name, secret = site.secret()
        settings = ["-Dtls.enable=true", f"-Daccess.key={name}", f"-Dsecret.key={secret}"]
        program = java(version)
        command = [program[0], *settings, *program[1:]]
        said = run([*command, "everyday", site.name_address, f"J{uuid4().hex}"])

    assert said == JAVA_SAYS["everyday"]


def limit_retries(server: Ours, group: str) -> None:
    """One retry: the C++ client leaves the number to the settings of the group."""
    body = json_bytes(GroupConfig(group, retry_max_times=1).as_map())
    with Link(server.broker_address, credentials=server.secret()) as link:
        accepted(link.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body))


def run(command: list[str], **environment: str) -> list[str]:
    """What the program said; its own words begin with `> `."""
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_LIMIT,
        env={**os.environ, "PYTHONPATH": "", **environment},
    )
    said = [line[2:] for line in done.stdout.splitlines() if line.startswith("> ")]
    assert done.returncode == 0, f"said {said}, then: {done.stdout[-2000:]}"
    return said
