"""Messages as requests, and answers as results. No I/O."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.rocketmq.config import ProducerConfig
from headrace.rocketmq.enums import SendStatus
from headrace.rocketmq.errors import BrokerError, InvalidMessageError
from headrace.rocketmq.message import Message, MessageExt
from headrace.wire.remoting import properties as names
from headrace.wire.remoting.codes import RequestCode, ResponseCode, SysFlag
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.compression import deflate
from headrace.wire.remoting.headers import send
from headrace.wire.remoting.message import BatchElement, batch_bytes
from headrace.wire.remoting.message_queue import MessageQueue
from headrace.wire.remoting.names import (
    in_namespace,
    is_retry_topic,
    reply_topic,
    without_namespace,
)
from headrace.wire.remoting.properties import properties_text

REPLY = "reply"
_STATUS = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}


@dataclass(frozen=True, slots=True)
class SendResult:
    """Where a message is now. A batch has the ids of its messages, separated by commas."""

    status: SendStatus
    msg_id: str
    """The id the producer gave."""
    queue: MessageQueue
    queue_offset: int
    offset_msg_id: str = ""
    """The id the broker gave."""
    transaction_id: str = ""
    recall_handle: str = ""
    """For `recall()`, when the message has `deliver_at` or `delay`."""


@dataclass(frozen=True, slots=True)
class EncodedSend:
    """One or more messages, encoded; the queue is filled in for each try."""

    topic: str
    code: int
    body: bytes
    msg_id: str
    ext: dict[str, str]
    count: int = 1
    namespace: str = ""

    def command(self, queue: MessageQueue) -> Command:
        return Command(
            self.code,
            {**self.ext, "e": str(queue.queue_id), "n": queue.broker_name},
            self.body,
        )


def encode_message(
    config: ProducerConfig,
    message: Message,
    unique: str,
    *,
    transaction: bool = False,
    extra: Mapping[str, str] | None = None,
) -> EncodedSend:
    """A single message; large bodies are compressed. ``extra``: properties of RocketMQ's own."""
    body, flags = message.body, 0
    check_size(config, len(body))
    if config.compress_over and len(body) > config.compress_over:
        smaller, bits = deflate(body, config.compress_level)
        if len(smaller) < len(body):
            body, flags = smaller, int(bits)
    properties = {**message.wire_properties(), **(extra or {})}
    properties[names.UNIQ_KEY] = unique
    is_reply = properties.get(names.MESSAGE_TYPE) == REPLY
    if transaction:
        flags |= int(SysFlag.TRANSACTION_PREPARED)
        if message.is_delayed:
            raise InvalidMessageError("a transactional message cannot be delayed")
        properties[names.TRANSACTION_PREPARED] = "true"
        properties[names.PRODUCER_GROUP] = config.producer_group
    namespace = "" if is_reply else config.namespace
    topic = in_namespace(namespace, message.topic)
    if namespace:
        properties[names.INSTANCE_ID] = namespace
    ext = _ext(config, topic, flags, message.flag, properties)
    code = RequestCode.SEND_REPLY_MESSAGE_V2 if is_reply else RequestCode.SEND_MESSAGE_V2
    return EncodedSend(topic, code, body, unique, ext, namespace=namespace)


def encode_reply(
    config: ProducerConfig,
    request: MessageExt,
    body: bytes,
    properties: Mapping[str, str] | None,
    unique: str,
) -> EncodedSend:
    """The answer to a message that another producer has sent with request()."""
    known = {
        name: request.properties.get(name, "")
        for name in (names.CORRELATION_ID, names.REPLY_TO_CLIENT, names.TTL)
    }
    cluster = request.properties.get(names.CLUSTER)
    if not cluster or not known[names.CORRELATION_ID]:
        raise InvalidMessageError(f"message {request.msg_id} was not sent with request()")
    message = Message(reply_topic(cluster), body, properties=properties or {})
    return encode_message(config, message, unique, extra={**known, names.MESSAGE_TYPE: REPLY})


def encode_batch(
    config: ProducerConfig, messages: Sequence[Message], uniques: Sequence[str]
) -> EncodedSend:
    """Several messages of one topic, stored one after the other in one queue."""
    _check_batch(messages)
    elements = []
    for message, unique in zip(messages, uniques, strict=True):
        properties = {**message.wire_properties(), names.UNIQ_KEY: unique}
        if config.namespace:
            properties[names.INSTANCE_ID] = config.namespace
        text = properties_text(properties).encode()
        elements.append(BatchElement(message.flag, message.body, text))
    body = batch_bytes(elements)
    check_size(config, len(body))
    wait = {names.WAIT: "true" if messages[0].wait_store_ok else "false"}
    topic = in_namespace(config.namespace, messages[0].topic)
    ext = _ext(config, topic, 0, 0, wait)
    ext["m"] = "true"
    return EncodedSend(
        topic,
        RequestCode.SEND_BATCH_MESSAGE,
        body,
        ",".join(uniques),
        ext,
        len(messages),
        config.namespace,
    )


def _check_batch(messages: Sequence[Message]) -> None:
    if not messages:
        raise InvalidMessageError("a batch is not empty")
    first = messages[0]
    for message in messages:
        if message.topic != first.topic or message.wait_store_ok != first.wait_store_ok:
            raise InvalidMessageError("messages of a batch have one topic and one wait_store_ok")
        if message.is_delayed:
            raise InvalidMessageError("messages of a batch cannot be delayed; send them singly")
        if is_retry_topic(message.topic):
            raise InvalidMessageError("retry topics take no batches")


def check_size(config: ProducerConfig, size: int) -> None:
    if size > config.max_message_size:
        raise InvalidMessageError(
            f"{size} bytes are more than max_message_size, {config.max_message_size}; brokers "
            "have a limit of their own (maxMessageSize, 4 MiB by default)"
        )


def _ext(
    config: ProducerConfig, topic: str, sys_flag: int, flag: int, properties: dict[str, str]
) -> dict[str, str]:
    """The short names of the second version, without the queue."""
    return {
        "a": config.producer_group,
        "b": topic,
        "c": config.create_topic_key,
        "d": str(config.default_topic_queue_nums),
        "f": str(sys_flag),
        "g": str(time.time_ns() // 1_000_000),
        "h": str(flag),
        "i": properties_text(properties),
        "j": "0",
        "k": "false",
        "m": "false",
    }


def result_of(sent: EncodedSend, queue: MessageQueue, answer: Command, address: str) -> SendResult:
    """BrokerError when the message was not stored."""
    status = _STATUS.get(answer.code)  # type: ignore[call-overload]  # an int equals its member
    if status is None:
        raise BrokerError(answer.code, answer.remark or "", address)
    found = send.SendResponse.take(answer.ext)
    return SendResult(
        status,
        sent.msg_id,
        MessageQueue(
            without_namespace(sent.namespace, sent.topic), queue.broker_name, found.queue_id
        ),
        found.queue_offset,
        found.msg_id,
        found.transaction_id or sent.msg_id,
        found.recall_handle or "",
    )


def broker_of_handle(handle: str) -> str:
    """The broker that keeps a timed message; its name is in the handle."""
    try:
        version, _, broker, *_ = base64.urlsafe_b64decode(handle).decode().split(" ")
    except (ValueError, TypeError):
        version, broker = "", ""
    if version != "v1":
        raise InvalidMessageError(f"{handle!r} is not the recall_handle of a SendResult")
    return broker
