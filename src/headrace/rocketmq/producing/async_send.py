"""One send without a waiting thread."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future

from headrace.rocketmq.errors import RocketMQError
from headrace.rocketmq.producing.producer_core import ProducerCore
from headrace.rocketmq.producing.send import SendAttempts
from headrace.rocketmq.producing.send_requests import SendResult
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.message_queue import MessageQueue


class AsyncSend:
    """One send of send_async(): the first try straight to the socket, the others on the loop."""

    def __init__(
        self, core: ProducerCore, attempts: SendAttempts, future: Future[SendResult]
    ) -> None:
        self._core = core
        self._attempts = attempts
        self._future = future
        self._address = ""

    def begin(self) -> None:
        attempts, core = self._attempts, self._core
        try:
            queue, left = attempts.next(time.monotonic())
            self._address = core.address(queue)
            if not core.instance.remoting.ask_lazily(
                self._address, attempts.message.command(queue), self._answered, left
            ):
                self._connect_and_send(queue, left)
        except RocketMQError as error:
            attempts.failed(error, time.monotonic())
            self._retry()

    def _connect_and_send(self, queue: MessageQueue, left: float) -> None:
        remoting = self._core.instance.remoting
        connection = remoting.connection_now(self._address, left)
        connection.call(self._attempts.message.command(queue), self._answered, left, lazy=True)

    def _answered(self, found: Command | RocketMQError) -> None:
        """In the loop's thread."""
        now = time.monotonic()
        result = None
        if isinstance(found, Command):
            try:
                result = self._attempts.answered(found, self._address, now)
            except Exception as error:
                self._future.set_exception(error)
                return
        else:
            self._attempts.failed(found, now)
        if result is None:
            self._retry()
            return
        self._core.succeeded(self._attempts, result, self._address, now)
        self._future.set_result(result)

    def _retry(self) -> None:
        core = self._core

        async def again() -> SendResult:
            return await core.send(self._attempts)

        task = asyncio.run_coroutine_threadsafe(again(), core.instance.remoting.loop)
        task.add_done_callback(self._retried)

    def _retried(self, task: Future[SendResult]) -> None:
        if task.cancelled():
            self._future.set_exception(RocketMQError("the producer was shut down"))
        elif (error := task.exception()) is not None:
            self._future.set_exception(error)
        else:
            self._future.set_result(task.result())
