"""`ConsumerConfig` and `ProducerConfig`: checked when they are made, never changed afterwards."""

from __future__ import annotations

import ssl
import time
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from headrace.rocketmq.consuming.allocation import AllocateStrategy, strategy_of
from headrace.rocketmq.enums import (
    AllocateQueueStrategy,
    ConsumeFromWhere,
    MessageModel,
    OffsetFileFormat,
)
from headrace.rocketmq.errors import ConfigurationError
from headrace.rocketmq.net import checks
from headrace.wire.remoting.message_queue import MessageQueue
from headrace.wire.remoting.names import TRACE_TOPIC

_HALF_AN_HOUR = 30 * 60 * 1000
THREAD_MIN, THREAD_MAX = 20, 64
_STAMP = "%Y%m%d%H%M%S"


def _number(default: int, low: int, high: int) -> Any:  # noqa: ANN401 - as dataclasses.field
    return field(default=default, metadata={"range": (low, high)})


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClientConfig:
    """What producers and consumers have in common."""

    instance_name: str = ""
    """Part of the client id; empty = unique, and DEFAULT for broadcasting consumers."""
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    tls: bool | ssl.SSLContext = False
    """True = with the authorities that this machine trusts; or your own context."""
    namespace: str = ""
    """Topics and groups are those of this namespace: `namespace%name` in the broker."""
    enable_msg_trace: bool = False
    """Record what happens to each message in `trace_topic`."""
    trace_topic: str = TRACE_TOPIC
    request_timeout: int = _number(3000, 100, 600_000)
    heartbeat_interval: int = _number(30_000, 100, 110_000)
    poll_route_interval: int = _number(30_000, 100, 3_600_000)

    def _check(self) -> None:
        for one in fields(self):
            if one.type == "bool":
                checks.check_bool(one.name, getattr(self, one.name))
            elif "range" in one.metadata:
                checks.check_int(one.name, getattr(self, one.name), *one.metadata["range"])
        checks.check_keys(self.access_key, self.secret_key)
        for name in ("namespace", "trace_topic"):
            checks.check_name(name, getattr(self, name))
        checks.tls_context(self.tls)

    @property
    def credentials(self) -> tuple[str, str] | None:
        return (self.access_key, self.secret_key) if self.access_key else None


@dataclass(frozen=True, slots=True)
class ConsumerConfig(_ClientConfig):
    """Settings of every kind of consumer; times are milliseconds unless the name says more."""

    consumer_group: str
    namesrv_addr: str
    message_model: MessageModel | str = MessageModel.CLUSTERING
    _: KW_ONLY
    consume_thread_min: int = _number(THREAD_MIN, 1, 1000)
    consume_thread_max: int = _number(THREAD_MAX, 1, 1000)
    pull_batch_size: int = _number(32, 1, 1024)
    pull_interval: int = _number(0, 0, 65_535)
    consume_timeout: int = _number(15, 1, 7 * 24 * 60)
    """Minutes until a message that is still being consumed is sent back (concurrent)."""
    max_reconsume_times: int = _number(16, -1, 1_000_000)
    consume_from_where: ConsumeFromWhere | str = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    consume_timestamp: int | str | datetime = 0
    """Milliseconds since 1970, a datetime, or yyyyMMddHHmmss; 0 = half an hour ago."""
    allocate_queue_strategy: AllocateQueueStrategy | AllocateStrategy | str = (
        AllocateQueueStrategy.AVERAGE
    )
    allocate_queues: Sequence[MessageQueue] = ()
    """The queues of this member, for the strategy CONFIGURATION."""
    machine_rooms: Sequence[str] = ()
    """For the strategy MACHINE_ROOM: queues of brokers named `room@name` in these rooms."""
    persist_interval: int = _number(5000, 10, 3_600_000)
    persist_batch_size: int = _number(10, 1, 10_000)
    offset_store_path: str = "~/.rocketmq/offsets"
    offset_file_format: OffsetFileFormat | str = OffsetFileFormat.JSON
    max_cache_size: int = _number(10_000, 1, 10_000_000)
    enable_auto_recovery: bool = True
    max_retry_times: int = _number(3, 0, 100)
    orderly_max_reconsume_times: int = _number(16, -1, 1_000_000)
    orderly_consume_timeout: int = _number(30, 1, 86_400)
    """Seconds until a listener that is still busy is reported (orderly)."""
    orderly_suspend_current_queue_time_millis: int = 1000
    enable_auto_commit: bool = True
    consume_message_batch_max_size: int = _number(1, 1, 1024)
    pull_threshold_for_queue: int = _number(1000, 1, 65_535)
    pull_threshold_size_for_queue: int = _number(100, 1, 1024)
    """MiB of message bodies."""
    consume_concurrently_max_span: int = _number(2000, 1, 65_535)
    max_subscriptions: int = _number(1000, 1, 1_000_000)
    pull_suspend_timeout: int = _number(15_000, 100, 120_000)
    rebalance_interval: int = _number(20_000, 50, 3_600_000)
    lock_interval: int = _number(20_000, 50, 25_000)
    shutdown_timeout: int = _number(10_000, 0, 3_600_000)
    """How long shutdown() waits for listeners that are running."""

    def __post_init__(self) -> None:
        checks.check_group("consumer_group", self.consumer_group)
        checks.addresses_of("namesrv_addr", self.namesrv_addr)
        kinds: dict[str, type[StrEnum]] = {
            "message_model": MessageModel,
            "consume_from_where": ConsumeFromWhere,
            "offset_file_format": OffsetFileFormat,
        }
        for name, kind in kinds.items():
            self._set(name, checks.member_of(name, kind, getattr(self, name)))
        self._check()
        if self.consume_thread_min > self.consume_thread_max:
            self._fit_threads()
        self._set_suspension()
        self._set("consume_timestamp", _milliseconds(self.consume_timestamp))
        self._set("allocate_queues", tuple(self.allocate_queues))
        self._set("machine_rooms", tuple(self.machine_rooms))
        _ = self.strategy
        if not isinstance(self.offset_store_path, str) or not self.offset_store_path:
            raise ConfigurationError("offset_store_path is the name of a directory, not empty")

    def _fit_threads(self) -> None:
        """One of the two settings is enough: the other, if it has its default, follows."""
        if self.consume_thread_min == THREAD_MIN:
            self._set("consume_thread_min", self.consume_thread_max)
        elif self.consume_thread_max == THREAD_MAX:
            self._set("consume_thread_max", self.consume_thread_min)
        else:
            raise ConfigurationError(
                f"consume_thread_min is {self.consume_thread_min}, more than "
                f"consume_thread_max, {self.consume_thread_max}"
            )

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _set_suspension(self) -> None:
        """RocketMQ clamps the pause instead of refusing it, and so do we."""
        name = "orderly_suspend_current_queue_time_millis"
        checks.check_int(name, getattr(self, name), -1, 1 << 31)
        self._set(name, clamp_suspension(getattr(self, name)))

    @property
    def name_servers(self) -> tuple[str, ...]:
        return checks.addresses_of("namesrv_addr", self.namesrv_addr)

    @property
    def strategy(self) -> AllocateStrategy:
        return strategy_of(self.allocate_queue_strategy, self.allocate_queues, self.machine_rooms)

    @property
    def start_timestamp(self) -> int:
        """Milliseconds since 1970 for CONSUME_FROM_TIMESTAMP."""
        stamp = self.consume_timestamp
        assert isinstance(stamp, int)
        return stamp or time.time_ns() // 1_000_000 - _HALF_AN_HOUR

    @property
    def offset_directory(self) -> Path:
        return Path(self.offset_store_path).expanduser()

    @property
    def is_broadcasting(self) -> bool:
        return self.message_model is MessageModel.BROADCASTING


def clamp_suspension(millis: int) -> int:
    """10 ms to 30 s; -1 means one second, as in Java."""
    return 1000 if millis == -1 else min(max(millis, 10), 30_000)


def _milliseconds(value: object) -> int:
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, str):
        try:
            return int(datetime.strptime(value, _STAMP).timestamp() * 1000)
        except ValueError:
            raise ConfigurationError(
                f"consume_timestamp is {value!r}; a text has the form yyyyMMddHHmmss (local time)"
            ) from None
    checks.check_int("consume_timestamp", value, 0, 1 << 62)
    assert isinstance(value, int)
    return value


@dataclass(frozen=True, slots=True)
class ProducerConfig(_ClientConfig):
    """Settings of every kind of producer; times are milliseconds."""

    producer_group: str
    namesrv_addr: str
    _: KW_ONLY
    send_timeout: int = _number(3000, 1, 3_600_000)
    """For all tries of one send together."""
    retry_times_when_send_failed: int = _number(2, 0, 100)
    retry_times_when_send_async_failed: int = _number(2, 0, 100)
    retry_another_broker_when_not_store_ok: bool = False
    send_latency_fault_enable: bool = False
    compress_over: int = _number(4096, 0, 1 << 30)
    """Bytes; longer bodies are compressed. 0 = never."""
    compress_level: int = _number(5, 0, 9)
    max_message_size: int = _number(4 * 1024 * 1024, 1, 1 << 30)
    default_topic_queue_nums: int = _number(4, 1, 1024)
    create_topic_key: str = "TBW102"
    max_pending: int = _number(512, 1, 1_000_000)
    """Messages of send_async() under way; beyond, it waits for answers. Brokers refuse messages
    that wait in their own queue for more than 200 ms."""
    check_threads: int = _number(1, 1, 1000)
    """Threads that answer a broker's questions about transactions."""

    def __post_init__(self) -> None:
        checks.check_group("producer_group", self.producer_group)
        checks.addresses_of("namesrv_addr", self.namesrv_addr)
        self._check()

    @property
    def name_servers(self) -> tuple[str, ...]:
        return checks.addresses_of("namesrv_addr", self.namesrv_addr)
