"""URLs, versions and faults of MySQL, without a server."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from headrace.errors import BodyTooLarge, BrokerError, ConfigError, EngineUnavailable, StoreError
from headrace.store.sql.connection import DbConnection, check_version
from headrace.store.sql.faults import Fault, FaultKind, refusal
from headrace.store.sql.url import parse_url


def test_a_url_with_everything() -> None:
    found = parse_url("mysql://me:p%40ss@db:3307/shop?readers=3&driver=pymysql&housekeeping=off")
    assert (found.user, found.password, found.hosts) == ("me", "p@ss", (("db", 3307),))
    assert (found.database, found.readers, found.driver) == ("shop", 3, "pymysql")
    assert not found.housekeeping
    assert found.place == "db:3307/shop"
    assert "p@ss" not in repr(found)


def test_a_url_with_little() -> None:
    found = parse_url("mysql:///shop")
    assert (found.user, found.hosts) == ("root", (("127.0.0.1", 3306),))


def test_a_url_with_several_hosts() -> None:
    found = parse_url("mysql://h2:h1@h1:3307,h2,[::1]:9/shop?hosts=any")
    assert (found.user, found.password) == ("h2", "h1")
    assert found.hosts == (("h1", 3307), ("h2", 3306), ("::1", 9))
    assert found.place == "h1:3307,h2:3306,[::1]:9/shop"
    assert found.spread


@pytest.mark.parametrize("hosts", ["a,,b", ",a", "a:x,b", "a:1:2,b", "a,b:99999"])
def test_hosts_that_are_none(hosts: str) -> None:
    with pytest.raises(ConfigError, match="invalid host or port"):
        parse_url(f"mysql://me@{hosts}/shop")


@pytest.mark.parametrize("text", ["10.6.0-MariaDB", "11.4.2-MariaDB-log", "8.0.36", "9.1.0"])
def test_servers_that_are_new_enough(text: str) -> None:
    check_version(text)


@pytest.mark.parametrize("text", ["10.5.28-MariaDB", "5.7.44-log"])
def test_servers_that_may_give_ids_again(text: str) -> None:
    with pytest.raises(ConfigError, match=r"MariaDB 10\.6 or MySQL 8\.0 is needed"):
        check_version(text)


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (2003, EngineUnavailable, "nothing was done"),
        (1045, EngineUnavailable, "nothing was done"),
        (2013, EngineUnavailable, "who knows"),
        (9005, EngineUnavailable, "who knows"),
        (1180, EngineUnavailable, "who knows"),
        (3101, EngineUnavailable, "too busy"),
        (1047, EngineUnavailable, "takes no changes at present"),
        (8025, BodyTooLarge, "max_allowed_packet"),
        (1927, EngineUnavailable, "who knows"),
        (1213, EngineUnavailable, "too busy"),
        (1290, EngineUnavailable, "takes no changes at present"),
        (1153, BodyTooLarge, "max_allowed_packet"),
        (1114, StoreError, "nothing was done"),
    ],
)
def test_database_errors_become_broker_errors(
    code: int, kind: type[BrokerError], said: str
) -> None:
    told = refusal(Fault(code, "text"), "db/shop", "who knows")
    assert type(told) is kind and said in str(told)


VARIABLES = {
    "version": "8.0.36",
    "max_allowed_packet": str(64 << 20),
    "auto_increment_increment": "1",
}


class FakeCursor:
    """Answers what a session asks first."""

    lastrowid = 0

    def execute(self, sql: str, values: object = None) -> int:
        self._is_first = "SHOW VARIABLES" in sql
        return 0

    def fetchall(self) -> list[tuple[object, ...]]:
        return list(VARIABLES.items()) if self._is_first else []


@pytest.fixture
def mysqlclient(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """An accelerator that is not there: what it was asked to connect to."""
    asked: dict[str, object] = {}

    class MySQLError(Exception):
        pass

    class Connection:
        def cursor(self) -> FakeCursor:
            return FakeCursor()

        def close(self) -> None:
            asked["closed"] = True

    def connect(**options: object) -> Connection:
        asked.update(options)
        if options["host"] == "nowhere":
            raise MySQLError(2005, "Unknown server host")
        return Connection()

    module = ModuleType("MySQLdb")
    module.MySQLError = MySQLError  # type: ignore[attr-defined]
    module.connect = connect  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "MySQLdb", module)
    return asked


def test_mysqlclient_gets_its_own_parameter_names(mysqlclient: dict[str, object]) -> None:
    url = "mysql://me:p%40ss@db:3307/shop?driver=mysqlclient&ssl_ca=/ca.pem&timeout=7"
    session = DbConnection(parse_url(url))
    assert (session.version, session.packet, session.id_step) == ("8.0.36", 64 << 20, 1)
    session.close()
    assert mysqlclient["closed"]
    wanted = {
        "host": "db", "port": 3307, "user": "me", "passwd": "p@ss", "db": "shop",
        "charset": "utf8mb4", "autocommit": True, "read_timeout": 7, "write_timeout": 7,
        "ssl_mode": "VERIFY_IDENTITY", "ssl": {"ca": "/ca.pem"},
    }  # fmt: skip
    assert {name: mysqlclient[name] for name in wanted} == wanted


@pytest.mark.parametrize(("limit", "row"), [("0", 6 << 20), ("1048576", 1 << 20)])
def test_tidb_is_asked_how_large_a_row_may_be(
    mysqlclient: dict[str, object], monkeypatch: pytest.MonkeyPatch, limit: str, row: int
) -> None:
    monkeypatch.setitem(VARIABLES, "version", "8.0.11-TiDB-v7.5.3")
    monkeypatch.setitem(VARIABLES, "tidb_txn_entry_size_limit", limit)
    assert DbConnection(parse_url("mysql://db/shop?driver=mysqlclient")).packet == 2 * row
    assert mysqlclient


def test_errors_of_mysqlclient_mean_the_same(mysqlclient: dict[str, object]) -> None:
    with pytest.raises(Fault, match="Unknown server host") as refused:
        DbConnection(parse_url("mysql://nowhere/shop?driver=mysqlclient"))
    assert refused.value.code == 2005


def test_a_driver_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "MySQLdb", None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"headrace\[mysql\]"):
        DbConnection(parse_url("mysql://db/shop?driver=mysqlclient"))


def test_a_commit_refused_because_of_a_deadlock_was_not_done() -> None:
    assert Fault(1180, 'Got error 149 - "Lock deadlock" during COMMIT').kind is FaultKind.AGAIN
