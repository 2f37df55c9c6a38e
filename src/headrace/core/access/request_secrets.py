"""What users sign requests with, where a protocol has signatures instead of passwords.

A secret never leaves: it is not exported, not listed, not logged.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.access.login import LoginService
from headrace.core.storage import Storage
from headrace.errors import LoginRefused, PreconditionFailed
from headrace.store.api.rows import SecretRow

MIN_LENGTH, MAX_LENGTH = 8, 255
_NOBODYS = "-" * MIN_LENGTH  # checked for who has none, so that it takes the same time


class RequestSecrets:
    """By user."""

    def __init__(self, storage: Storage, logins: LoginService) -> None:
        self._storage = storage
        self._logins = logins
        self._kept: dict[str, str] = {}

    def __contains__(self, user: str) -> bool:
        return user in self._kept

    def set(self, user: str, secret: str | None) -> None:
        """Keep a secret, or forget it (None). The user is there."""
        if secret is None:
            self.forget(user)
            return
        if not MIN_LENGTH <= len(secret) <= MAX_LENGTH or not (
            secret.isascii() and secret.isprintable()
        ):
            raise PreconditionFailed(
                f"a secret has {MIN_LENGTH} to {MAX_LENGTH} characters, all of them printable ASCII"
            )
        self._kept[user] = secret
        self._storage.save(SecretRow(user, secret))
        self._logins.guard.forgive(user)

    def forget(self, user: str) -> None:
        if self._kept.pop(user, None) is not None:
            self._storage.delete(SecretRow(user, ""))

    def restore(self, row: SecretRow) -> None:
        self._kept[row.user] = row.secret

    def prove(
        self, user: str, peer: str, is_signed_with: Callable[[str], bool], *, may_come: bool
    ) -> None:
        """LoginRefused unless the secret of the user is the right one; guesses are counted."""
        guard, counts = self._logins.guard, self._logins.counts
        kept = self._kept.get(user) if may_come else None
        try:
            guard.check(user, peer)
            if not is_signed_with(kept or _NOBODYS) or kept is None:
                guard.failed(user, peer)
                raise LoginRefused(
                    "wrong access key or signature, or not allowed from this address; the access "
                    "key is a user with a secret (headrace user set-secret)"
                )
        except LoginRefused:
            counts.refused += 1
            raise
        guard.succeeded(user, peer)
