"""TLS: logins by certificate on both protocols, and certificates renewed while the broker runs."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import pytest
import trustme
from pika.credentials import ExternalCredentials
from pika.exceptions import AMQPConnectionError, ProbableAuthenticationError

from headrace.client import ConnectionFactory
from headrace.client.aio import connect
from headrace.errors import ConfigError
from headrace.server.tls import Certificates, TlsFiles, certificate_name
from headrace.testing import RunningBroker, run_broker, wait_for
from headrace.wire.native.payloads import Op
from support.access_matrix import Site
from support.brokers import Broker
from support.raw_native import Native, Refused


class Authority:
    """A certificate authority, and the files of a server that trusts it."""

    def __init__(self, directory: Path) -> None:
        self.ca = trustme.CA()
        self.files = {name: directory / f"{name}.pem" for name in ("cert", "key", "ca")}
        self.write()

    def write(self) -> None:
        server = self.ca.issue_cert("127.0.0.1", "localhost")
        server.private_key_pem.write_to_path(self.files["key"])
        self.files["cert"].write_bytes(b"".join(one.bytes() for one in server.cert_chain_pems))
        self.ca.cert_pem.write_to_path(self.files["ca"])

    def renew(self) -> None:
        """Another authority, another certificate, in the same files."""
        self.ca = trustme.CA()
        self.write()

    def client(self, *names: str, common_name: str | None = None) -> ssl.SSLContext:
        """What a client needs; with names, a certificate for them."""
        context = ssl.create_default_context()
        self.ca.configure_trust(context)
        if names or common_name:
            self.ca.issue_cert(*names, common_name=common_name).configure_cert(context)
        return context

    @property
    def settings(self) -> dict[str, object]:
        return {f"tls_{name}": path for name, path in self.files.items()} | {
            "amqps_port": 0,
            "native_tls_port": 0,
            "sync": False,
        }


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@contextmanager
def broker(authority: Authority, **settings: object) -> Iterator[Site]:
    with run_broker(**{**authority.settings, **settings}) as running:  # type: ignore[arg-type]
        site = Site(running)
        site.allow_everything()
        yield site


def amqps(
    running: RunningBroker | Broker, context: ssl.SSLContext, password: str | None = None
) -> pika.BlockingConnection:
    """Log in by certificate, or as tester with a password."""
    credentials: object = ExternalCredentials()
    if password is not None:
        credentials = pika.PlainCredentials("tester", password)
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            "127.0.0.1",
            running.ports["amqps"],
            credentials=credentials,
            ssl_options=pika.SSLOptions(context, "127.0.0.1"),
        )
    )


def native_over_tls(running: RunningBroker, context: ssl.SSLContext) -> Native:
    native = Native(("127.0.0.1", running.ports["native_tls"]))
    native.socket = context.wrap_socket(native.socket, server_hostname="127.0.0.1")
    return native


# -- logins by certificate ------------------------------------------------------------------------


def test_the_common_name_of_a_certificate_is_the_user(authority: Authority) -> None:
    context = authority.client("x.example", common_name="tester")
    with broker(authority) as site:
        connection = amqps(site.running, context)
        connection.channel().queue_declare("mine")
        assert site.do(lambda b: [one.user.name for one in b.connections]) == ["tester"]
        connection.close()


def test_a_certificate_of_an_unknown_user_is_refused(authority: Authority) -> None:
    with broker(authority) as site, pytest.raises(ProbableAuthenticationError, match="EXTERNAL"):
        amqps(site.running, authority.client("x.example", common_name="stranger"))


def test_permissions_hold_for_certificate_logins(authority: Authority) -> None:
    context = authority.client("x.example", common_name="tester")
    with broker(authority) as site:
        site.allow("", "", "")
        connection = amqps(site.running, context)
        with pytest.raises(Exception, match="ACCESS_REFUSED"):
            connection.channel().queue_declare("mine")
        connection.close()


@pytest.mark.parametrize(
    ("source", "identity"), [("dns", "tester.example"), ("email", "tester@example.org")]
)
def test_an_alternative_name_may_be_the_user(
    authority: Authority, source: str, identity: str
) -> None:
    context = authority.client(identity, common_name="somebody else")
    with broker(authority, tls_user_from=source) as site:
        site.do(lambda b: b.users.store_user(identity, None, ()))
        site.allow(".*", ".*", ".*", user=identity)
        connection = amqps(site.running, context)
        assert site.do(lambda b: [one.user.name for one in b.connections]) == [identity]
        connection.close()


def test_without_a_certificate_external_is_not_offered(authority: Authority) -> None:
    with broker(authority, tls_client_certificates="optional") as site:
        amqps(site.running, authority.client(), "s3cret").close()  # a password does
        with pytest.raises(AMQPConnectionError):
            amqps(site.running, authority.client())


def test_a_client_without_a_certificate_is_turned_away_where_one_is_required(
    authority: Authority,
) -> None:
    with broker(authority) as site, pytest.raises((AMQPConnectionError, ssl.SSLError, OSError)):
        amqps(site.running, authority.client(), "s3cret")


def test_a_native_client_logs_in_by_certificate(authority: Authority) -> None:
    with broker(authority) as site:
        native = native_over_tls(site.running, authority.client(common_name="tester"))
        native.call(Op.HELLO, None, version=1)
        native.call(Op.CHANNEL_OPEN, 1)
        assert native.queue("mine") == "mine"
        native.close()
        native = native_over_tls(site.running, authority.client(common_name="stranger"))
        with pytest.raises(Refused, match="login_refused"):
            native.call(Op.HELLO, None, version=1)
        native.close()


def test_our_own_clients_log_in_by_certificate(authority: Authority) -> None:
    with broker(authority) as site:
        context = authority.client(common_name="tester")
        port = site.running.ports["native_tls"]
        with ConnectionFactory(port=port, user=None, tls=context).new_connection() as connection:
            connection.create_channel().queue_declare("mine")
            assert site.do(lambda b: [one.user.name for one in b.connections]) == ["tester"]

        async def aio() -> None:
            async with await connect(port=port, user=None, tls=context) as connection:
                channel = await connection.create_channel()
                await channel.queue_declare("mine")

        asyncio.run(aio())


def test_a_native_client_may_use_a_password_over_tls(authority: Authority) -> None:
    with broker(authority, tls_client_certificates="optional") as site:
        native = native_over_tls(site.running, authority.client())
        native.hello(user="tester", password="s3cret")
        native.close()
        native = native_over_tls(site.running, authority.client())
        with pytest.raises(Refused):
            native.call(Op.HELLO, None, version=1)
        native.close()


def test_names_in_certificates() -> None:
    certificate = {
        "subject": ((("organizationName", "o"),), (("commonName", "ann"),)),
        "subjectAltName": (("DNS", "a.example"), ("email", "a@x"), ("URI", "urn:a"), ("DNS", "b")),
    }

    assert certificate_name(certificate, "common_name") == "ann"
    assert certificate_name(certificate, "dns") == "a.example"
    assert certificate_name(certificate, "email") == "a@x"
    assert certificate_name(certificate, "uri") == "urn:a"
    for nothing in (None, {}, {"subject": ()}, {"subjectAltName": ()}):
        assert certificate_name(nothing, "common_name") is None
        assert certificate_name(nothing, "dns") is None


# -- renewal --------------------------------------------------------------------------------------


def look(site: Site) -> None:
    async def look(server: object) -> None:
        server.certificates.look()  # type: ignore[attr-defined]

    site.running._running().call(look)


def test_changed_files_are_used_without_a_restart(authority: Authority) -> None:
    before = authority.client("x.example", common_name="tester")
    with broker(authority) as site:
        old = amqps(site.running, before)
        authority.renew()
        look(site)
        amqps(site.running, authority.client("x.example", common_name="tester")).close()
        with pytest.raises((AMQPConnectionError, ssl.SSLError)):
            amqps(site.running, before)  # it does not know the new certificate
        old.channel().queue_declare("mine")  # who is in stays in
        old.close()


def test_an_authority_that_is_gone_is_not_trusted_any_more(authority: Authority) -> None:
    before = authority.client("x.example", common_name="tester")
    with broker(authority) as site:
        amqps(site.running, before).close()
        authority.renew()
        look(site)
        authority.ca.configure_trust(before)  # it would trust the server, with its old certificate
        with pytest.raises((AMQPConnectionError, ssl.SSLError, OSError)):
            amqps(site.running, before)


def test_files_that_cannot_be_used_leave_the_old_ones_in_use(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    context = authority.client("x.example", common_name="tester")
    with broker(authority) as site:
        for broken in (b"", b"-----BEGIN CERTIFICATE-----\nhalf"):
            authority.files["cert"].write_bytes(broken)
            look(site)
        authority.files["key"].unlink()
        look(site)
        amqps(site.running, context).close()

    assert "the new TLS files cannot be used, the old ones stay" in caplog.text


def test_files_that_did_not_change_are_not_read_again(authority: Authority) -> None:
    files = authority.files
    certificates = Certificates(TlsFiles(files["cert"], files["key"], files["ca"]))
    newest = certificates._newest
    certificates.look()
    assert certificates._newest is newest

    os.utime(files["cert"], ns=(1, 1))
    certificates.look()
    assert certificates._newest is not newest


def test_a_certificate_that_cannot_be_read_stops_the_start(authority: Authority) -> None:
    authority.files["cert"].write_text("nonsense")
    with pytest.raises(ConfigError, match="cannot use the TLS certificate or key"):
        Certificates(TlsFiles(authority.files["cert"], authority.files["key"]))


def test_a_hangup_signal_renews_the_certificate(
    authority: Authority, start_broker: Callable[..., Broker]
) -> None:
    files = authority.files
    running = start_broker(
        "--amqps-port", "0", "--tls-cert", str(files["cert"]), "--tls-key", str(files["key"])
    )
    assert running.pid is not None

    def serial() -> object:
        with (
            socket.create_connection(("127.0.0.1", running.ports["amqps"])) as plain,
            authority.client().wrap_socket(plain, server_hostname="127.0.0.1") as secure,
        ):
            shown = secure.getpeercert()
            return shown["serialNumber"] if shown else None

    first = serial()
    authority.write()  # a new certificate of the same authority
    os.kill(running.pid, signal.SIGHUP)

    wait_for(lambda: serial() != first)
