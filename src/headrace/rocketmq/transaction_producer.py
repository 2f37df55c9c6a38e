"""Messages that appear only when a local transaction has succeeded."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from headrace.rocketmq.config import ProducerConfig
from headrace.rocketmq.consuming.runners import ThreadPool
from headrace.rocketmq.enums import LocalTransactionState, SendStatus
from headrace.rocketmq.errors import ListenerError, RocketMQError
from headrace.rocketmq.message import Message, MessageExt, message_in
from headrace.rocketmq.net.connection import Connection
from headrace.rocketmq.producer import Producer
from headrace.rocketmq.producing.producer_core import ProducerCore
from headrace.rocketmq.producing.send_requests import SendResult
from headrace.wire.remoting.codes import RequestCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.send import (
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    CheckTransaction,
    EndTransaction,
)
from headrace.wire.remoting.message_ids import take_offset_id
from headrace.wire.remoting.names import in_namespace, without_namespace

logger = logging.getLogger(__name__)

_WORDS = {
    LocalTransactionState.COMMIT_MESSAGE: COMMIT,
    LocalTransactionState.ROLLBACK_MESSAGE: ROLLBACK,
    LocalTransactionState.UNKNOWN: UNKNOWN,
}


class TransactionListener(ABC):
    """The local side of a transaction."""

    @abstractmethod
    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        """The half message is stored: do the local work. An exception means UNKNOWN."""

    @abstractmethod
    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        """The broker has no result and checks, perhaps after a restart of this program."""


@dataclass(frozen=True, slots=True)
class TransactionSendResult:
    """The half message, and what the local transaction said."""

    send_result: SendResult
    local_state: LocalTransactionState


class TransactionProducer(Producer):
    """Half messages with check-back."""

    def __init__(self, config: ProducerConfig, listener: TransactionListener) -> None:
        super().__init__(config)
        for name in ("execute_local_transaction", "check_local_transaction"):
            if not callable(getattr(listener, name, None)):
                raise ListenerError(f"the transaction listener has no method {name}()")
        self._listener = listener
        self._checkers = ThreadPool(
            f"rocketmq-{config.producer_group}-check", 1, config.check_threads
        )

    async def _open(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        on_fork = await super()._open(loop)
        assert self._core is not None
        self._core.instance.handlers[RequestCode.CHECK_TRANSACTION_STATE] = self._check_requested
        return on_fork

    def _stop_threads(self) -> None:
        super()._stop_threads()
        self._checkers.stop(self.config.send_timeout / 1000)

    def send_in_transaction(self, message: Message, arg: object = None) -> TransactionSendResult:
        """Store a half message, run the local transaction, report the outcome to the broker."""
        core = self._running()
        sent = core.encode(message, transaction=True)
        known = self._topic(core, sent.topic)
        result = core.send_blocking(core.attempts(sent, known, None))
        state, reason = LocalTransactionState.ROLLBACK_MESSAGE, f"stored, but {result.status}"
        if result.status is SendStatus.SEND_OK:
            state, reason = self._decided(
                lambda: self._listener.execute_local_transaction(message, arg)
            )
        self._end(core, result, state, reason)
        if core.trace is not None:
            core.trace.transaction_ended(sent, result, state, core.address(result.queue))
        return TransactionSendResult(result, state)

    def _decided(self, decide: Callable[[], object]) -> tuple[LocalTransactionState, str]:
        try:
            found = decide()
        except Exception as error:
            logger.exception("the transaction listener failed; the broker will check later")
            return LocalTransactionState.UNKNOWN, repr(error)
        try:
            return LocalTransactionState(found), ""  # type: ignore[arg-type]  # found out here
        except ValueError:
            logger.error(
                "the transaction listener returned %r, no LocalTransactionState; the broker will "
                "check later",
                found,
            )
            return LocalTransactionState.UNKNOWN, f"returned {found!r}"

    def _end(
        self, core: ProducerCore, result: SendResult, state: LocalTransactionState, reason: str
    ) -> None:
        """One-way: if it is lost, the broker asks."""
        header = EndTransaction(
            producer_group=core.config.producer_group,
            tran_state_table_offset=result.queue_offset,
            commit_log_offset=take_offset_id(result.offset_msg_id)[1],
            commit_or_rollback=_WORDS[state],
            msg_id=result.msg_id,
            transaction_id=result.transaction_id,
            topic=in_namespace(core.config.namespace, result.queue.topic),
            broker_name=result.queue.broker_name,
        )
        command = header.command(reason or None)
        try:
            address = core.address(result.queue)
            core.instance.remoting.connection_now(address, core.seconds(None)).post(command)
        except RocketMQError as error:
            logger.warning(
                "the outcome of a transaction was not sent, the broker will check it: %s", error
            )

    async def _check_requested(self, connection: Connection, command: Command) -> None:
        """The broker wants to know; the answer comes from a thread, as it may take long."""
        header = CheckTransaction.take(command.ext)
        message = message_in(command.body, header.broker_name or "")
        self.metrics.add("checks")
        self._checkers.submit(lambda: self._check(connection, header, message))

    def _check(self, connection: Connection, asked: CheckTransaction, message: MessageExt) -> None:
        topic = message.topic
        message.topic = without_namespace(self.config.namespace, topic)
        state, reason = self._decided(lambda: self._listener.check_local_transaction(message))
        header = EndTransaction(
            producer_group=in_namespace(self.config.namespace, self.config.producer_group),
            tran_state_table_offset=asked.tran_state_table_offset,
            commit_log_offset=asked.commit_log_offset,
            commit_or_rollback=_WORDS[state],
            from_transaction_check=True,
            msg_id=message.msg_id,
            transaction_id=asked.transaction_id,
            topic=topic,
            broker_name=asked.broker_name,
        )
        try:
            connection.post(header.command(reason or None))
        except RocketMQError as error:
            logger.warning(
                "the result of a transaction was not sent, the broker will check later: %s", error
            )
