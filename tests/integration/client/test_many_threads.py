"""One connection, many channels and threads: no deadlock, no reply to the wrong question."""

from __future__ import annotations

import random
import threading
from queue import SimpleQueue

import pytest

from headrace.client import Channel, Connection, NotFound

CHANNELS, THREADS = 200, 16


class Worker(threading.Thread):
    """Asks questions whose answers it knows, on channels which others use as well."""

    def __init__(self, number: int, channels: list[Channel], rounds: int) -> None:
        super().__init__(name=f"worker-{number}")
        self.rounds = 0
        self.failure: BaseException | None = None
        self._number, self._channels, self._wanted = number, channels, rounds
        self._random = random.Random(number)

    def run(self) -> None:
        try:
            while self.rounds < self._wanted:
                self._ask(self._random.choice(self._channels))
                self.rounds += 1
        except BaseException as error:
            self.failure = error

    def _ask(self, channel: Channel) -> None:
        number = self._random.randrange(1, 6)
        name = f"threads-{self._number}-{self.rounds}"
        info = channel.queue_declare(name)
        assert info.name == name
        assert channel.publish_batch([("", name, None, b"x")] * number) == [1] * number
        body = f"{name}-last".encode()
        assert channel.basic_publish("", name, None, body) == 1
        delivery = channel.basic_get(name)
        assert delivery is not None
        assert delivery.queue == name
        delivery.ack()
        with pytest.raises(NotFound, match=name):
            channel.basic_ack(name, "unknown")
        assert channel.publish_async("", name, None, body).result(30) == 1
        if self.rounds % 4 == 0:
            self._consume(channel, name, number + 1)
            number = -1
        assert channel.queue_delete(name) == number + 1

    def _consume(self, channel: Channel, name: str, count: int) -> None:
        """Callbacks of many channels share four threads; each gets its own messages, in order."""
        got: SimpleQueue[tuple[str, str, bytes]] = SimpleQueue()
        tag = channel.basic_consume(name, True, lambda t, p, body: got.put((t, p.queue, body)))
        found = [got.get(timeout=30) for _ in range(count)]
        channel.basic_cancel(tag)
        bodies = [b"x"] * (count - 2) + [f"{name}-last".encode()] * 2
        assert found == [(tag, name, body) for body in bodies]


@pytest.mark.parametrize(
    "rounds", [40, pytest.param(500, marks=[pytest.mark.slow, pytest.mark.chaos])]
)
def test_many_threads_on_many_channels(connection: Connection, rounds: int) -> None:
    channels = [connection.create_channel() for _ in range(CHANNELS)]
    workers = [Worker(number, channels, rounds) for number in range(THREADS)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()  # pytest ends a deadlock

    assert [one.failure for one in workers if one.failure] == []
    assert [one.rounds for one in workers] == [rounds] * THREADS
