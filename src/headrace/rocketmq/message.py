"""`Message` and `MessageExt`, and the decoding of received ones."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Self

from headrace.errors import BrokerError, MalformedError
from headrace.rocketmq.errors import InvalidMessageError
from headrace.rocketmq.net.checks import send_topic_problem
from headrace.wire.remoting import properties as names
from headrace.wire.remoting.codes import LEVELS
from headrace.wire.remoting.compression import inflate
from headrace.wire.remoting.message import take_parts
from headrace.wire.remoting.message_ids import NOWHERE, HostAddress, offset_id
from headrace.wire.remoting.message_queue import MessageQueue
from headrace.wire.remoting.names import without_namespace

_SEPARATORS = ("\x01", "\x02")
_MAX_LEVEL = len(LEVELS)


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent. Checked when it is made, so that a mistake shows where it was made."""

    topic: str
    body: bytes
    tags: str = ""
    keys: str | Sequence[str] = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    delay_level: int = 0
    flag: int = 0
    sharding_key: str = ""
    wait_store_ok: bool = True
    deliver_at: datetime | None = None
    """Deliver at this time, to the millisecond; a time without a zone is local."""
    delay: timedelta | None = None
    """Deliver after this time, as measured by the broker."""

    def __post_init__(self) -> None:
        problem = send_topic_problem(self.topic)
        if problem:
            raise InvalidMessageError(problem)
        if isinstance(self.body, str):
            raise InvalidMessageError("body is a text; encode it: body.encode()")
        if not isinstance(self.body, bytes | bytearray | memoryview):
            raise InvalidMessageError(f"body is {self.body!r}; bytes are needed")
        object.__setattr__(self, "body", bytes(self.body))
        if not self.body:
            raise InvalidMessageError("body is empty; RocketMQ takes only bodies of 1 byte or more")
        if not isinstance(self.keys, str):
            object.__setattr__(self, "keys", tuple(self.keys))
        if not 0 <= self.delay_level <= _MAX_LEVEL:
            raise InvalidMessageError(
                f"delay_level is {self.delay_level}; allowed: 0 (none) to {_MAX_LEVEL}"
            )
        self._check_timer()
        _check_words("keys", self.key_list)
        for name, value in (("tags", self.tags), ("sharding_key", self.sharding_key)):
            _check_text(name, value)
        for name, value in self.properties.items():
            _check_property(name, value)
        size = sum(len(n.encode()) + len(v.encode()) + 2 for n, v in self.properties.items())
        if size > names.PROPERTIES_MAX:
            raise InvalidMessageError(
                f"properties take {size} bytes; at most {names.PROPERTIES_MAX} are allowed"
            )

    def _check_timer(self) -> None:
        if not isinstance(self.deliver_at, datetime | None):
            raise InvalidMessageError(f"deliver_at is {self.deliver_at!r}; a datetime is needed")
        if not isinstance(self.delay, timedelta | None):
            raise InvalidMessageError(f"delay is {self.delay!r}; a timedelta is needed")
        if self.delay is not None and self.delay < timedelta(milliseconds=1):
            raise InvalidMessageError(f"delay is {self.delay}; at least 1 ms is needed")
        if bool(self.delay_level) + (self.deliver_at is not None) + (self.delay is not None) > 1:
            raise InvalidMessageError("give one of delay_level, deliver_at and delay")

    @property
    def is_delayed(self) -> bool:
        return bool(self.delay_level) or self.deliver_at is not None or self.delay is not None

    @property
    def key_list(self) -> tuple[str, ...]:
        return tuple(self.keys.split() if isinstance(self.keys, str) else self.keys)

    def wire_properties(self) -> dict[str, str]:
        """Everything that travels as a property."""
        found = dict(self.properties)
        keys = " ".join(self.key_list)
        for name, value in (
            (names.KEYS, keys),
            (names.TAGS, self.tags),
            (names.SHARDING_KEY, self.sharding_key),
        ):
            if value:
                found[name] = value
        if self.delay_level:
            found[names.DELAY] = str(self.delay_level)
        if self.deliver_at is not None:
            found[names.TIMER_DELIVER_MS] = str(round(self.deliver_at.timestamp() * 1000))
        if self.delay is not None:
            found[names.TIMER_DELAY_MS] = str(self.delay // timedelta(milliseconds=1))
        found[names.WAIT] = "true" if self.wait_store_ok else "false"
        return found


@dataclass(slots=True)
class MessageExt:
    """What is received: a message with its place and its history."""

    topic: str
    body: bytes
    properties: dict[str, str]
    broker_name: str
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0
    born_host: HostAddress = NOWHERE
    store_timestamp: int = 0
    store_host: HostAddress = NOWHERE
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    store_size: int = 0
    body_error: str = ""
    """Why ``body`` is still compressed; listeners are not called with such a message."""

    @property
    def offset_msg_id(self) -> str:
        """The id the broker gave; another one after each retry."""
        return offset_id(self.store_host, self.commit_log_offset)

    @property
    def msg_id(self) -> str:
        """The id the producer gave; brokers' ids change when a message is retried."""
        return self.properties.get(names.UNIQ_KEY) or self.offset_msg_id

    @property
    def tags(self) -> str:
        return self.properties.get(names.TAGS, "")

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.properties.get(names.KEYS, "").split())

    @property
    def queue(self) -> MessageQueue:
        return MessageQueue(self.topic, self.broker_name, self.queue_id)

    def get_property(self, name: str, default: str | None = None) -> str | None:
        return self.properties.get(name, default)

    def user_properties(self) -> dict[str, str]:
        """Properties without those of RocketMQ itself."""
        return {
            name: value for name, value in self.properties.items() if name not in names.RESERVED
        }

    def restore_topic(self, group_retry_topic: str, namespace: str = "") -> Self:
        """A retried message shows the topic it was first sent to, without the namespace."""
        origin = self.properties.get(names.RETRY_TOPIC)
        if origin and self.topic == group_retry_topic:
            self.topic = origin
        if namespace:
            self.topic = without_namespace(namespace, self.topic)
        return self


def _check_words(name: str, words: Iterable[str]) -> None:
    for word in words:
        _check_text(name, word)
        if not word or word.split() != [word]:
            raise InvalidMessageError(f"{name}: {word!r} is empty or holds a blank")


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidMessageError(f"{name} is {value!r}; a text is needed")
    if any(sign in value for sign in _SEPARATORS):
        raise InvalidMessageError(f"{name}: {value!r} holds U+0001 or U+0002")


def _check_property(name: str, value: str) -> None:
    _check_text("property name", name)
    _check_text(f"property {name!r}", value)
    if not name or not value:
        raise InvalidMessageError(f"property {name!r} = {value!r}: neither may be empty")
    if name in names.RESERVED:
        raise InvalidMessageError(
            f"property {name!r} belongs to RocketMQ; use tags=, keys= and so on, or another name"
        )


logger = logging.getLogger(__name__)

_COMPRESSED = 1


def messages_in(data: bytes, broker_name: str) -> Iterator[MessageExt]:
    """One after the other; a body that cannot be inflated stays as it is, with `body_error`."""
    for one in take_parts(data):
        message = MessageExt(
            one[0], one[1], one[2], broker_name, one[3], one[4], one[5], one[6], one[7], one[8],
            one[9], one[10], one[11], one[12], one[13], one[14],
        )  # fmt: skip
        if message.sys_flag & _COMPRESSED:
            inflate_body(message)
        yield message


def message_in(data: bytes, broker_name: str) -> MessageExt:
    """The only message in ``data``."""
    found = list(messages_in(data, broker_name))
    if len(found) != 1:
        raise MalformedError(f"{len(found)} messages instead of one")
    return found[0]


def inflate_body(message: MessageExt) -> None:
    """Decompress the body if it is compressed; `body_error` when that fails."""
    try:
        message.body = inflate(message.body, message.sys_flag)
    except BrokerError as error:
        message.body_error = f"message {message.msg_id} of {message.topic}: {error}"
        logger.error("%s", message.body_error)
