"""Sessions of the page: a random token in a cookie, kept as a digest, for a while."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from headrace.model.passwords import PasswordHash

COOKIE = "headrace_session"
IDLE_SECONDS = 3600.0
MAX_SECONDS = 12 * 3600.0
MAX_SESSIONS = 1000
MAX_PER_USER = 50


@dataclass(slots=True)
class PageSession:
    """One login of the page."""

    user: str
    password: PasswordHash  # with another one the session is worth nothing
    csrf: str
    ends: float
    idle_ends: float

    def matches(self, token: str) -> bool:
        """Whether the request was made by the page, and not by another site for it."""
        return hmac.compare_digest(self.csrf.encode(), token.encode("utf-8", "replace"))


class PageSessions:
    """All of them; the oldest go first when there are too many."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._by_digest: OrderedDict[bytes, PageSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_digest)

    def begin(self, user: str, password: PasswordHash) -> tuple[str, PageSession]:
        """A new session and the token for its cookie."""
        now = self._now()
        own = [key for key, one in self._by_digest.items() if one.user == user]
        for key in own[: max(0, len(own) - MAX_PER_USER + 1)]:
            del self._by_digest[key]
        while len(self._by_digest) >= MAX_SESSIONS:
            self._by_digest.popitem(last=False)
        token = secrets.token_urlsafe(32)
        session = PageSession(
            user, password, secrets.token_urlsafe(24), now + MAX_SECONDS, now + IDLE_SECONDS
        )
        self._by_digest[_digest(token)] = session
        return token, session

    def find(self, token: str) -> PageSession | None:
        """The session of a cookie, unless its time is over."""
        key = _digest(token)
        session = self._by_digest.get(key)
        if session is None:
            return None
        now = self._now()
        if now >= min(session.ends, session.idle_ends):
            del self._by_digest[key]
            return None
        session.idle_ends = now + IDLE_SECONDS
        return session

    def end(self, token: str) -> None:
        self._by_digest.pop(_digest(token), None)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
