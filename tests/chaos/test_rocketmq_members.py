"""A thousand members of a group that come and go: every queue has an owner nearly all the time."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import defaultdict

import pytest

from headrace.rocketmq import AverageAllocateStrategy
from headrace.testing import run_broker
from headrace.wire.remoting.codes import RequestCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.frames import Reader, command_bytes
from headrace.wire.remoting.headers.admin import CreateTopic
from headrace.wire.remoting.headers.groups import (
    ConsumerGroup,
    GetConsumerList,
    Heartbeat,
    Subscription,
    UnregisterClient,
)
from headrace.wire.remoting.message_queue import MessageQueue, take_members
from support.raw_remoting import Link

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

TOPIC, GROUP, QUEUES = "orders", "workers", 32
ROUNDS, AT_ONCE = 100, 10
REBALANCE_SECONDS = 20.0
ALL_QUEUES = [MessageQueue(TOPIC, "headrace", number) for number in range(QUEUES)]


class Board:
    """Who owns what, as the members see it, and how long queues had no owner."""

    def __init__(self) -> None:
        self.owners: dict[int, set[str]] = defaultdict(set)
        self.since: dict[int, float] = {}
        self.longest = 0.0

    def claim(self, member: str, queues: set[int]) -> None:
        now = time.monotonic()
        for queue in range(QUEUES):
            owners = self.owners[queue]
            if queue in queues:
                owners.add(member)
            else:
                owners.discard(member)
            if owners and queue in self.since:
                self.longest = max(self.longest, now - self.since.pop(queue))
            elif not owners:
                self.since.setdefault(queue, now)


class Member:
    """The least that a member does: beats once, and shares the queues again when it is told."""

    def __init__(self, name: str, board: Board) -> None:
        self.name = name
        self._board = board
        self._reader = Reader()
        self._task: asyncio.Task[None] | None = None

    async def join(self, port: int) -> None:
        self._in, self._out = await asyncio.open_connection("127.0.0.1", port)
        group = ConsumerGroup(GROUP, (Subscription(TOPIC, "*"),))
        beat = Heartbeat(self.name, (), (group,)).encode()
        self._send(RequestCode.HEART_BEAT, 1, body=beat)
        self._task = asyncio.create_task(self._listen())

    def _send(
        self, code: int, opaque: int, ext: dict[str, str] | None = None, body: bytes = b""
    ) -> None:
        self._out.write(command_bytes(Command(code, ext or {}, body, opaque=opaque)))

    async def _listen(self) -> None:
        while data := await self._in.read(1 << 16):
            for command in self._reader.feed(data):
                self._take(command)

    def _take(self, command: Command) -> None:
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED and not command.is_response:
            self._send(GetConsumerList.CODE, 2, GetConsumerList(GROUP).ext())
        elif command.is_response and command.opaque == 2 and command.code == 0:
            members = take_members(command.body)
            mine = AverageAllocateStrategy().allocate(GROUP, self.name, ALL_QUEUES, members)
            self._board.claim(self.name, {queue.queue_id for queue in mine})

    async def leave(self, *, politely: bool) -> None:
        self._board.claim(self.name, set())
        if politely:
            ext = UnregisterClient(self.name, None, GROUP).ext()
            self._send(UnregisterClient.CODE, 3, ext)
            await self._out.drain()
        self._out.close()
        assert self._task is not None
        await self._task


async def churn(port: int, board: Board) -> None:
    """Ten come, then the ten of before go, every other time without a word."""
    before: list[Member] = []
    for number in range(ROUNDS):
        coming = [Member(f"m-{number:03}-{one}", board) for one in range(AT_ONCE)]
        await asyncio.gather(*(one.join(port) for one in coming))
        await settled(board, {one.name for one in coming})
        await asyncio.gather(*(one.leave(politely=bool(number % 2)) for one in before))
        before = coming
    await settled(board, {one.name for one in before}, alone=True)
    await asyncio.gather(*(one.leave(politely=True) for one in before))


async def settled(board: Board, names: set[str], *, alone: bool = False) -> None:
    """Until the new ones own something, and every queue somebody."""

    def is_so() -> bool:
        held = [owners for owners in board.owners.values() if owners]
        owners = set().union(*held) if held else set()
        exact = not alone or (owners == names and all(len(one) == 1 for one in held))
        return len(held) == QUEUES and names <= owners and exact

    while not is_so():  # noqa: ASYNC110 - it changes with answers from the broker
        await asyncio.sleep(0.005)


def test_a_thousand_members_come_and_go_within_a_minute() -> None:
    board = Board()
    with run_broker(sync=False) as broker:
        port = broker.ports["remoting"]
        with Link(f"127.0.0.1:{port}") as link:
            assert link.ask(CreateTopic(TOPIC, QUEUES, QUEUES)).code == 0
        began = time.monotonic()
        asyncio.run(asyncio.wait_for(churn(port, board), 120))
        seconds = time.monotonic() - began

    sys.stdout.write(f"\n{ROUNDS * AT_ONCE} members in {seconds:.1f} s, "
                     f"no owner for {board.longest * 1000:.0f} ms\n")  # fmt: skip
    assert seconds < 60
    assert board.longest < REBALANCE_SECONDS
