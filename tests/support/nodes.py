"""Nodes that share a shard: processes on one machine, with a database."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pika
from pika.adapters.blocking_connection import BlockingChannel

from headrace.testing import wait_for
from support.brokers import _environment
from support.ports import lasting_port


class Node:
    """One `headrace serve --share` with fixed ports."""

    def __init__(
        self,
        name: str,
        directory: Path,
        url: str,
        *,
        lease: float,
        more: Sequence[str] = (),
        remoting: bool = False,
    ) -> None:
        self.name = name
        self._made = (directory, url, lease)
        self.amqp, self.native, self.http = lasting_port(), lasting_port(), lasting_port()
        self.namesrv, self.remoting = lasting_port(), lasting_port()
        self._directory = directory / f"{name}-{self.amqp}"
        self._directory.mkdir()
        self._ready = self._directory / "ready.json"
        self.output = self._directory / "output.txt"
        self.data = self._directory / "data"
        self._args = [
            "--engine", f"db={url}", "--share", "db/main", "--node", name,
            "--share-lease", str(lease), "--amqp-port", str(self.amqp),
            "--native-port", str(self.native), "--http-port", str(self.http),
            *(("--namesrv-port", str(self.namesrv), "--remoting-port", str(self.remoting))
              if remoting else ("--no-remoting",)),
            "--data-dir", str(self.data), "--ready-file", str(self._ready),
            *more,
        ]  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None
        self.began = 0  # where the log of the process begins

    def twin(self) -> Node:
        """Another process with the name of this one."""
        directory, url, lease = self._made
        return Node(self.name, directory, url, lease=lease)

    def use_shard(self, name: str) -> None:
        """From the next start on; the cache is that of one shard."""
        args, self.data = self._args, self._directory / name
        args[args.index("--share") + 1] = f"db/{name}"
        args[args.index("--data-dir") + 1] = str(self.data)

    def start(self, **env: str) -> None:
        self._ready.unlink(missing_ok=True)
        self.began = len(self.log()) if self.output.exists() else 0
        command = [sys.executable, "-m", "headrace", "serve", *self._args]
        with self.output.open("ab") as sink:
            self.process = subprocess.Popen(
                command, stdout=sink, stderr=sink, env=_environment(env)
            )

    @property
    def is_active(self) -> bool:
        """Whether it serves the shard, as far as its ready file says."""
        assert self.process is not None
        return self.process.poll() is None and self._ready.exists()

    def log(self) -> str:
        return self.output.read_text(errors="replace")

    def send(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.wait()

    def stop(self) -> int:
        self.send(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(30)


class Nodes:
    """Several of them."""

    def __init__(self, nodes: Sequence[Node], url: str) -> None:
        self.all = list(nodes)
        self.url = url  # of the database

    def active(self) -> Node:
        """Wait until one serves."""
        wait_for(lambda: any(node.is_active for node in self.all if node.process), timeout=60)
        return next(node for node in self.all if node.process and node.is_active)

    @contextmanager
    def channel(self) -> Iterator[BlockingChannel]:
        """On whichever node is active, with confirms."""
        hosts = [
            pika.ConnectionParameters(
                "127.0.0.1", node.amqp, heartbeat=4, blocked_connection_timeout=20,
                socket_timeout=3, stack_timeout=6,
            )
            for node in self.all
        ]  # fmt: skip
        connection = pika.BlockingConnection(hosts)
        try:
            channel = connection.channel()
            channel.confirm_delivery()
            yield channel
        finally:
            if connection.is_open:
                connection.close()

    def logs(self) -> str:
        return "\n".join(f"--- {node.name}\n{node.log()}" for node in self.all)


@contextmanager
def nodes(
    directory: Path,
    url: str,
    names: str = "ab",
    *,
    lease: float = 3,
    more: Sequence[str] = (),
    remoting: bool = False,
) -> Iterator[Nodes]:
    """Nodes that are not started yet; all are ended."""
    made = Nodes(
        [Node(name, directory, url, lease=lease, more=more, remoting=remoting) for name in names],
        url,
    )
    try:
        yield made
    except BaseException:
        sys.stdout.write(made.logs())
        raise
    finally:
        for node in made.all:
            if node.process is not None and node.process.poll() is None:
                node.process.send_signal(signal.SIGCONT)
                node.kill()
