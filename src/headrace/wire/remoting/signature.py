"""Signatures: a client proves that it knows a secret, without sending it."""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Mapping

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"
SIGNATURE = "Signature"


def signature(ext: Mapping[str, str], body: bytes, secret: str) -> str:
    """HMAC-SHA1 over the values of all other fields in the order of their names, and the body."""
    content = "".join([ext[name] for name in sorted(ext) if name != SIGNATURE])
    digest = hmac.digest(
        secret.encode("utf-8", "replace"), content.encode("utf-8", "replace") + body, "sha1"
    )
    return b64encode(digest).decode("ascii")


def signed(ext: Mapping[str, str], body: bytes, access_key: str, secret: str) -> dict[str, str]:
    """The fields with the key and the signature."""
    fields = {**ext, ACCESS_KEY: access_key}
    fields[SIGNATURE] = signature(fields, body, secret)
    return fields


def is_signed_with(ext: Mapping[str, str], body: bytes, secret: str) -> bool:
    """Whether the signature is right; it takes the same time whatever is wrong."""
    wanted = signature(ext, body, secret).encode("ascii")
    given = ext.get(SIGNATURE, "").encode("utf-8", "replace")
    return hmac.compare_digest(wanted, given)
