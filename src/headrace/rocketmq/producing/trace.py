"""Message trace: what happened to each message, as messages in a topic of its own.

The format is that of the Java client, so that consoles and mqadmin show both.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from headrace.rocketmq.config import ConsumerConfig, ProducerConfig
from headrace.rocketmq.enums import ConsumeResult, LocalTransactionState
from headrace.rocketmq.errors import RocketMQError
from headrace.rocketmq.message import Message, MessageExt
from headrace.rocketmq.metrics import ProducerMetrics
from headrace.rocketmq.net.client_instance import client_id
from headrace.rocketmq.producing.producer_core import ProducerCore
from headrace.wire.remoting import properties as names
from headrace.wire.remoting.properties import take_properties

if TYPE_CHECKING:
    from headrace.rocketmq.consuming.listeners import ListenerResult
    from headrace.rocketmq.producing.send_requests import EncodedSend, SendResult

logger = logging.getLogger(__name__)

_FIELD_END, _RECORD_END = "\x01", "\x02"
_BUFFERED = 2048  # records; more are dropped rather than slow the program down
_RECORDS, _CHARACTERS = 100, 100_000  # in one message
_PAUSE = 0.5
_REGION = "DefaultRegion"
_NORMAL, _HALF, _DELAYED = 0, 1, 3
_SUCCESS, _EXCEPTION, _NO_RESULT, _FAILED = 0, 2, 3, 4


class MessageTrace:
    """Collects the records of one client and sends them in the background."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: ProducerConfig | ConsumerConfig,
        group: str,
        kind: str,
    ) -> None:
        self._group = group
        self._topic = config.trace_topic
        self._records: deque[tuple[str, tuple[str, ...]]] = deque(maxlen=_BUFFERED)
        own = ProducerConfig(
            f"_INNER_TRACE_PRODUCER-{group}"[:100] + f"-{kind}",
            config.namesrv_addr,
            access_key=config.access_key,
            secret_key=config.secret_key,
            tls=config.tls,
            send_timeout=5000,
        )
        self._core = ProducerCore(loop, own, client_id(), ProducerMetrics())

    async def start(self) -> None:
        await self._core.start()
        self._core.instance.spawn(self._core.instance.every(_PAUSE * 1000, self.flush))

    async def stop(self) -> None:
        await self.flush()
        await self._core.stop()

    async def flush(self) -> None:
        """Send what was collected; a batch that is not taken is tried again later."""
        try:
            await self._flush()
        except RocketMQError as error:
            if self._core.instance.problems.set("trace", str(error)):
                logger.warning("message trace of %s: %s", self._group, error)
        else:
            self._core.instance.problems.clear("trace")

    async def _flush(self) -> None:
        while self._records:
            batch = [self._records.popleft() for _ in range(min(_RECORDS, len(self._records)))]
            while len(batch) > 1 and sum(len(text) for text, _ in batch) > _CHARACTERS:
                self._records.appendleft(batch.pop())
            keys = dict.fromkeys(key for _, keys in batch for key in keys if key)
            body = "".join(text for text, _ in batch).encode()
            sent = self._core.encode(Message(self._topic, body, keys=tuple(keys)))
            try:
                known = await self._core.find_topic(sent.topic)
                await self._core.send(self._core.attempts(sent, known, None))
            except BaseException:
                self._records.extendleft(reversed(batch))
                raise

    def _add(self, keys: Iterable[str], *fields: object) -> None:
        text = _FIELD_END.join(map(str, fields)) + _RECORD_END
        self._records.append((text, tuple(keys)))

    # -- any thread --------------------------------------------------------------------------

    def sent(self, sent: EncodedSend, result: SendResult | None, host: str, millis: float) -> None:
        """A send has ended; without a result it has failed."""
        found = take_properties(sent.ext["i"])
        keys = found.get(names.KEYS, "")
        timed = (names.DELAY, names.TIMER_DELIVER_MS, names.TIMER_DELAY_MS)
        kind = _DELAYED if any(one in found for one in timed) else _NORMAL
        if names.TRANSACTION_PREPARED in found:
            kind = _HALF
        self._add(
            [sent.msg_id, *keys.split()],
            *("Pub", _now() - int(millis), _REGION, self._group, sent.topic, sent.msg_id),
            *(found.get(names.TAGS, ""), keys, host, len(sent.body), int(millis), kind),
            *(result.offset_msg_id if result else "", _text(result is not None)),
        )

    def consuming(self, messages: Sequence[MessageExt]) -> None:
        """A listener is about to get messages."""
        for message in _traced(messages):
            self._add(
                [message.msg_id, *message.keys],
                *("SubBefore", _now(), _region(message), self._group, _try_of(messages)),
                *(message.msg_id, message.reconsume_times, " ".join(message.keys)),
            )

    def consumed(
        self, messages: Sequence[MessageExt], outcome: ListenerResult, millis: float
    ) -> None:
        """A listener has returned."""
        fine = outcome.result in (ConsumeResult.SUCCESS, ConsumeResult.COMMIT)
        code = _SUCCESS if fine else _FAILED
        if outcome.error is not None:
            code = _NO_RESULT if outcome.is_wrong else _EXCEPTION
        for message in _traced(messages):
            self._add(
                [message.msg_id, *message.keys],
                *("SubAfter", _try_of(messages), message.msg_id, int(millis), _text(fine)),
                *(" ".join(message.keys), code, _now(), self._group),
            )

    def transaction_ended(
        self, sent: EncodedSend, result: SendResult, state: LocalTransactionState, host: str
    ) -> None:
        found = take_properties(sent.ext["i"])
        keys = found.get(names.KEYS, "")
        self._add(
            [sent.msg_id, *keys.split()],
            *("EndTransaction", _now(), _REGION, self._group, sent.topic, sent.msg_id),
            *(found.get(names.TAGS, ""), keys, host, 2, result.transaction_id),
            *(state.name if state is not LocalTransactionState.UNKNOWN else "UNKNOW", "false"),
        )


def _now() -> int:
    return time.time_ns() // 1_000_000


def _text(value: bool) -> str:
    return "true" if value else "false"


def _region(message: MessageExt) -> str:
    return message.properties.get(names.MSG_REGION, _REGION)


def _traced(messages: Sequence[MessageExt]) -> Iterable[MessageExt]:
    return (one for one in messages if one.properties.get(names.TRACE_ON) != "false")


def _try_of(messages: Sequence[MessageExt]) -> str:
    """The same for both records of a call, another one for each try."""
    first = messages[0]
    return f"{first.offset_msg_id}-{first.reconsume_times}"
