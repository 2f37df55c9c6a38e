"""Checking passwords: patience first, then memory, then the slow hash in the pool.

A right password is remembered for a while as a digest under a key that lives as long as the
process, so that a thousand clients that come back at once cost one hash. Refusals take the same
time whatever their reason, except those of who is locked out: they come at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import os
import sys
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from headrace.core.access.login_guard import FREE_FAILURES, LoginGuard
from headrace.errors import LoginLocked, LoginRefused
from headrace.model.passwords import NO_PASSWORD, PasswordHash, as_bytes

T = TypeVar("T")

THREADS = 2
MAX_WAITING = 32  # a wait of about five seconds, half of what a handshake may take
PER_ADDRESS = 16
NICE = 5
REFUSAL_SECONDS = 0.5
MAX_REFUSALS_WAITING = 2000  # beyond it refusals are sent at once: a flood must not fill the memory
REMEMBERED_SECONDS = 600.0
MAX_REMEMBERED = 10_000
_NONE: Counter[bytes] = Counter()


@dataclass(slots=True)
class LoginCounts:
    """For metrics; since the start."""

    accepted: int = 0
    refused: int = 0
    locked: int = 0  # among the refused: not even looked at


class LoginService:
    """Everything between a password and a yes or no."""

    def __init__(self, pool: LoginPool, now: Callable[[], float] = time.monotonic) -> None:
        self.counts = LoginCounts()
        self.guard = LoginGuard(now)
        self._pool = pool
        self._now = now
        self._key = os.urandom(32)
        self._proofs: OrderedDict[bytes, float] = OrderedDict()  # when each was made
        self._under_way: dict[tuple[str, bytes], asyncio.Task[PasswordHash | None]] = {}
        self._trying: dict[tuple[str, str], Counter[bytes]] = {}  # passwords, by user and address
        self._at: Counter[str] = Counter()  # how many of them, by address
        self._waiting = 0

    async def check(
        self, user: str, password: str, address: str, kept: PasswordHash | None
    ) -> PasswordHash:
        """The hash to keep from now on; LoginRefused unless the password is that of ``kept``.

        None: there is no such user, or it may not log in from this address.
        """
        began = self._now()
        self._check_lock(user, address)
        proof = self._proof(kept or NO_PASSWORD, password)
        better = kept if self._is_remembered(proof) else None
        if better is None:
            with self._attempt(user, address, proof):
                better = await self._looked_at(user, password, address, kept, began)
        self.guard.succeeded(user, address)
        self.counts.accepted += 1
        return better

    async def _looked_at(
        self, user: str, password: str, address: str, kept: PasswordHash | None, began: float
    ) -> PasswordHash:
        try:
            better = await self._matching(user, password, address, kept or NO_PASSWORD)
        except LoginLocked:  # the pool has no place
            self._count_locked()
            await self._hold_back(began)
            raise
        if better is None:
            self.counts.refused += 1
            try:
                await self._hold_back(began)
            finally:  # also of who hangs up meanwhile
                self.guard.failed(user, address)
            raise LoginRefused("wrong user or password, or not allowed from this address")
        return better

    # Neither of the next two depends on whether there is such a user, nor on the password, so that
    # an immediate answer reveals nothing. And a client that guesses at full speed takes neither the
    # waiting nor the running places of the pool that honest clients of the same address need.

    def _check_lock(self, user: str, address: str) -> None:
        """LoginLocked, at once, for who is locked out."""
        try:
            self.guard.check(user, address)
        except LoginLocked:
            self._count_locked()
            raise

    @contextmanager
    def _attempt(self, user: str, address: str, proof: bytes) -> Iterator[None]:
        """LoginLocked, at once, when many other passwords are tried at the same time.

        Half of an address's places are for users who have not failed there lately.
        """
        trying = self._trying.get((user, address), _NONE)
        places = PER_ADDRESS // 2 if self.guard.remembers(user, address) else PER_ADDRESS
        if proof not in trying:
            if len(trying) >= FREE_FAILURES or self._at[address] >= places:
                self._count_locked()
                raise LoginLocked(f"user {user!r} from {address}: many passwords at once")
            self._at[address] += 1
        trying = self._trying.setdefault((user, address), Counter())
        trying[proof] += 1
        try:
            yield
        finally:
            trying[proof] -= 1
            if not trying[proof]:
                del trying[proof]
                self._at[address] -= 1
            if not trying:
                self._trying.pop((user, address), None)
            if not self._at[address]:
                del self._at[address]

    def _count_locked(self) -> None:
        self.counts.refused += 1
        self.counts.locked += 1

    def _is_remembered(self, proof: bytes) -> bool:
        made = self._proofs.get(proof)
        return made is not None and self._now() - made < REMEMBERED_SECONDS

    async def _matching(
        self, user: str, password: str, address: str, kept: PasswordHash
    ) -> PasswordHash | None:
        """``kept``, or what should replace it; None when it is of another password."""
        # With the user: of those that are unknown or have no password the proofs are the same.
        proof = (user, self._proof(kept, password))
        task = self._under_way.get(proof)
        if task is None:
            # Many clients with one password: the hash of the first one answers all.
            work = self._pool.run(address, lambda: _verify(kept, password))
            task = self._under_way[proof] = asyncio.get_running_loop().create_task(work)
            task.add_done_callback(lambda done: self._over(proof, done))
        better = await asyncio.shield(task)
        if better is not None:
            self.remember(better, password)
        return better

    def _over(self, proof: tuple[str, bytes], task: asyncio.Task[PasswordHash | None]) -> None:
        del self._under_way[proof]
        if not task.cancelled():
            task.exception()  # the waiting logins have it; without any it is of no interest

    def remember(self, kept: PasswordHash, password: str) -> None:
        """The password is known to be that of the hash."""
        proof = self._proof(kept, password)
        self._proofs.pop(proof, None)
        self._proofs[proof] = self._now()
        if len(self._proofs) > MAX_REMEMBERED:
            self._proofs.popitem(last=False)

    def _proof(self, kept: PasswordHash, password: str) -> bytes:
        # The hash is part of it: with another password, or none, the proof is worth nothing.
        message = kept.stored.encode() + b"\0" + as_bytes(password)
        return hmac.new(self._key, message, hashlib.sha256).digest()

    async def _hold_back(self, began: float) -> None:
        left = began + REFUSAL_SECONDS - self._now()
        if left > 0 and self._waiting < MAX_REFUSALS_WAITING:
            self._waiting += 1
            try:
                await asyncio.sleep(left)
            finally:
                self._waiting -= 1


def _verify(kept: PasswordHash, password: str) -> PasswordHash | None:
    """On a thread of the pool. A foreign hash that matches is replaced by one of ours."""
    if not kept.matches_evenly(password):
        return None
    return PasswordHash.of(password) if kept.is_foreign else kept


class LoginPool:
    """Runs slow functions; the number of those under way is bounded."""

    def __init__(
        self,
        threads: int = THREADS,
        max_waiting: int = MAX_WAITING,
        per_address: int = PER_ADDRESS,
    ) -> None:
        self._executor = ThreadPoolExecutor(
            threads, thread_name_prefix="headrace-login", initializer=_step_back
        )
        self._places = threads + max_waiting
        self._per_address = per_address
        self._addresses: Counter[str] = Counter()
        self.busy = 0

    async def run(self, address: str, work: Callable[[], T]) -> T:
        """The result of ``work``; LoginLocked when there is no place."""
        if self.busy >= self._places or self._addresses[address] >= self._per_address:
            raise LoginLocked(f"too many logins at once: refused the one from {address}")
        self.busy += 1
        self._addresses[address] += 1
        # The place is taken until the thread is free again, not until the caller stops waiting.
        job = asyncio.get_running_loop().run_in_executor(self._executor, work)
        job.add_done_callback(lambda _: self._free(address))
        return await asyncio.shield(job)

    def _free(self, address: str) -> None:
        self.busy -= 1
        self._addresses[address] -= 1
        if self._addresses[address] <= 0:
            del self._addresses[address]

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)


def _step_back() -> None:
    """Let the event loop go first where there are not enough cores for all (a thread's own nice
    value is Linux's; elsewhere it would be the whole process's)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
