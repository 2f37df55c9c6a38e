"""Logging in over the wire: who is let in, who is locked out, who is not kept waiting."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import httpx
import pika
import pytest
from pika.exceptions import AMQPConnectionError, ProbableAuthenticationError

from headrace.core.access.login_guard import FREE_FAILURES
from headrace.testing import run_broker, wait_for
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.method_codec import Method, decode_method, method_frame
from headrace.wire.native.payloads import Op
from support.access_matrix import PASSWORD, USER, Site, add_user
from support.brokers import Broker
from support.password_guesser import guess_amqp, guess_http
from support.raw_native import Native, Refused, request_frame

PLANTED = "planted-Secret-4711"


@pytest.fixture(autouse=True)
def fresh(site: Site) -> Iterator[None]:
    site.do(lambda broker: add_user(broker, USER, PASSWORD))  # also forgives
    site.allow_everything()
    yield


def try_native(site: Site, user: str, password: str) -> str:
    """ "ok", or the code of the refusal."""
    native = Native(("127.0.0.1", site.running.ports["native"]))
    try:
        native.hello(user=user, password=password)
    except Refused as refused:
        return refused.code
    finally:
        native.close()
    return "ok"


def amqp_login(site: Site, user: str, password: str) -> str:
    try:
        with site.connection(user, password):
            return "ok"
    except ProbableAuthenticationError as error:
        return str(error)


@pytest.mark.parametrize("login", [try_native, amqp_login])
@pytest.mark.parametrize(
    ("user", "password"),
    [(USER, "wrong"), (USER, ""), ("nobody", PASSWORD), ("", ""), (USER, PASSWORD + "\0")],
)
def test_only_the_right_password_opens(
    site: Site, login: Callable[[Site, str, str], str], user: str, password: str
) -> None:
    assert login(site, user, password) != "ok"
    assert login(site, USER, PASSWORD) == "ok"


def test_an_amqp_client_reads_no_more_than_that_it_was_refused(site: Site) -> None:
    texts = {amqp_login(site, *login) for login in ((USER, "wrong"), ("nobody", "wrong"))}

    assert len(texts) == 1
    assert "Login was refused using authentication mechanism PLAIN." in texts.pop()


@pytest.mark.parametrize("login", [try_native, amqp_login])
def test_a_guesser_is_locked_out_and_the_others_are_served(
    site: Site, login: Callable[[Site, str, str], str]
) -> None:
    site.do(lambda broker: add_user(broker, "bob", "bobs"))
    site.allow(".*", ".*", ".*", user="bob")
    before = site.do(lambda broker: broker.users.logins.counts.locked)
    for number in range(FREE_FAILURES + 1):
        site.do(lambda broker, n=number: broker.users.logins.guard.failed(USER, "127.0.0.1"))

    assert login(site, USER, PASSWORD) != "ok"  # not even with the right one
    assert site.do(lambda broker: broker.users.logins.counts.locked) == before + 1
    assert login(site, "bob", "bobs") == "ok"
    assert login(site, "guest", "guest") == "ok"
    site.do(lambda broker: broker.users.logins.guard.forgive(USER))
    assert login(site, USER, PASSWORD) == "ok"


@pytest.mark.parametrize("guess", [guess_amqp, guess_http])
def test_a_flood_of_guesses_is_locked_out_and_the_others_are_served(
    site: Site, guess: Callable[[int, str, str, int], Awaitable[str]]
) -> None:
    """From one address, as fast as it goes, while somebody there logs in as they should."""
    for name in ("victim", "honest"):
        site.do(lambda broker, n=name: add_user(broker, n, f"{n}s", "management"))
        site.allow(".*", ".*", ".*", user=name)
    port = site.running.ports["amqp" if guess is guess_amqp else "http"]
    before = site.do(lambda broker: broker.users.logins.counts.locked)

    async def flood() -> Counter[str]:
        outcomes: Counter[str] = Counter()
        room = asyncio.Semaphore(40)  # below what one address may have waiting

        async def attempt(number: int) -> None:
            async with room:
                outcomes[await guess(port, "127.0.0.1", "victim", number)] += 1

        def log_in() -> list[str]:
            return [amqp_login(site, "honest", "honests") for _ in range(3)]

        serving = asyncio.get_running_loop().run_in_executor(None, log_in)
        await asyncio.gather(*(attempt(number) for number in range(400)))
        assert await serving == ["ok"] * 3
        return outcomes

    outcomes = asyncio.run(flood())

    locked = site.do(lambda broker: broker.users.logins.counts.locked) - before
    assert locked >= 300
    assert outcomes["429" if guess is guess_http else "refused"] >= 300, outcomes
    assert amqp_login(site, "victim", "victims") != "ok"  # not even with the right one, for now
    assert httpx.get(f"{site.running.http_url}/api/whoami", auth=("honest", "honests")).is_success


def test_a_client_may_send_on_before_its_login_is_answered(site: Site) -> None:
    """Requests behind the hello wait for it, in their order."""
    native = Native(("127.0.0.1", site.running.ports["native"]))
    hello = {"rid": 1, "version": 1, "user": USER, "password": PASSWORD}
    native.send(
        request_frame(Op.HELLO, hello)
        + request_frame(Op.CHANNEL_OPEN, {"rid": 2, "ch": 1})
        + request_frame(Op.PING, {"rid": 3})
    )
    assert [native.read()[1]["rid"] for _ in range(3)] == [1, 2, 3]
    native.close()


def test_a_client_that_hangs_up_during_its_login_leaves_nothing_behind(site: Site) -> None:
    native = Native(("127.0.0.1", site.running.ports["native"]))
    native.request(Op.HELLO, None, version=1, user=USER, password="wrong")
    native.close()

    wait_for(lambda: site.do(lambda broker: not broker.connections))
    assert try_native(site, USER, PASSWORD) == "ok"


def test_loopback_users_can_be_changed_by_the_setting() -> None:
    with run_broker(sync=False, loopback_users="none") as running:
        site = Site(running)
        users = site.do(lambda broker: broker.users)
        assert site.wait(lambda _: users.authenticate("guest", "guest", "10.0.0.1"))
    with run_broker(sync=False, loopback_users=f"guest,{USER}") as running:
        site = Site(running)
        for name, password in (("guest", "guest"), (USER, PASSWORD)):
            with pytest.raises(Exception, match="not allowed from this address"):
                site.wait(
                    lambda broker, n=name, p=password: broker.users.authenticate(n, p, "10.0.0.1")
                )


def test_users_permissions_and_limits_are_there_after_a_restart(tmp_path: Path) -> None:
    with run_broker(data_dir=tmp_path / "data") as running:
        site = Site(running)
        site.allow("^a", "^b", "^c")
        site.do(lambda b: b.users.set_topic_permissions(USER, "/", "amq.topic", "^w", "^r"))
        site.do(lambda b: b.users.set_user_limit(USER, "max-channels", 3))
        site.do(lambda b: b.users.set_vhost_limit("/", "max-queues", 5))
        site.wait(lambda b: b.users.put_user("strong", password=PLANTED, tags=["monitoring"]))
        site.do(lambda b: add_user(b, "gone", "x"))
        site.do(lambda b: b.users.delete_user("gone"))
        running.restart()

        names = site.do(lambda b: [account.name for account in b.users.list_users()])
        assert names == ["guest", "strong", USER]
        user = site.wait(lambda b: b.users.authenticate(USER, PASSWORD, "127.0.0.1"))
        assert user.permissions["/"].configure == "^a"
        assert user.topics["/", "amq.topic"].write == "^w"
        assert user.limits == {"max-channels": 3}
        assert site.do(lambda b: b.users.vhost_limits()) == {"/": {"max-queues": 5}}
        strong = site.wait(lambda b: b.users.authenticate("strong", PLANTED, "127.0.0.1"))
        assert strong.tags == {"monitoring"}


def test_a_password_is_stored_and_logged_nowhere(
    tmp_path: Path, start_broker: Callable[..., Broker]
) -> None:
    """Not in the log at its most talkative, not on disk, not in the process list."""
    broker = start_broker(
        "--log-level", "debug", "--default-user", "root",
        env={"HEADRACE_DEFAULT_PASSWORD": PLANTED},
    )  # fmt: skip

    def login(user: str, password: str) -> None:
        credentials = pika.PlainCredentials(user, password)
        where = pika.ConnectionParameters("127.0.0.1", broker.amqp_port, credentials=credentials)
        pika.BlockingConnection(where).close()

    login("root", PLANTED)
    for user, password in (("root", PLANTED + "x"), (PLANTED + "y", "z"), ("root", "")):
        with pytest.raises(AMQPConnectionError):
            login(user, password)
    command_line = Path(f"/proc/{broker.pid}/cmdline").read_bytes()
    broker.stop()
    log = broker.log()
    assert re.search("login of user 'root' refused", log)
    # A user name is logged; what was typed as a password is not, right or wrong.
    assert PLANTED not in log.replace(PLANTED + "y", "")
    assert PLANTED.encode() not in command_line
    assert broker.output is not None
    files = [path for path in (broker.output.parent / "data").rglob("*") if path.is_file()]
    assert files
    assert not any(PLANTED.encode() in path.read_bytes() for path in files)


def test_an_amqp_client_may_send_on_before_its_login_is_answered(site: Site) -> None:
    """Methods behind start-ok wait for it, in their order; so do publishes."""
    queue = "sent-ahead"
    response = b"\0" + USER.encode() + b"\0" + PASSWORD.encode()
    conversation: list[tuple[int, Method]] = [
        (0, m.ConnectionStartOk(mechanism="PLAIN", response=response, locale="en_US")),
        (0, m.ConnectionTuneOk(channel_max=10, frame_max=131072, heartbeat=0)),
        (0, m.ConnectionOpen(virtual_host="/")),
        (1, m.ChannelOpen()),
        (1, m.QueueDeclare(queue=queue, exclusive=True)),
    ]
    with socket.create_connection(("127.0.0.1", site.running.ports["amqp"])) as client:
        client.settimeout(5)
        client.sendall(b"AMQP\0\0\x09\x01" + b"".join(method_frame(*one) for one in conversation))
        received = b""
        while queue.encode() not in received:
            received += client.recv(65536)
        seen = [frame[2] for frame in _frames(received)]

    assert [type(decode_method(payload)) for payload in seen] == [
        m.ConnectionStart,
        m.ConnectionTune,
        m.ConnectionOpenOk,
        m.ChannelOpenOk,
        m.QueueDeclareOk,
    ]


def _frames(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    while data:
        kind, channel, size = struct.unpack_from(">BHI", data)
        yield kind, channel, data[7 : 7 + size]
        data = data[8 + size :]


def test_a_method_that_holds_a_password_does_not_show_it() -> None:
    for method in (
        m.ConnectionStartOk(mechanism="PLAIN", response=PLANTED.encode()),
        m.ConnectionSecureOk(response=PLANTED.encode()),
        m.ConnectionUpdateSecret(new_secret=PLANTED.encode()),
    ):
        assert PLANTED not in repr(method)
