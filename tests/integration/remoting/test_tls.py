"""RocketMQ clients over TLS: on the ports where others speak plain text."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from headrace.testing import RunningBroker, run_broker
from headrace.wire.remoting.headers.offsets import GetMaxOffset
from headrace.wire.remoting.headers.route import GetRouteInfo
from support.raw_remoting import Link
from support.remoting_broker import Ours
from support.rocketmq.protocol_checks import accepted, new_topic, send

pytestmark = pytest.mark.timeout(60)


@dataclass(frozen=True)
class Keys:
    authority: trustme.CA
    cert: Path
    key: Path

    @property
    def client(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return context


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    directory = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    server = authority.issue_cert("127.0.0.1", "localhost")
    cert, key = directory / "cert.pem", directory / "key.pem"
    for number, blob in enumerate(server.cert_chain_pems):
        blob.write_to_path(cert, append=number > 0)
    server.private_key_pem.write_to_path(key)
    return Keys(authority, cert, key)


@pytest.fixture
def broker(keys: Keys) -> Iterator[RunningBroker]:
    with run_broker(sync=False, tls_cert=keys.cert, tls_key=keys.key) as broker:
        yield broker


def heard(connection: socket.socket) -> bytes:
    """What comes; a reset is an end, too."""
    try:
        return connection.recv(10)
    except ConnectionResetError:
        return b""


def test_one_port_takes_plain_text_and_tls(broker: RunningBroker, keys: Keys) -> None:
    server = Ours(broker)
    topic = new_topic(server)
    with Link(server.broker_address) as plain:
        send(plain, topic, b"x")
    for address in (server.name_address, server.broker_address):
        with Link(address, tls=keys.client) as link:
            accepted(link.ask(GetRouteInfo(topic)))
            assert accepted(link.ask(GetMaxOffset(topic, 0))).ext["offset"] == "1"


def test_plain_text_can_be_forbidden(keys: Keys) -> None:
    with run_broker(
        sync=False, tls_cert=keys.cert, tls_key=keys.key, remoting_tls="required"
    ) as broker:
        server = Ours(broker)
        with socket.create_connection(("127.0.0.1", broker.ports["remoting"]), 10) as bare:
            bare.sendall(b"\0\0\0\x20")
            assert heard(bare) == b""
        with Link(server.broker_address, tls=keys.client) as link:
            assert link.ask(GetRouteInfo("T")).code != 0


def test_a_silent_connection_is_closed_at_the_handshake_timeout(keys: Keys) -> None:
    with run_broker(
        sync=False, tls_cert=keys.cert, tls_key=keys.key, handshake_timeout=0.2
    ) as broker:
        with socket.create_connection(("127.0.0.1", broker.ports["remoting"]), 10) as silent:
            assert heard(silent) == b""
        with socket.create_connection(("127.0.0.1", broker.ports["remoting"]), 10) as half:
            half.sendall(b"\x16\x03")
            assert heard(half) == b""


def test_silent_connections_count_towards_the_limit_per_address(keys: Keys) -> None:
    with run_broker(
        sync=False, tls_cert=keys.cert, tls_key=keys.key, max_unauthenticated_per_address=2
    ) as broker:
        server = Ours(broker)
        where = "127.0.0.1", broker.ports["remoting"]
        silent = [socket.create_connection(where, 10) for _ in range(3)]
        assert heard(silent[0]) == b"", "the oldest makes room"
        with Link(server.broker_address) as link:
            assert link.ask(GetRouteInfo("T")).code != 0
        assert heard(silent[1]) == b""
        for one in silent:
            one.close()
