"""A broker, its restarts, and pika connections to it that are closed in the end."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError, ChannelClosedByBroker

from headrace.testing import wait_for
from headrace.testing.broker_process import BrokerProcess
from support.fork_server import ForkingPopen

PERSISTENT = pika.BasicProperties(delivery_mode=2)


class ForkedBroker(BrokerProcess):
    """Forked, because tests restart it often."""

    popen = ForkingPopen


class Site:
    """One data directory and whoever works with it."""

    def __init__(self, directory: Path, *flags: str) -> None:
        self.node = ForkedBroker(directory, *flags)
        self._connections: list[pika.BlockingConnection] = []

    def __enter__(self) -> Site:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.node.kill()
        self.hang_up()

    # -- the broker

    def stop(self, *, in_talks: bool = False) -> None:
        """A clean stop; ``in_talks``: while the connections are open, which takes longer."""
        if not in_talks:
            self.hang_up()
        assert self.node.stop() == 0, self.node.log()
        self.hang_up()

    def restart(self) -> None:
        """Stop it cleanly, and start it again."""
        self.stop()
        self.node.start()

    def crash(self) -> None:
        """Kill it, and start it again."""
        self.node.kill()
        self.hang_up()
        self.node.start()

    # -- its clients

    def channel(self, *, confirms: bool = True, vhost: str = "/") -> BlockingChannel:
        """A channel on a connection of its own."""
        parameters = pika.ConnectionParameters("127.0.0.1", self.node.port, vhost)
        connection = pika.BlockingConnection(parameters)
        self._connections.append(connection)
        channel = connection.channel()
        if confirms:
            channel.confirm_delivery()
        return channel

    def hang_up(self) -> None:
        for connection in self._connections:
            with suppress(AMQPError, OSError):
                connection.close()
        self._connections.clear()

    def publish(
        self, channel: BlockingChannel, queue: str, *bodies: str, **properties: object
    ) -> None:
        chosen = pika.BasicProperties(**{"delivery_mode": 2, **properties})
        for body in bodies:
            channel.basic_publish("", queue, body.encode(), chosen)

    def take(self, channel: BlockingChannel, queue: str) -> list[tuple[str, bool]]:
        """Everything that is ready, with the redelivered flag; acknowledged."""
        found = []
        while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
            found.append((got[2].decode(), got[0].redelivered))
        return found

    def bodies(self, queue: str) -> list[str]:
        return [body for body, _ in self.take(self.channel(), queue)]

    def has_queue(self, name: str) -> bool:
        return self._exists("queue_declare", name)

    def has_exchange(self, name: str) -> bool:
        return self._exists("exchange_declare", name)

    def _exists(self, declare: str, name: str) -> bool:
        try:
            getattr(self.channel(), declare)(name, passive=True)
        except ChannelClosedByBroker as closed:
            assert closed.reply_code == 404, closed
            return False
        return True

    def ready(self, channel: BlockingChannel, queue: str) -> int:
        count: int = channel.queue_declare(queue, passive=True).method.message_count
        return count

    def hold(self, channel: BlockingChannel, queue: str, count: int) -> list[Any]:
        """Get messages and do not acknowledge them."""
        taken = [channel.basic_get(queue) for _ in range(count)]
        assert all(one[0] is not None for one in taken)
        return taken

    def take_soon(self, queue: str, limit: float = 5) -> list[tuple[str, bool]]:
        """What is or will be ready, as soon as there is something."""
        channel = self.channel()
        return wait_for(lambda: self.take(channel, queue), limit)
