"""A small RocketMQ in memory: a name server and a broker on one port, made to misbehave.

It runs in a thread of its own. A test replaces the answer to a code with a function of its own,
which may also close the connection or say nothing.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from threading import Thread

from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.command import ONEWAY, Command
from headrace.wire.remoting.frames import Reader, command_bytes
from headrace.wire.remoting.headers.groups import Heartbeat
from headrace.wire.remoting.headers.offsets import UpdateConsumerOffset
from headrace.wire.remoting.headers.pull import PullMessage
from headrace.wire.remoting.headers.route import BrokerData, QueueData, TopicRoute
from headrace.wire.remoting.headers.send import SEND_CODES, take_send
from headrace.wire.remoting.message_ids import HostAddress, offset_id
from headrace.wire.remoting.message_queue import (
    LockRequest,
    MessageQueue,
    locked_body,
    members_body,
)
from headrace.wire.remoting.properties import take_properties
from support.remoting_bodies import RemotingMessage, message_bytes

BROKER = "broker-a"
HOST = HostAddress("127.0.0.1", 10911)
Answer = Command | bytes | None
Override = Callable[["Peer", Command], "Answer | Awaitable[Answer]"]


class Peer:
    """One connection of a client."""

    def __init__(self, fake: Fake, writer: asyncio.StreamWriter) -> None:
        self.fake = fake
        self.writer = writer
        self.heartbeat: Heartbeat | None = None
        self.codes: list[int] = []  # of its requests, in their order

    def close(self) -> None:
        self.writer.transport.abort()

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    def ask(self, code: int, ext: dict[str, str], body: bytes = b"", *, oneway: bool) -> None:
        flag = ONEWAY if oneway else 0
        self.say(command_bytes(Command(code, ext, body, opaque=77, flag=flag)))


class Fake:
    """Topics, offsets, members and locks."""

    def __init__(self, topics: dict[str, int], others: dict[str, str] | None = None) -> None:
        self.topics = dict(topics)
        self.others = others or {}
        self.messages: dict[tuple[str, int], list[RemotingMessage]] = defaultdict(list)
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.commits: list[tuple[str, int, int]] = []
        self.members: dict[str, list[str]] = {}
        self.locks: dict[MessageQueue, str] = {}
        self.min_offset = 0
        self.overrides: dict[int, Override] = {}
        self.seen: list[Command] = []
        self.answers: list[Command] = []
        self.peers: list[Peer] = []
        self._kept: set[asyncio.Task[None]] = set()
        self._arrived = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self.port = 0
        self._thread = Thread(target=self._run, daemon=True)

    # -- for tests ---------------------------------------------------------------------------

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Fake:
        self._thread.start()
        self.call(self.listen())
        return self

    def __exit__(self, *_: object) -> None:
        self.call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def call(self, work: Awaitable[None]) -> None:
        async def wrapped() -> None:
            await work

        asyncio.run_coroutine_threadsafe(wrapped(), self._loop).result(10)

    def on(self, code: int, override: Override) -> None:
        self.overrides[code] = override

    def well(self, code: int) -> None:
        self.overrides.pop(code, None)

    def count(self, code: int) -> int:
        return sum(one.code == code for one in list(self.seen))

    def put(self, topic: str, *bodies: bytes, queue: int = 0, **properties: str) -> None:
        async def work() -> None:
            for body in bodies:
                self.store(topic, queue, body, properties)

        self.call(work())

    def keep(self, task: asyncio.Task[None]) -> None:
        """Something an answer does later; the loop itself would forget it."""
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)

    def everybody(self, action: Callable[[Peer], None]) -> None:
        async def work() -> None:
            for peer in list(self.peers):
                action(peer)

        self.call(work())

    # -- the server --------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def deaf(self) -> None:
        """Close everything; listen() opens the same port again."""
        assert self._server is not None
        self._server.close()
        for peer in list(self.peers):
            peer.close()
        await asyncio.sleep(0)

    async def _stop(self) -> None:
        await self.deaf()
        tasks = [one for one in asyncio.all_tasks() if one is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer, frames = Peer(self, writer), Reader()
        self.peers.append(peer)
        tasks: set[asyncio.Task[None]] = set()
        try:
            while data := await reader.read(1 << 16):
                for command in frames.feed(data):
                    if command.is_response:
                        self.answers.append(command)
                        continue
                    self.seen.append(command)
                    peer.codes.append(command.code)
                    task = asyncio.create_task(self._answer(peer, command))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.peers.remove(peer)
            for task in tasks:
                task.cancel()
            writer.close()

    async def _answer(self, peer: Peer, command: Command) -> None:
        override = self.overrides.get(command.code)
        found: Answer | Awaitable[Answer]
        found = override(peer, command) if override else await self.normal(peer, command)
        if found is not None and not isinstance(found, Command | bytes):
            found = await found
        if isinstance(found, Command) and not command.is_oneway:
            found = command_bytes(found)
        if isinstance(found, bytes):
            peer.say(found)

    async def normal(self, peer: Peer, command: Command) -> Answer:
        if command.code in SEND_CODES:
            return self._sent(command)
        name = RequestCode(command.code).name.lower()
        handler = getattr(self, f"_{name}", None)
        if handler is None:
            return command.answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        found = handler(peer, command)
        return (await found) if asyncio.iscoroutine(found) else found

    # -- answers -----------------------------------------------------------------------------

    def _get_routeinfo_by_topic(self, peer: Peer, command: Command) -> Command:
        topic = command.ext["topic"]
        if topic not in self.topics:
            return command.answer(ResponseCode.TOPIC_NOT_EXIST, remark="no such topic")
        brokers = {BROKER: self.address, **self.others}
        route = TopicRoute(
            tuple(BrokerData("c", name, {0: one}) for name, one in brokers.items()),
            tuple(QueueData(name, self.topics[topic], self.topics[topic]) for name in brokers),
        )
        return command.answer(0, body=route.encode())

    def _heart_beat(self, peer: Peer, command: Command) -> Command:
        peer.heartbeat = Heartbeat.take(command.body)
        for group in peer.heartbeat.consumer_groups:
            self.topics.setdefault(f"%RETRY%{group.name}", 1)
            members = self.members.setdefault(group.name, [])
            if peer.heartbeat.client_id not in members:
                members.append(peer.heartbeat.client_id)
        return command.answer(0)

    def _unregister_client(self, peer: Peer, command: Command) -> Command:
        members = self.members.get(command.ext.get("consumerGroup", ""), [])
        if command.ext["clientID"] in members:
            members.remove(command.ext["clientID"])
        return command.answer(0)

    def _get_consumer_list_by_group(self, peer: Peer, command: Command) -> Command:
        return command.answer(0, body=members_body(self.members[command.ext["consumerGroup"]]))

    def _lock_batch_mq(self, peer: Peer, command: Command) -> Command:
        request = LockRequest.take(command.body)
        held = [
            queue
            for queue in request.queues
            if self.locks.setdefault(queue, request.client_id) == request.client_id
        ]
        return command.answer(0, body=locked_body(held))

    def _unlock_batch_mq(self, peer: Peer, command: Command) -> Command:
        request = LockRequest.take(command.body)
        for queue in request.queues:
            if self.locks.get(queue) == request.client_id:
                del self.locks[queue]
        return command.answer(0)

    def _query_consumer_offset(self, peer: Peer, command: Command) -> Command:
        key = command.ext["consumerGroup"], command.ext["topic"], int(command.ext["queueId"])
        if key not in self.offsets:
            return command.answer(ResponseCode.QUERY_NOT_FOUND)
        return command.answer(0, {"offset": str(self.offsets[key])})

    def _update_consumer_offset(self, peer: Peer, command: Command) -> Command:
        header = UpdateConsumerOffset.take(command.ext)
        key = header.consumer_group, header.topic, header.queue_id
        self.offsets[key] = header.commit_offset
        self.commits.append((header.topic, header.queue_id, header.commit_offset))
        return command.answer(0)

    def _get_max_offset(self, peer: Peer, command: Command) -> Command:
        key = command.ext["topic"], int(command.ext["queueId"])
        return command.answer(0, {"offset": str(len(self.messages[key]))})

    def _get_min_offset(self, peer: Peer, command: Command) -> Command:
        return command.answer(0, {"offset": str(self.min_offset)})

    def _check_client_config(self, peer: Peer, command: Command) -> Command:
        return command.answer(0)

    def _consumer_send_msg_back(self, peer: Peer, command: Command) -> Command:
        group, level = command.ext["group"], int(command.ext["delayLevel"])
        stored = self._by_physical(int(command.ext["offset"]))
        limit = int(command.ext["maxReconsumeTimes"])
        dead = level < 0 or stored.reconsume_times >= limit
        topic = f"%DLQ%{group}" if dead else f"%RETRY%{group}"
        properties = {**stored.properties}
        properties.setdefault("RETRY_TOPIC", stored.topic)
        self.store(topic, 0, stored.body, properties, stored.reconsume_times + 1)
        return command.answer(0)

    def _by_physical(self, number: int) -> RemotingMessage:
        for messages in self.messages.values():
            for one in messages:
                if one.physical_offset == number:
                    return one
        raise AssertionError(f"no message {number}")

    def _sent(self, command: Command) -> Command:
        header = take_send(command.code, command.ext)
        properties = take_properties(header.properties)
        stored = self.store(header.topic, header.queue_id, command.body, properties)
        ext = {
            "msgId": offset_id(HOST, stored.physical_offset),
            "queueId": str(stored.queue_id),
            "queueOffset": str(stored.queue_offset),
        }
        return command.answer(0, ext)

    def store(
        self,
        topic: str,
        queue: int,
        body: bytes,
        properties: dict[str, str],
        reconsume_times: int = 0,
    ) -> RemotingMessage:
        messages = self.messages[topic, queue]
        number = sum(map(len, self.messages.values()))
        stored = RemotingMessage(
            topic,
            body,
            properties,
            queue_id=queue,
            queue_offset=len(messages),
            physical_offset=number,
            store_host=HOST,
            reconsume_times=reconsume_times,
        )
        messages.append(stored)
        self._arrived.set()
        self._arrived = asyncio.Event()
        return stored

    async def _pull_message(self, peer: Peer, command: Command) -> Command:
        header = PullMessage.take(command.ext)
        messages = self.messages[header.topic, header.queue_id]
        offset = header.queue_offset
        ext = {"suggestWhichBrokerId": "0", "minOffset": str(self.min_offset)}
        ext |= {"maxOffset": str(len(messages)), "nextBeginOffset": str(offset)}
        if offset < self.min_offset or offset > len(messages):
            ext["nextBeginOffset"] = str(max(self.min_offset, 0))
            return command.answer(ResponseCode.PULL_OFFSET_MOVED, ext)
        if offset == len(messages):
            try:
                async with asyncio.timeout(header.suspend_timeout_millis / 1000):
                    while offset == len(messages):
                        await self._arrived.wait()
            except TimeoutError:
                return command.answer(ResponseCode.PULL_NOT_FOUND, ext)
        found = messages[offset : offset + header.max_msg_nums]
        ext["nextBeginOffset"] = str(offset + len(found))
        ext["maxOffset"] = str(len(messages))
        return command.answer(0, ext, b"".join(map(message_bytes, found)))
