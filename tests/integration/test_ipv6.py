"""Listeners on IPv6 addresses: every protocol, the printed URLs, and who counts as local."""

from __future__ import annotations

import json
import socket
import urllib.request
from pathlib import Path

import pika
import pytest

from headrace.client import ConnectionFactory
from headrace.errors import ConfigError
from headrace.testing import run_broker, wait_for
from headrace.testing.broker_process import BrokerProcess


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


pytestmark = pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")


def test_every_protocol_is_served_on_the_ipv6_loopback_address() -> None:
    with run_broker(host="::1") as broker:
        assert broker.amqp_url.startswith("amqp://guest:guest@[::1]:")
        connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
        connection.channel().queue_declare("q", durable=True)
        with ConnectionFactory.from_url(broker.native_url).new_connection() as native:
            native.create_channel().basic_publish("", "q", None, b"x")
        [row] = connections(f"{broker.http_url}")
        connection.close()
        assert row["name"].startswith("[::1]:")
        assert row["name"].endswith(f" -> [::1]:{broker.amqp_port}")
        assert broker.namesrv_addr is not None
        assert broker.namesrv_addr.startswith("[::1]:")


@pytest.mark.parametrize("address", ["::1", "127.0.0.1"])
def test_all_addresses_are_those_of_both_families(address: str) -> None:
    """guest is local to ::1 and to an IPv4 address that the socket shows as ::ffff:127.0.0.1."""
    with run_broker(host="::") as broker:
        assert broker.host == "::1"
        for name, port in broker.ports.items():
            socket.create_connection((address, port), timeout=5).close()
            assert port, name
        pika.BlockingConnection(pika.ConnectionParameters(address, broker.amqp_port)).close()
        settings = ConnectionFactory(host=address, port=broker.native_port or 0)
        settings.new_connection().close()
        host = f"[{address}]" if ":" in address else address
        assert connections(f"http://{host}:{broker.http_port}") == []


def test_printed_urls_have_brackets(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--host", "::1").start() as node:
        url = f"amqp://[::1]:{node.port}/"
        wait_for(lambda: url in node.log())


def test_an_address_in_use_is_reported_with_brackets() -> None:
    with (
        run_broker(host="::1") as broker,
        pytest.raises(ConfigError, match=r"on \[::1\]:\d+ for amqp: address already in use"),
        run_broker(host="::1", amqp_port=broker.amqp_port),
    ):
        pass


def connections(url: str) -> list[dict[str, str]]:
    manager = urllib.request.HTTPPasswordMgrWithDefaultRealm()
    manager.add_password(None, url, "guest", "guest")
    opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(manager))
    with opener.open(f"{url}/api/connections", timeout=10) as answer:
        found: list[dict[str, str]] = json.load(answer)
    return found
