"""The native port over TLS: both clients, large messages, restarts, and who is refused."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
import trustme

from headrace.client import ConnectionClosed, ConnectionFactory
from headrace.client.aio import connect_url
from headrace.testing import RunningBroker, run_broker


class Authority:
    """Signs certificates and writes them to files."""

    def __init__(self, directory: Path) -> None:
        self._ca = trustme.CA()
        self.file, self.cert, self.key = (directory / f"{n}.pem" for n in ("ca", "cert", "key"))
        self._ca.cert_pem.write_to_path(self.file)
        server = self._ca.issue_cert("127.0.0.1", "localhost")
        server.private_key_pem.write_to_path(self.key)
        for part in server.cert_chain_pems:
            part.write_to_path(self.cert, append=True)

    def context(self, *, with_certificate: bool = False) -> ssl.SSLContext:
        """A client's, which trusts this authority."""
        context = ssl.create_default_context(cafile=str(self.file))
        if with_certificate:
            own = self._ca.issue_cert("client@example.org", common_name="guest")
            own.configure_cert(context)
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secure(authority: Authority) -> Iterator[RunningBroker]:
    with run_broker(
        native_tls_port=0, tls_cert=str(authority.cert), tls_key=str(authority.key)
    ) as broker:
        yield broker


def test_messages_of_every_size_go_both_ways(secure: RunningBroker, authority: Authority) -> None:
    bodies = [bytes([size % 251]) * size for size in (0, 1, 16_384, 16_385, 300_000, 9_000_000)]
    url = f"headraces://guest:guest@127.0.0.1:{secure.ports['native_tls']}/"
    with ConnectionFactory.from_url(url, tls=authority.context()).new_connection() as connection:
        channel = connection.create_channel()
        channel.queue_declare("sizes")
        assert channel.publish_batch([("", "sizes", None, body) for body in bodies]) == [1] * 6
        found = []
        for delivery in channel.deliveries("sizes"):
            found.append(delivery.body)
            delivery.ack()
            if len(found) == len(bodies):
                break
    assert found == bodies


def test_several_threads_share_a_connection(secure: RunningBroker, authority: Authority) -> None:
    """Reading and writing at once is what TLS sockets do not allow by themselves."""
    count, threads = 200, 4
    with ConnectionFactory(
        port=secure.ports["native_tls"], tls=authority.context()
    ).new_connection() as connection:
        channel = connection.create_channel()
        channel.queue_declare("threads")

        def publish() -> None:
            for _ in range(count):
                channel.basic_publish("", "threads", None, bytes(5000))

        workers = [Thread(target=publish) for _ in range(threads)]
        for one in workers:
            one.start()
        seen = 0
        for delivery in channel.deliveries("threads", idle_timeout=20):
            delivery.ack()
            seen += 1
            if seen == count * threads:
                break
        for one in workers:
            one.join(20)
    assert seen == count * threads


def test_asyncio_client(secure: RunningBroker, authority: Authority) -> None:
    async def talk() -> bytes:
        url = f"headraces://localhost:{secure.ports['native_tls']}"
        async with connect_url(url, tls=authority.context()) as connection:
            channel = await connection.create_channel()
            await channel.queue_declare("aio")
            await channel.basic_publish("", "aio", None, bytes(1_000_000))
            delivery = await channel.basic_get("aio", auto_ack=True)
            assert delivery is not None
            return delivery.body

    assert asyncio.run(talk()) == bytes(1_000_000)


def test_an_untrusted_certificate_is_refused_with_the_reason(secure: RunningBroker) -> None:
    with pytest.raises(ConnectionClosed, match="certificate verify failed"):
        ConnectionFactory(port=secure.ports["native_tls"], tls=True).new_connection()


def test_a_certificate_for_another_host_is_refused(
    secure: RunningBroker, authority: Authority
) -> None:
    with pytest.raises(ConnectionClosed, match=r"127\.0\.0\.2"):
        ConnectionFactory(
            "127.0.0.2", secure.ports["native_tls"], tls=authority.context()
        ).new_connection()


def test_a_plain_client_on_the_tls_port_and_the_reverse_fail_soon(
    secure: RunningBroker, authority: Authority
) -> None:
    with pytest.raises(ConnectionClosed):
        ConnectionFactory(port=secure.ports["native_tls"]).new_connection()
    with pytest.raises(ConnectionClosed):
        ConnectionFactory(
            port=secure.ports["native"], tls=authority.context(), connect_timeout=5
        ).new_connection()


def test_garbage_on_the_tls_port_disturbs_no_connection(
    secure: RunningBroker, authority: Authority
) -> None:
    for garbage in (b"\x16\x03\x01\xff\xff" + b"x" * 100, b"GET / HTTP/1.1\r\n\r\n", bytes(4096)):
        with socket.create_connection(("127.0.0.1", secure.ports["native_tls"]), 10) as peer:
            peer.sendall(garbage)
            peer.settimeout(10)
            try:
                while peer.recv(4096):
                    pass
            except OSError:
                pass
    with ConnectionFactory(
        port=secure.ports["native_tls"], tls=authority.context()
    ).new_connection() as connection:
        assert connection.is_connected


def test_clients_must_show_a_certificate_when_the_broker_has_authorities(
    authority: Authority,
) -> None:
    with run_broker(
        native_tls_port=0,
        tls_cert=str(authority.cert),
        tls_key=str(authority.key),
        tls_ca=str(authority.file),
    ) as broker:
        port = broker.ports["native_tls"]
        with pytest.raises(ConnectionClosed):
            ConnectionFactory(port=port, tls=authority.context()).new_connection()
        context = authority.context(with_certificate=True)
        with ConnectionFactory(port=port, tls=context).new_connection() as connection:
            assert connection.create_channel().queue_declare("known").messages == 0
        by_certificate = ConnectionFactory(port=port, user=None, tls=context)
        with by_certificate.new_connection() as connection:
            assert connection.create_channel().queue_declare("known").messages == 0


def test_a_connection_over_tls_comes_back_after_a_restart(authority: Authority) -> None:
    with (
        run_broker(
            native_tls_port=0, tls_cert=str(authority.cert), tls_key=str(authority.key)
        ) as broker,
        ConnectionFactory(
            port=broker.ports["native_tls"], tls=authority.context()
        ).new_connection() as connection,
    ):
        channel = connection.create_channel()
        channel.queue_declare("kept", durable=True)
        broker.crash()
        broker.start()
        assert channel.basic_publish("", "kept", None, b"again", retry=True) == 1
