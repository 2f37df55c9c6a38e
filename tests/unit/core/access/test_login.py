"""Logins: patience, memory, the bounded pool, and an event loop that is never kept waiting."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable

import pytest

from headrace.core.access import login, login_guard
from headrace.core.access.login import LoginPool, LoginService
from headrace.core.access.login_guard import FREE_FAILURES, LONGEST_SECONDS, LoginGuard
from headrace.errors import LoginLocked, LoginRefused
from headrace.model import passwords
from headrace.model.passwords import (
    LIGHT,
    NO_PASSWORD,
    SCRYPT,
    SHA256,
    STRONG,
    PasswordHash,
    ScryptCost,
)

HERE, THERE = "127.0.0.1", "10.0.0.1"
KEPT = PasswordHash.of("right", LIGHT)
OLD = PasswordHash(SHA256, "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR")  # of "test12"


class Time:
    """A clock that goes when a test says so."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "REFUSAL_SECONDS", 0.0)
    monkeypatch.setattr(passwords, "STRONG", LIGHT)  # of refusals


# -- patience -------------------------------------------------------------------------------------


def fail(guard: LoginGuard, times: int, user: str = "ann", address: str = HERE) -> None:
    for _ in range(times):
        guard.failed(user, address)


def is_locked(guard: LoginGuard, user: str = "ann", address: str = HERE) -> bool:
    try:
        guard.check(user, address)
    except LoginLocked:
        return True
    return False


def test_a_few_wrong_passwords_are_free(time: Time) -> None:
    guard = LoginGuard(time)
    fail(guard, FREE_FAILURES - 1)

    assert not is_locked(guard)


def test_each_failure_doubles_the_lock_up_to_a_limit(time: Time) -> None:
    guard = LoginGuard(time)
    fail(guard, FREE_FAILURES - 1)
    waits = []
    for _ in range(12):
        guard.failed("ann", HERE)
        start = time.seconds
        while is_locked(guard):
            time.seconds += 1
        waits.append(time.seconds - start)

    assert waits[:5] == [1, 2, 4, 8, 16]
    assert max(waits) == waits[-1] == LONGEST_SECONDS


def test_a_lock_is_for_one_user_at_one_address(time: Time) -> None:
    guard = LoginGuard(time)
    fail(guard, FREE_FAILURES + 3)

    assert is_locked(guard)
    assert not is_locked(guard, "bob")
    assert not is_locked(guard, "ann", THERE)


def test_attempts_during_a_lock_do_not_make_it_longer(time: Time) -> None:
    guard = LoginGuard(time)
    fail(guard, FREE_FAILURES)
    for _ in range(100):
        assert is_locked(guard)
    time.seconds += 1

    assert not is_locked(guard)


@pytest.mark.parametrize(
    "pardon",
    [
        lambda guard, time: guard.succeeded("ann", HERE),
        lambda guard, time: guard.forgive("ann"),
    ],
    ids=["success", "a new password"],
)
def test_failures_are_forgotten_by(pardon: Callable[[LoginGuard, Time], None], time: Time) -> None:
    guard = LoginGuard(time)
    fail(guard, FREE_FAILURES + 5)
    pardon(guard, time)

    assert not is_locked(guard)
    assert len(guard) == 0


def test_failures_long_ago_do_not_count(time: Time) -> None:
    guard = LoginGuard(time)
    fail(guard, FREE_FAILURES + 5)
    time.seconds += login_guard.FORGOTTEN_AFTER + 1
    guard.failed("ann", HERE)

    assert not is_locked(guard)


def test_memory_is_bounded_and_the_longest_quiet_go_first(
    monkeypatch: pytest.MonkeyPatch, time: Time
) -> None:
    monkeypatch.setattr(login_guard, "MAX_REMEMBERED", 10)
    guard = LoginGuard(time)
    fail(guard, FREE_FAILURES, "old")
    for number in range(10):
        fail(guard, FREE_FAILURES, f"user-{number}")

    assert len(guard) == 10
    assert not is_locked(guard, "old")
    assert is_locked(guard, "user-9")


# -- checking -------------------------------------------------------------------------------------


def run(
    work: Callable[[LoginService], Awaitable[object]], pool: LoginPool | None = None
) -> LoginService:
    pool = pool or LoginPool()
    logins = LoginService(pool)

    async def all_of_it() -> None:
        await work(logins)

    try:
        asyncio.run(all_of_it())
    finally:
        pool.close()
    return logins


def test_the_right_password_is_accepted_and_others_are_not() -> None:
    async def work(logins: LoginService) -> None:
        assert await logins.check("ann", "right", HERE, KEPT) is KEPT
        for password, kept in (("wrong", KEPT), ("", KEPT), ("right", None)):
            with pytest.raises(LoginRefused):
                await logins.check("ann", password, HERE, kept)

    logins = run(work)

    assert (logins.counts.accepted, logins.counts.refused, logins.counts.locked) == (1, 3, 0)


@pytest.mark.parametrize("password", ["wrong", ""])
def test_a_refused_login_costs_one_hash_for_every_user_name(
    monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    """No user, none that may come from here, no password, a foreign hash, the default password."""
    costs: list[ScryptCost] = []
    scrypt = passwords._scrypt

    def counted(password: str, salt: bytes, cost: ScryptCost) -> bytes:
        costs.append(cost)
        return scrypt(password, salt, LIGHT)

    users = {"ours": PasswordHash.of("right", STRONG), "default": PasswordHash.of("guest"),
             "foreign": OLD, "none": NO_PASSWORD, "unknown": None, "unknown2": None}  # fmt: skip
    monkeypatch.setattr(passwords, "_scrypt", counted)
    monkeypatch.setattr(passwords, "STRONG", STRONG)

    async def work(logins: LoginService) -> None:
        async def refused(user: str, kept: PasswordHash | None) -> None:
            with pytest.raises(LoginRefused):
                await logins.check(user, password, HERE, kept)

        for user, kept in users.items():
            await refused(user, kept)
            assert costs.count(STRONG) == 1, user
            costs.clear()
        await asyncio.gather(*(refused(user, kept) for user, kept in users.items()))

    run(work)

    assert costs.count(STRONG) == len(users), "together as well: no hash is shared"


def test_locked_means_that_the_right_password_does_not_help() -> None:
    async def work(logins: LoginService) -> None:
        await logins.check("ann", "right", HERE, KEPT)  # remembered
        for _ in range(FREE_FAILURES):
            with pytest.raises(LoginRefused):
                await logins.check("ann", "wrong", HERE, KEPT)
        with pytest.raises(LoginLocked, match="locked for 1 s more after 5 failed logins"):
            await logins.check("ann", "right", HERE, KEPT)
        assert await logins.check("ann", "right", THERE, KEPT) is KEPT

    assert run(work).counts.locked == 1


class CountingPool(LoginPool):
    def __init__(self) -> None:
        super().__init__()
        self.runs = 0

    async def run(self, address: str, work: Callable[[], object]) -> object:  # type: ignore[override]
        self.runs += 1
        return await super().run(address, work)


def test_a_storm_of_clients_with_one_password_costs_one_hash() -> None:
    pool = CountingPool()

    async def work(logins: LoginService) -> None:
        await asyncio.gather(*(logins.check("ann", "right", HERE, KEPT) for _ in range(200)))
        await asyncio.gather(*(logins.check("ann", "right", THERE, KEPT) for _ in range(200)))

    assert run(work, pool).counts.accepted == 400
    assert pool.runs == 1


def test_what_is_remembered_is_of_no_use_after_a_change_of_password() -> None:
    async def work(logins: LoginService) -> None:
        await logins.check("ann", "right", HERE, KEPT)
        with pytest.raises(LoginRefused):
            await logins.check("ann", "right", HERE, PasswordHash.of("new", LIGHT))

    run(work)


def test_neither_password_nor_hash_is_remembered() -> None:
    async def work(logins: LoginService) -> None:
        await logins.check("ann", "right", HERE, KEPT)
        remembered = b"".join(logins._proofs)
        assert len(remembered) == 32
        assert b"right" not in remembered
        assert KEPT.text.encode() not in remembered

    run(work)


def test_memory_of_right_passwords_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "MAX_REMEMBERED", 3)

    async def work(logins: LoginService) -> None:
        for number in range(10):
            logins.remember(KEPT, str(number))
        assert len(logins._proofs) == 3

    run(work)


def test_a_foreign_hash_is_replaced_at_the_first_login() -> None:
    async def work(logins: LoginService) -> None:
        better = await logins.check("ann", "test12", HERE, OLD)
        assert better.algorithm == SCRYPT
        assert better.matches("test12")

    run(work)


# -- the pool -------------------------------------------------------------------------------------


class Slow:
    """Work that ends when told, and notes on which threads it runs."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.threads: set[int] = set()

    def __call__(self) -> int:
        self.threads.add(threading.get_ident())
        self.done.wait(10)
        return 7


def test_the_pool_takes_so_many_and_refuses_the_rest() -> None:
    async def work() -> None:
        slow, pool = Slow(), LoginPool(threads=2, max_waiting=3, per_address=100)
        under_way = [asyncio.create_task(pool.run(str(n), slow)) for n in range(5)]
        await asyncio.sleep(0)
        for number in range(20):
            with pytest.raises(LoginLocked, match="too many logins at once"):
                await pool.run(str(number), slow)
        assert pool.busy == 5
        slow.done.set()
        assert await asyncio.gather(*under_way) == [7] * 5
        assert pool.busy == 0
        assert len(slow.threads) <= 2
        assert threading.get_ident() not in slow.threads
        assert await pool.run("x", slow) == 7
        pool.close()

    asyncio.run(work())


def test_one_address_cannot_take_all_places() -> None:
    async def work() -> None:
        slow, pool = Slow(), LoginPool(threads=1, max_waiting=10, per_address=2)
        under_way = [asyncio.create_task(pool.run(HERE, slow)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(LoginLocked):
            await pool.run(HERE, slow)
        other = asyncio.create_task(pool.run(THERE, slow))
        await asyncio.sleep(0)
        slow.done.set()
        assert await asyncio.gather(*under_way, other) == [7] * 3
        pool.close()

    asyncio.run(work())


def test_a_client_that_hangs_up_keeps_its_place_until_its_hash_is_made() -> None:
    async def work() -> None:
        slow, pool = Slow(), LoginPool(threads=1, max_waiting=0)
        task = asyncio.create_task(pool.run(HERE, slow))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(LoginLocked):
            await pool.run(THERE, slow)
        slow.done.set()
        while pool.busy:  # noqa: ASYNC110 - a pool has no event
            await asyncio.sleep(0.001)
        pool.close()

    asyncio.run(work())


def test_the_loop_goes_on_while_hundreds_guess_and_no_hash_is_made_on_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    slow = Slow()
    on_loop: list[bool] = []

    def hashing(self: PasswordHash, password: str) -> bool:
        on_loop.append(threading.current_thread() is threading.main_thread())
        slow()
        return False

    monkeypatch.setattr(PasswordHash, "matches", hashing)

    async def work(logins: LoginService) -> None:
        guesses = [
            asyncio.create_task(logins.check("ann", f"guess-{n}", f"10.0.{n % 20}.1", KEPT))
            for n in range(200)
        ]
        turns = 0
        while sum(task.done() for task in guesses) < 200 - 34:  # two at work, 32 in the queue
            turns += 1
            await asyncio.sleep(0)
        assert len(on_loop) <= 2  # the others wait in the queue or have been refused
        # All threads are busy, yet whoever is remembered is served at once.
        logins.remember(KEPT, "right")
        assert await logins.check("bob", "right", THERE, KEPT) is KEPT
        slow.done.set()
        outcomes = await asyncio.gather(*guesses, return_exceptions=True)
        assert all(isinstance(outcome, LoginRefused) for outcome in outcomes)

    logins = run(work)

    assert not any(on_loop)
    assert logins.counts.locked == 200 - 34
    assert logins.counts.refused == 200


def test_refusals_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "REFUSAL_SECONDS", 3600.0)
    monkeypatch.setattr(login, "MAX_REFUSALS_WAITING", 5)

    async def work(logins: LoginService) -> None:
        tasks = [asyncio.create_task(logins.check("x", "y", str(n), None)) for n in range(50)]
        done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        while len(done) < 45:
            await asyncio.sleep(0)
            done = {task for task in tasks if task.done()}
        waiting = set(tasks) - done
        assert len(waiting) == 5
        assert all(isinstance(task.exception(), LoginRefused) for task in done)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    run(work)


def test_who_is_locked_out_holds_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Told at once, whether there is such a user or not."""
    monkeypatch.setattr(login, "REFUSAL_SECONDS", 3600.0)

    async def work(logins: LoginService) -> None:
        for name in ("there", "nobody"):
            for _ in range(FREE_FAILURES):
                logins.guard.failed(name, HERE)
        for kept in (KEPT, None):
            with pytest.raises(LoginLocked):
                await logins.check("there" if kept else "nobody", "right", HERE, kept)

    logins = run(work)
    assert (logins.counts.refused, logins.counts.locked) == (2, 2)


def test_one_user_at_one_address_tries_few_passwords_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether there is such a user or not; the same password of many clients counts once."""
    monkeypatch.setattr(login, "REFUSAL_SECONDS", 3600.0)

    async def work(logins: LoginService) -> None:
        for kept in (KEPT, None):
            name = "there" if kept else "nobody"
            trying = [
                asyncio.create_task(logins.check(name, f"guess-{number}", HERE, kept))
                for number in range(FREE_FAILURES)
            ]
            await asyncio.sleep(0)
            same = asyncio.create_task(logins.check(name, "guess-0", HERE, kept))
            await asyncio.sleep(0)
            with pytest.raises(LoginLocked, match="many passwords at once"):
                await logins.check(name, "another", HERE, kept)
            assert not same.done()
            for task in (*trying, same):
                task.cancel()
            await asyncio.gather(*trying, same, return_exceptions=True)
        assert await logins.check("there", "right", THERE, KEPT) is KEPT  # elsewhere: his own

    logins = run(work)
    assert logins.counts.locked == 2
    assert not logins._trying


def test_a_failure_counts_also_when_the_guesser_hangs_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "REFUSAL_SECONDS", 3600.0)

    async def work(logins: LoginService) -> None:
        for number in range(FREE_FAILURES):
            task = asyncio.create_task(logins.check("ann", str(number), HERE, None))
            while not logins._waiting:  # for the answer; the password was looked at
                await asyncio.wait([task], timeout=0.001)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        with pytest.raises(LoginLocked, match="locked for"):
            await logins.check("ann", "right", HERE, None)

    run(work)


def test_guessers_leave_places_for_those_who_did_not_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many users guessed at one address: somebody else there gets a place, and so do they later."""
    monkeypatch.setattr(login, "REFUSAL_SECONDS", 3600.0)

    async def work(logins: LoginService) -> None:
        victims = [f"victim-{number}" for number in range(40)]
        for name in victims:
            logins.guard.failed(name, HERE)
        guesses = [asyncio.create_task(logins.check(name, "guess", HERE, None)) for name in victims]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert sum(task.done() for task in guesses) == 40 - login.PER_ADDRESS // 2
        assert await logins.check("ann", "right", HERE, KEPT) is KEPT
        for task in guesses:
            task.cancel()
        await asyncio.gather(*guesses, return_exceptions=True)
        assert not logins._at and not logins._trying

    run(work)
