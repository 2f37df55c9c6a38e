"""`ConsumerConfig` and `ProducerConfig`: checked when they are made, never changed afterwards."""

from __future__ import annotations

import ssl
import time
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from pathlib import Path

from headrace.rocketmq.consuming.allocation import AllocateStrategy, strategy_of
from headrace.rocketmq.enums import AllocateQueueStrategy, ConsumeFromWhere, MessageModel
from headrace.rocketmq.errors import ConfigurationError
from headrace.rocketmq.net import checks

_CONSUMER_RANGES: dict[str, tuple[int, int]] = {
    "consume_thread_min": (1, 1000),
    "consume_thread_max": (1, 1000),
    "pull_batch_size": (1, 1024),
    "pull_interval": (0, 65_535),
    "consume_timeout": (1, 7 * 24 * 60),
    "max_reconsume_times": (-1, 1_000_000),
    "persist_interval": (10, 3_600_000),
    "persist_batch_size": (1, 10_000),
    "max_cache_size": (1, 10_000_000),
    "max_retry_times": (0, 100),
    "orderly_max_reconsume_times": (-1, 1_000_000),
    "orderly_consume_timeout": (1, 86_400),
    "consume_message_batch_max_size": (1, 1024),
    "pull_threshold_for_queue": (1, 65_535),
    "pull_threshold_size_for_queue": (1, 1024),
    "consume_concurrently_max_span": (1, 65_535),
    "max_subscriptions": (1, 1_000_000),
    "request_timeout": (100, 600_000),
    "pull_suspend_timeout": (100, 120_000),
    "heartbeat_interval": (100, 110_000),
    "poll_route_interval": (100, 3_600_000),
    "rebalance_interval": (50, 3_600_000),
    "lock_interval": (50, 25_000),
    "shutdown_timeout": (0, 3_600_000),
}
_CONSUMER_SWITCHES = ("enable_auto_recovery", "enable_auto_commit")
_HALF_AN_HOUR = 30 * 60 * 1000
_STAMP = "%Y%m%d%H%M%S"


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """Settings of every kind of consumer; times are milliseconds unless the name says more."""

    consumer_group: str
    namesrv_addr: str
    message_model: MessageModel = MessageModel.CLUSTERING
    _: KW_ONLY
    consume_thread_min: int = 20
    consume_thread_max: int = 64
    pull_batch_size: int = 32
    pull_interval: int = 0
    consume_timeout: int = 15
    """Minutes until a message that is still being consumed is given back (concurrent)."""
    max_reconsume_times: int = 16
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    consume_timestamp: int | str | datetime = 0
    """Milliseconds since 1970, a datetime, or yyyyMMddHHmmss; 0 = half an hour ago."""
    allocate_queue_strategy: AllocateQueueStrategy | AllocateStrategy = (
        AllocateQueueStrategy.AVERAGE
    )
    persist_interval: int = 5000
    persist_batch_size: int = 10
    offset_store_path: str = "~/.rocketmq/offsets"
    max_cache_size: int = 10_000
    enable_auto_recovery: bool = True
    max_retry_times: int = 3
    orderly_max_reconsume_times: int = 16
    orderly_consume_timeout: int = 30
    """Seconds until a listener that is still busy is reported (orderly)."""
    orderly_suspend_current_queue_time_millis: int = 1000
    enable_auto_commit: bool = True
    consume_message_batch_max_size: int = 1
    pull_threshold_for_queue: int = 1000
    pull_threshold_size_for_queue: int = 100
    """MiB of message bodies."""
    consume_concurrently_max_span: int = 2000
    max_subscriptions: int = 1000
    instance_name: str = ""
    """Part of the client id; empty = unique, and DEFAULT for broadcasting consumers."""
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    tls: bool | ssl.SSLContext = False
    """True = with the authorities that this machine trusts; or a context of your own."""
    request_timeout: int = 3000
    pull_suspend_timeout: int = 15_000
    heartbeat_interval: int = 30_000
    poll_route_interval: int = 30_000
    rebalance_interval: int = 20_000
    lock_interval: int = 20_000
    shutdown_timeout: int = 10_000
    """How long shutdown() waits for listeners that are at work."""

    def __post_init__(self) -> None:
        checks.check_group("consumer_group", self.consumer_group)
        checks.addresses_of("namesrv_addr", self.namesrv_addr)
        self._set(
            "message_model", checks.member_of("message_model", MessageModel, self.message_model)
        )
        self._set(
            "consume_from_where",
            checks.member_of("consume_from_where", ConsumeFromWhere, self.consume_from_where),
        )
        for name, (low, high) in _CONSUMER_RANGES.items():
            checks.check_int(name, getattr(self, name), low, high)
        for name in _CONSUMER_SWITCHES:
            checks.check_bool(name, getattr(self, name))
        if self.consume_thread_min > self.consume_thread_max:
            raise ConfigurationError(
                f"consume_thread_min is {self.consume_thread_min}, more than "
                f"consume_thread_max, {self.consume_thread_max}"
            )
        self._set_suspension()
        self._set("consume_timestamp", _milliseconds(self.consume_timestamp))
        strategy_of(self.allocate_queue_strategy)
        if not isinstance(self.offset_store_path, str) or not self.offset_store_path:
            raise ConfigurationError("offset_store_path is the name of a directory, not empty")
        if bool(self.access_key) is not bool(self.secret_key):
            raise ConfigurationError("access_key and secret_key are given both or not at all")
        checks.tls_context(self.tls)

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
        return strategy_of(self.allocate_queue_strategy)

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


_PRODUCER_RANGES: dict[str, tuple[int, int]] = {
    "send_timeout": (1, 3_600_000),
    "retry_times_when_send_failed": (0, 100),
    "retry_times_when_send_async_failed": (0, 100),
    "compress_over": (0, 1 << 30),
    "compress_level": (0, 9),
    "max_message_size": (1, 1 << 30),
    "default_topic_queue_nums": (1, 1024),
    "max_pending": (1, 1_000_000),
    "check_threads": (1, 1000),
    "request_timeout": (100, 600_000),
    "heartbeat_interval": (100, 110_000),
    "poll_route_interval": (100, 3_600_000),
}
_PRODUCER_SWITCHES = ("retry_another_broker_when_not_store_ok", "send_latency_fault_enable")


@dataclass(frozen=True, slots=True)
class ProducerConfig:
    """Settings of every kind of producer; times are milliseconds."""

    producer_group: str
    namesrv_addr: str
    _: KW_ONLY
    send_timeout: int = 3000
    """For all tries of one send together."""
    retry_times_when_send_failed: int = 2
    retry_times_when_send_async_failed: int = 2
    retry_another_broker_when_not_store_ok: bool = False
    send_latency_fault_enable: bool = False
    compress_over: int = 4096
    """Bytes; longer bodies are compressed. 0 = never."""
    compress_level: int = 5
    max_message_size: int = 4 * 1024 * 1024
    default_topic_queue_nums: int = 4
    create_topic_key: str = "TBW102"
    max_pending: int = 512
    """Messages of send_async() under way; beyond, it waits for answers. Brokers refuse messages
    that wait in their own queue for more than 200 ms."""
    check_threads: int = 1
    """Threads that answer a broker's questions about transactions."""
    instance_name: str = ""
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    tls: bool | ssl.SSLContext = False
    """True = with the authorities that this machine trusts; or a context of your own."""
    request_timeout: int = 3000
    heartbeat_interval: int = 30_000
    poll_route_interval: int = 30_000

    def __post_init__(self) -> None:
        checks.check_group("producer_group", self.producer_group)
        checks.addresses_of("namesrv_addr", self.namesrv_addr)
        for name, (low, high) in _PRODUCER_RANGES.items():
            checks.check_int(name, getattr(self, name), low, high)
        for name in _PRODUCER_SWITCHES:
            checks.check_bool(name, getattr(self, name))
        if bool(self.access_key) is not bool(self.secret_key):
            raise ConfigurationError("access_key and secret_key are given both or not at all")
        checks.tls_context(self.tls)

    @property
    def name_servers(self) -> tuple[str, ...]:
        return checks.addresses_of("namesrv_addr", self.namesrv_addr)
