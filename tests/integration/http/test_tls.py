"""HTTPS: the same API behind a certificate, and when that ends."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import trustme

from headrace.server.http.api.health import expires_at
from headrace.testing import run_broker
from support.http_api import Api


def files(directory: Path) -> tuple[trustme.CA, dict[str, str]]:
    authority = trustme.CA()
    server = authority.issue_cert("127.0.0.1", "localhost")
    key, cert = directory / "key.pem", directory / "cert.pem"
    server.private_key_pem.write_to_path(key)
    cert.write_bytes(b"".join(one.bytes() for one in server.cert_chain_pems))
    return authority, {"tls_key": str(key), "tls_cert": str(cert)}


def test_https_answers_and_its_cookies_are_secure(tmp_path: Path) -> None:
    authority, settings = files(tmp_path)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with run_broker(sync=False, https_port=0, http=False, **settings) as broker:  # type: ignore[arg-type]
        assert "http" not in broker.ports
        base = f"https://127.0.0.1:{broker.ports['https']}"
        with httpx.Client(timeout=60, base_url=base, verify=context) as client:
            login = {"username": "guest", "password": "guest"}
            answer = client.post("/api/login", json=login)
            assert answer.headers["set-cookie"].endswith("; Secure")
            assert client.get("/api/whoami").json()["name"] == "guest"


def test_an_ending_certificate_fails_the_check(tmp_path: Path) -> None:
    _, settings = files(tmp_path)
    with run_broker(sync=False, https_port=0, **settings) as broker, Api(broker) as api:  # type: ignore[arg-type]
        checks = "/api/health/checks"
        assert api.get(f"{checks}/certificate-expiration/1/days")["status"] == "ok"
        ending = api.get(f"{checks}/certificate-expiration/9999/years", 503)
        assert ending["reason"] == "Certificates expiring"
        api.get(f"{checks}/certificate-expiration/x/days", 400)
        assert api.get(f"{checks}/protocol-listener/http%2Fssl")["status"] == "ok"


def test_the_expiry_is_that_of_the_first_certificate_in_the_file(tmp_path: Path) -> None:
    authority, listed = trustme.CA(), tmp_path / "cert.pem"
    ends = datetime(2051, 2, 3, 4, 5, 6, tzinfo=UTC)
    server = authority.issue_cert("localhost", not_after=ends)
    listed.write_bytes(server.cert_chain_pems[0].bytes() + authority.cert_pem.bytes())
    assert expires_at(listed) == ends.timestamp()
    listed.write_text("no certificate")
    with pytest.raises(ValueError, match="PEM"):
        expires_at(listed)
