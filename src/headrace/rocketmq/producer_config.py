"""The settings of producers. Checked when they are made, never changed afterwards."""

from __future__ import annotations

import ssl
from dataclasses import KW_ONLY, dataclass, field

from headrace.rocketmq.errors import ConfigurationError
from headrace.rocketmq.net import checks

_RANGES: dict[str, tuple[int, int]] = {
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
_SWITCHES = ("retry_another_broker_when_not_store_ok", "send_latency_fault_enable")


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
        for name, (low, high) in _RANGES.items():
            checks.check_int(name, getattr(self, name), low, high)
        for name in _SWITCHES:
            checks.check_bool(name, getattr(self, name))
        if bool(self.access_key) is not bool(self.secret_key):
            raise ConfigurationError("access_key and secret_key are given both or not at all")
        checks.tls_context(self.tls)

    @property
    def name_servers(self) -> tuple[str, ...]:
        return checks.addresses_of("namesrv_addr", self.namesrv_addr)
