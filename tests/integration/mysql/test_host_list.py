"""`mysql://user@h1,h2/db`: a host that does not answer, hangs up or takes no changes is left."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from headrace import topics
from headrace.cli.main import main
from headrace.errors import EngineUnavailable
from headrace.testing.mariadb import PASSWORD, USER
from support.mariadb import MariaDb
from support.ports import free_port
from support.tcp_proxy import TcpProxy


@pytest.fixture
def hosts(server: MariaDb) -> Iterator[list[TcpProxy]]:
    """Two names of the server that can fail: `cut` and `refuse`."""
    proxies = [TcpProxy("127.0.0.1", server.port).start() for _ in range(2)]
    yield proxies
    for one in proxies:
        one.stop()


def url(database: str, *ports: int, **options: object) -> str:
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    query = "&".join(f"{name}={value}" for name, value in options.items())
    return f"mysql://{USER}:{quote(PASSWORD, safe='')}@{hosts}/{database}?{query}"


def use(store: topics.Store) -> None:
    store.create("t")
    store.producer("t", token="p").append(b"a")
    consumer = store.consumer("t", token="c", group="g")
    batch = consumer.read(10, wait=10)
    assert [one.body for one in batch] == [b"a"]
    consumer.commit(batch)


def test_a_host_that_is_down_is_passed(server: MariaDb, database: str) -> None:
    with topics.open(url(database, free_port(), server.port)) as store:
        use(store)


def test_a_host_that_hangs_up_is_passed(database: str, hosts: list[TcpProxy]) -> None:
    hosts[0].refuse()
    with topics.open(url(database, hosts[0].port, hosts[1].port)) as store:
        use(store)
        assert hosts[0].accepted < 5


def test_commands_take_a_list(
    server: MariaDb, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = url(database, free_port(), server.port)
    with topics.open(where) as store:
        store.create("seen")
    assert main(["topic", "list", "--store", where]) == 0
    assert "seen" in capsys.readouterr().out


def test_hosts_that_all_hang_up_are_not_stormed(database: str, hosts: list[TcpProxy]) -> None:
    for one in hosts:
        one.refuse()
    with pytest.raises(EngineUnavailable, match="nothing was done"):
        topics.open(url(database, hosts[0].port, hosts[1].port, timeout=1, connect_timeout=2))
    assert 2 <= hosts[0].accepted < 60


def test_a_host_that_dies_is_left_within_the_same_call(
    database: str, hosts: list[TcpProxy]
) -> None:
    with topics.open(url(database, hosts[0].port, hosts[1].port, housekeeping="off")) as store:
        use(store)
        assert not hosts[1].accepted
        hosts[0].refuse()
        hosts[0].cut()
        store.producer("t", token="p").append(b"b")
        consumer = store.consumer("t", token="c", group="g")
        assert [one.body for one in consumer.read(10, wait=10)] == [b"b"]
        assert hosts[1].accepted
