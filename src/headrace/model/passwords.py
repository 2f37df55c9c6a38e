"""Password hashes: our own (scrypt), and those of RabbitMQ, which can be imported.

A hash is kept as ``ALGORITHM:TEXT``. The text of ours is ``N$R$P$SALT$KEY``, so that a later
version may choose other parameters and still check it; the text of RabbitMQ's is base64 of four
bytes of salt and the digest of salt and password.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from headrace.errors import PreconditionFailed

SCRYPT: Final = "headrace_password_hashing_scrypt"
SHA256: Final = "rabbit_password_hashing_sha256"
SHA512: Final = "rabbit_password_hashing_sha512"

_DIGESTS: Final = {SHA256: "sha256", SHA512: "sha512"}
_RABBIT_SALT: Final = 4
_SALT: Final = 16
_KEY: Final = 32


class ScryptCost(NamedTuple):
    """The parameters of scrypt; memory is 128 * n * r bytes."""

    n: int
    r: int
    p: int


STRONG: Final = ScryptCost(1 << 15, 8, 3)  # 32 MiB and about a third of a second
# For the default password: slowness would protect nothing, and every start would pay.
LIGHT: Final = ScryptCost(1 << 10, 8, 1)
PUBLIC_PASSWORD: Final = "guest"
_LARGEST: Final = ScryptCost(1 << 20, 32, 16)  # what an imported hash may make us work


@dataclass(frozen=True, slots=True)
class PasswordHash:
    """What is kept of a password. One without text is opened by no password."""

    algorithm: str
    text: str = field(repr=False)

    @classmethod
    def of(cls, password: str, cost: ScryptCost | None = None) -> PasswordHash:
        """Slow on purpose: call it off the event loop."""
        salt = os.urandom(_SALT)
        cost = cost or (LIGHT if password == PUBLIC_PASSWORD else STRONG)
        key = _scrypt(password, salt, cost)
        return cls(SCRYPT, "$".join([*map(str, cost), _encode(salt), _encode(key)]))

    @classmethod
    def imported(cls, algorithm: str, text: str) -> PasswordHash:
        """One that comes from outside; PreconditionFailed unless it can be checked here."""
        if not text:
            return NO_PASSWORD
        if algorithm == SCRYPT:
            _read_scrypt(text)
        elif algorithm in _DIGESTS:
            # RabbitMQ notes the algorithm that is its default, even for a hash made by the other.
            algorithm = guessed_algorithm(text, algorithm)
            _read_rabbit(algorithm, text)
        else:
            raise PreconditionFailed(
                f"cannot check passwords hashed by {algorithm!r}; supported: "
                f"{SHA256}, {SHA512} and {SCRYPT}: set a new password"
            )
        return cls(algorithm, text)

    @classmethod
    def read(cls, stored: str) -> PasswordHash:
        """The inverse of ``stored``."""
        algorithm, _, text = stored.partition(":")
        return cls(algorithm, text) if text else NO_PASSWORD

    @property
    def stored(self) -> str:
        return f"{self.algorithm}:{self.text}" if self.text else ""

    @property
    def is_foreign(self) -> bool:
        """It should be replaced by one of ours as soon as the password is known."""
        return bool(self.text) and self.algorithm != SCRYPT

    @property
    def is_public(self) -> bool:
        """It is of the default password. Fast: that is not hashed at full cost."""
        return _is_public(self)

    def matches(self, password: str) -> bool:
        """Slow on purpose: call it off the event loop. The empty password opens nothing."""
        if not self.text or not password:
            return False
        if self.algorithm == SCRYPT:
            cost, salt, key = _read_scrypt(self.text)
            return hmac.compare_digest(key, _scrypt(password, salt, cost))
        salt, key = _read_rabbit(self.algorithm, self.text)
        digest = hashlib.new(_DIGESTS[self.algorithm], salt + as_bytes(password)).digest()
        return hmac.compare_digest(key, digest)

    def matches_evenly(self, password: str) -> bool:
        """The same, but a refusal takes one hash of full cost whatever is kept, also if nothing is:
        its time does not show whether there is such a user."""
        if self.matches(password):
            return True
        is_ours = self.text != "" and not self.is_foreign
        if not password or not is_ours or _read_scrypt(self.text)[0] != STRONG:
            _scrypt(password, bytes(_SALT), STRONG)
        return False


NO_PASSWORD: Final = PasswordHash(SCRYPT, "")


@lru_cache(maxsize=16)
def _is_public(kept: PasswordHash) -> bool:
    is_fast = kept.is_foreign or (kept.text != "" and _read_scrypt(kept.text)[0] == LIGHT)
    return is_fast and kept.matches(PUBLIC_PASSWORD)


def as_bytes(password: str) -> bytes:
    """A password as its client sent it."""
    return password.encode("utf-8", "surrogateescape")


def guessed_algorithm(text: str, default: str = "an unknown algorithm") -> str:
    """Which of RabbitMQ's algorithms made the hash: known from its length."""
    try:
        size = len(base64.b64decode(text, validate=True))
    except (ValueError, binascii.Error):
        return default
    sizes = {_RABBIT_SALT + hashlib.new(name).digest_size: one for one, name in _DIGESTS.items()}
    return sizes.get(size, default)


def _scrypt(password: str, salt: bytes, cost: ScryptCost) -> bytes:
    n, r, p = cost
    memory = 128 * r * (n + p + 2) + (1 << 20)
    # HMAC, on which scrypt is built, does not see zero bytes at the end; with another byte behind
    # them it does.
    data = as_bytes(password) + b"\x01"
    return hashlib.scrypt(data, salt=salt, n=n, r=r, p=p, maxmem=memory, dklen=_KEY)


def _read_scrypt(text: str) -> tuple[ScryptCost, bytes, bytes]:
    try:
        n, r, p, salt, key = text.split("$")
        cost = ScryptCost(int(n), int(r), int(p))
        found = cost, base64.b64decode(salt, validate=True), base64.b64decode(key, validate=True)
    except (ValueError, binascii.Error):
        raise PreconditionFailed(f"a password hash is not of the form of {SCRYPT}") from None
    in_range = all(1 <= one <= most for one, most in zip(cost, _LARGEST, strict=True))
    if not in_range or cost.n & (cost.n - 1) or cost.n < 2 or len(found[2]) != _KEY:
        raise PreconditionFailed(f"a password hash has parameters unfit for {SCRYPT}")
    return found


def _read_rabbit(algorithm: str, text: str) -> tuple[bytes, bytes]:
    try:
        data = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        data = b""
    if len(data) != _RABBIT_SALT + hashlib.new(_DIGESTS[algorithm]).digest_size:
        raise PreconditionFailed(f"a password hash is not of the form of {algorithm}")
    return data[:_RABBIT_SALT], data[_RABBIT_SALT:]


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
