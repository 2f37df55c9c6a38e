"""Groups of foreign clients, one process per member: shared queues, a killed member, broadcasts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from headrace.rocketmq import Message, Producer
from headrace.testing import wait_for
from support.raw_remoting import Site
from support.rocketmq.programs import program
from support.rocketmq.sdk_scenarios import Scene

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

CLIENTS = ["java", "old-java", "cpp", "go", "node"]
QUEUES = 8
START_LIMIT = 60
REBALANCE_LIMIT = 60  # notices come at once; without one it is 20 s


@pytest.fixture(params=["ours", "apache"])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    site: Site = request.getfixturevalue(request.param)
    with ExitStack() as stack:
        yield Scene(site.name_address, stack)


class Member:
    """A process that says what it gets."""

    def __init__(self, command: list[str], home: Path) -> None:
        home.mkdir()
        self._output = home / "said"
        with self._output.open("wb") as out:
            self._process = subprocess.Popen(
                command,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": "", "HOME": str(home)},
            )

    def said(self) -> set[str]:
        """The bodies it got; a line that is not whole yet does not count."""
        lines = self._output.read_text(errors="replace").split("\n")[:-1]
        return {line[2:] for line in lines if line.startswith("> ")}

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Sender:
    """Sends bodies that differ, to one queue after the other."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._queues = producer.queues(topic)
        self._numbers = count()
        self._topic = topic
        self.sent: set[str] = set()

    def send(self, messages: int) -> set[str]:
        """Some more, the same number to each queue."""
        new: set[str] = set()
        for _ in range(messages // len(self._queues)):
            for queue in self._queues:
                body = f"m{next(self._numbers)}"
                self._producer.send(Message(self._topic, body.encode()), queue=queue)
                new.add(body)
        self.sent |= new
        return new


def members(scene: Scene, stack: ExitStack, command: list[str], home: Path) -> list[Member]:
    made = [Member(command, home / str(number)) for number in range(2)]
    for one in made:
        stack.callback(one.kill)
    return made


@pytest.mark.parametrize("client", CLIENTS)
def test_two_members_share_a_topic_and_one_is_killed(
    scene: Scene, client: str, tmp_path: Path
) -> None:
    topic = scene.topic(QUEUES)
    command = [*program(client), "member", scene.namesrv, topic]
    with ExitStack() as stack:
        first, second = members(scene, stack, command, tmp_path)
        sender = Sender(scene.producer(), topic)

        def is_shared() -> bool:
            """Half of the queues each: of one message per queue each member gets half."""
            new = sender.send(QUEUES)
            wait_for(lambda: new <= first.said() | second.said(), START_LIMIT, 0.05)
            return len(new & first.said()) == len(new & second.said()) == QUEUES // 2

        wait_for(is_shared, START_LIMIT, 0.2)
        sender.send(80)
        second.kill()
        sender.send(80)
        wait_for(lambda: sender.sent <= first.said() | second.said(), REBALANCE_LIMIT, 0.05)
        last = sender.send(QUEUES)
        wait_for(lambda: last <= first.said(), REBALANCE_LIMIT, 0.05)


@pytest.mark.parametrize("client", CLIENTS)
def test_broadcasting_gives_everything_to_both_members(
    scene: Scene, client: str, tmp_path: Path
) -> None:
    topic = scene.topic(2)
    command = [*program(client), "broadcasting", scene.namesrv, topic]
    with ExitStack() as stack:
        both = members(scene, stack, command, tmp_path)
        sender = Sender(scene.producer(), topic)

        def all_listen() -> bool:
            """Some begin at the end of the topic, and that some time after their start."""
            new = sender.send(2)
            return all(one.said() & new for one in both)

        wait_for(all_listen, START_LIMIT, 0.3)
        wanted = sender.send(20)
        wait_for(lambda: all(wanted <= one.said() for one in both), START_LIMIT, 0.05)
