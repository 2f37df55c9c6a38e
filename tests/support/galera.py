"""A Galera cluster of three MariaDB servers on this machine.

State transfer by rsync works only for servers that run as the user mysql, so they do where the
tests run as root. Without the library the tests are skipped, and fail where nothing may be missing.
"""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import pymysql

from headrace.testing import wait_for
from headrace.testing.mariadb import PASSWORD, USER, MariaDb, find_server, install_tables
from support.ports import lasting_port
from support.toolchain import unavailable

LIBRARIES = ("/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so")
MISSING = "Galera is not on this machine: apt-get install galera-4 rsync"
SIZE = 3
# A node that is silent for two seconds is suspected; the default is five.
_PROVIDER = (
    "gmcast.listen_addr=tcp://127.0.0.1:{group};ist.recv_addr=127.0.0.1:{transfer};"
    "gcache.size=32M;evs.keepalive_period=PT0.5S;evs.suspect_timeout=PT2S;evs.inactive_timeout=PT4S"
)


@dataclass
class Galera:
    """Nodes of a cluster. Each can be killed, stopped or cut off, and joins again."""

    nodes: list[MariaDb]

    def url(self, database: str, *numbers: int, **options: object) -> str:
        """Of some nodes, in that order; of all by default."""
        chosen = numbers or range(len(self.nodes))
        hosts = ",".join(f"127.0.0.1:{self.nodes[number].port}" for number in chosen)
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"mysql://{USER}:{quote(PASSWORD, safe='')}@{hosts}/{database}?{query}"

    def wait(self) -> None:
        """Until all nodes are one cluster, and synced."""
        wait_for(lambda: all(map(_is_synced, self.nodes)), timeout=120, interval=0.1)

    def isolate(self, number: int, *, is_cut_off: bool) -> None:
        """The node hears nothing of the others, and they nothing of it; or it does again."""
        with self.nodes[number].connect(None) as connection, connection.cursor() as cursor:
            cursor.execute(f"SET GLOBAL wsrep_provider_options='gmcast.isolate={int(is_cut_off)}'")


def _is_synced(node: MariaDb) -> bool:
    try:
        with node.connect(None) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW STATUS LIKE 'wsrep_local_state_comment'")
            return cursor.fetchall() == (("wsrep_local_state_comment", "Synced"),)
    except pymysql.MySQLError:
        return False


@contextmanager
def run_galera(*options: str) -> Iterator[Galera]:
    """A cluster for the time of a `with` block."""
    programs = find_server()
    libraries = [one for one in LIBRARIES if Path(one).exists()]
    if programs is None or not libraries or shutil.which("rsync") is None:
        unavailable(MISSING)
    server, install = programs
    with TemporaryDirectory(prefix="headrace-galera-") as name, ExitStack() as running:
        directory = Path(name)
        directory.chmod(0o755)
        groups = [lasting_port() for _ in range(SIZE)]
        nodes = []
        for number, group in enumerate(groups):
            node = _node(directory / f"n{number}", server, libraries[0], group, options)
            nodes.append(node)
            running.callback(node.stop)
            others = ",".join(f"127.0.0.1:{port}" for port in groups)
            if number == 0:
                install_tables(node, install)
                init = f"--init-file={node.directory / 'init.sql'}"
                node.options = (*node.options, init, "--wsrep-cluster-address=gcomm://")
            else:
                (node.directory / "data").mkdir()
                shutil.chown(node.directory / "data", node.user)
            joining = f"--wsrep-cluster-address=gcomm://{others}"
            if number:
                node.options = (*node.options, joining)
            node.start()
            if number == 0:  # from now on it joins, like the others
                node.options = (*node.options[:-2], joining)
        cluster = Galera(nodes)
        cluster.wait()
        yield cluster


def _node(
    directory: Path, server: str, library: str, group: int, options: tuple[str, ...]
) -> MariaDb:
    directory.mkdir()
    user = "mysql" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    if os.getuid() == 0:
        shutil.chown(directory, user)
    provider = _PROVIDER.format(group=group, transfer=lasting_port())
    return MariaDb(
        directory,
        server,
        (
            "--wsrep-on=ON",
            f"--wsrep-provider={library}",
            f"--wsrep-provider-options={provider}",
            f"--wsrep-node-address=127.0.0.1:{group}",
            f"--wsrep-sst-receive-address=127.0.0.1:{lasting_port()}",
            "--wsrep-sst-method=rsync",
            "--wsrep-slave-threads=2",
            "--binlog-format=ROW",
            "--innodb-autoinc-lock-mode=2",
            "--innodb-flush-log-at-trx-commit=2",  # the other nodes have it, too
            *options,
        ),
        port=lasting_port(),
        user=user,
    )
