"""When a certificate ends. The standard library only tells it of a peer's, not of our own."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path

_VERSION, _UTC_TIME = 0xA0, 0x17


def expires_at(pem_file: Path) -> float:
    """Seconds since 1970 of the first certificate in the file; ValueError when it is none."""
    text = pem_file.read_text("ascii", "replace")
    start = text.find(ssl.PEM_HEADER)
    end = text.find(ssl.PEM_FOOTER, start)
    if start < 0 or end < 0:
        raise ValueError(f"{pem_file} holds no certificate")
    der = ssl.PEM_cert_to_DER_cert(text[start : end + len(ssl.PEM_FOOTER)])
    certificate = _element(der, 0)[1]
    body = _element(certificate, 0)[1]
    parts = _elements(body)
    if parts and parts[0][0] == _VERSION:
        parts = parts[1:]
    # serial, signature, issuer, validity
    _, (kind, text_bytes) = _elements(parts[3][1])
    return _time(kind, text_bytes.decode("ascii")).timestamp()


def _element(data: bytes, at: int) -> tuple[int, bytes, int]:
    """The DER element at a place: tag, content, where the next one starts."""
    tag, length = data[at], data[at + 1]
    at += 2
    if length & 0x80:
        size = length & 0x7F
        length = int.from_bytes(data[at : at + size], "big")
        at += size
    return tag, data[at : at + length], at + length


def _elements(data: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at < len(data):
        tag, content, at = _element(data, at)
        found.append((tag, content))
    return found


def _time(kind: int, text: str) -> datetime:
    if kind == _UTC_TIME:  # two digits of a year, from 1950 on
        text = ("20" if text[:2] < "50" else "19") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
