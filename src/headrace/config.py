"""Every setting of the broker, declared once; defaults < TOML file < environment < flags.

The name of a field gives its three spellings: `amqp_port` is the key in the file, `--amqp-port`
the flag and `HEADRACE_AMQP_PORT` the variable. No other module reads a setting from anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from headrace.errors import ConfigError
from headrace.option_types import (
    AMOUNT,
    ENGINES,
    FILE,
    KIB,
    MIB,
    NAMES,
    PATH,
    PORT,
    SECONDS,
    SIZE,
    TEXT,
    YES_NO,
    OptionType,
    choice,
    size_up_to,
    whole,
)

ENV_PREFIX = "HEADRACE_"
ROCKETMQ_BODY_MAX = 16 * MIB - 128 * KIB  # clients read frames of 16 MiB

T = TypeVar("T")


# -- the declarations ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Option:
    """What there is to know about one setting besides its value."""

    group: str
    help: str
    kind: OptionType
    secret: bool = False
    name: str = ""
    default: Any = None

    @property
    def env(self) -> str:
        return ENV_PREFIX + self.name.upper()

    @property
    def flag(self) -> str | None:
        """None for a secret: every user of the machine can read a command line."""
        return None if self.secret else "--" + self.name.replace("_", "-")

    @property
    def is_switch(self) -> bool:
        return self.kind is YES_NO

    @property
    def is_list(self) -> bool:
        """The flag can be given several times."""
        return self.kind is ENGINES

    @property
    def default_text(self) -> str:
        if self.secret:
            return "hidden"
        return "not set" if self.default is None else self.kind.show(self.default)


@dataclass(frozen=True, slots=True)
class _Group:
    """Declares the settings of a group."""

    name: str

    def __call__(self, default: T, help: str, kind: OptionType, *, secret: bool = False) -> T:
        metadata = {"option": Option(self.name, help, kind, secret)}
        # The URLs of engines have passwords in them.
        return field(default=default, repr=not secret and kind is not ENGINES, metadata=metadata)


_files = _Group("Files")
_listeners = _Group("Listeners")
_connections = _Group("Connections")
_limits = _Group("Limits")
_topics = _Group("Topics")
_high_availability = _Group("High availability")
_logging = _Group("Logging")
_identity = _Group("Identity")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of one broker. Built by `load`, or directly in tests."""

    data_dir: Path = _files(Path("headrace-data"), "Directory for all data of the broker.", PATH)
    ready_file: Path | None = _files(
        None, "Written once all listeners are up: a JSON object with pid and ports.", PATH
    )
    load_definitions: Path | None = _files(
        None, "Definitions (RabbitMQ's JSON) to import at start.", FILE
    )
    segment_size: int = _files(
        32 * MIB, "Size of one segment of the log; space is freed segment by segment.", SIZE
    )

    host: str = _listeners(
        "127.0.0.1", "Address to listen on; `::` is all, of IPv6 and IPv4.", TEXT
    )
    amqp: bool = _listeners(True, "Listen for AMQP 0-9-1 without TLS.", YES_NO)
    amqp_port: int = _listeners(5672, "Port for AMQP; 0 takes any free one.", PORT)
    amqps_port: int | None = _listeners(
        None,
        "Port for AMQP over TLS; 0 takes any free one. Needs tls_cert; with it, and no port for "
        "TLS named, 5671.",
        PORT,
    )
    native: bool = _listeners(True, "Listen for the native protocol.", YES_NO)
    native_port: int = _listeners(9090, "Port for the native protocol; 0 takes any free one.", PORT)
    native_tls_port: int | None = _listeners(
        None,
        "Port for the native protocol over TLS; 0 takes any free one. Needs tls_cert; with it, and "
        "no port for TLS named, 9091.",
        PORT,
    )
    http: bool = _listeners(True, "Serve the management API, the metrics and the page.", YES_NO)
    http_port: int = _listeners(15672, "Port for HTTP; 0 takes any free one.", PORT)
    https_port: int | None = _listeners(
        None,
        "Port for HTTP over TLS; 0 takes any free one. Needs tls_cert; with it, and no port for "
        "TLS named, 15671.",
        PORT,
    )
    http_allowed_hosts: str | None = _listeners(
        None,
        "Names, with commas between, by which browsers may reach the HTTP port, besides localhost "
        "and plain addresses.",
        TEXT,
    )
    remoting: bool = _listeners(
        True, "Listen for RocketMQ clients, as name server and as broker.", YES_NO
    )
    namesrv: bool = _listeners(
        True, "Listen on the port of RocketMQ's name server; needs remoting.", YES_NO
    )
    namesrv_port: int = _listeners(
        9876, "Port of the RocketMQ name server; 0 takes any free one.", PORT
    )
    remoting_port: int = _listeners(
        10911, "Port of the RocketMQ broker; 0 takes any free one.", PORT
    )
    remoting_tls: str = _listeners(
        "optional",
        "With tls_cert: whether RocketMQ clients may connect without TLS.",
        choice("optional", "required"),
    )
    advertise_host: str | None = _listeners(
        None,
        "Host that RocketMQ clients connect to; not set: the one of the name server they used.",
        TEXT,
    )
    tls_cert: Path | None = _listeners(
        None, "Certificate chain of the server, PEM. Needs tls_key.", FILE
    )
    tls_key: Path | None = _listeners(None, "Private key of the certificate, PEM.", FILE)
    tls_ca: Path | None = _listeners(
        None, "Authorities, PEM; when set, clients must show a certificate.", FILE
    )
    tls_client_certificates: str = _listeners(
        "required",
        "With tls_ca: whether a client may connect without a certificate.",
        choice("required", "optional"),
    )
    tls_user_from: str = _listeners(
        "common_name",
        "Field of a client's certificate that names the user, for logins without a password.",
        choice("common_name", "dns", "email", "uri"),
    )

    heartbeat: int = _connections(
        60,
        "Seconds between heartbeats offered to clients; 0 disables them.",
        whole(0, 65535, "SECONDS"),
    )
    frame_max: int = _connections(
        128 * KIB, "Largest frame offered to clients, in bytes.", whole(4096, 2**31 - 1, "BYTES")
    )
    native_frame_max: int = _connections(64 * MIB, "Largest frame of the native protocol.", SIZE)
    channel_max: int = _connections(2047, "Channels a connection may open.", whole(1, 65535))
    handshake_timeout: float = _connections(
        10.0, "How long a connection may take to log in.", SECONDS
    )
    max_unauthenticated_per_address: int = _connections(
        100, "Connections from one address that have not logged in yet.", whole(1, 1_000_000)
    )

    max_message_size: int = _limits(16 * MIB, "Largest message body.", SIZE)
    http_max_body: int = _limits(
        32 * MIB,
        "Largest body of an HTTP request; only definitions and publishes may exceed 1 MiB.",
        SIZE,
    )
    rocketmq_max_message_size: int = _limits(
        4 * MIB,
        "Largest body of a message from a RocketMQ client; at most 16 MiB less 128 KiB, because "
        "clients cannot read larger frames.",
        size_up_to(ROCKETMQ_BODY_MAX),
    )
    rocketmq_pull_limit: int = _limits(
        32, "Maximum number of messages per pull of a RocketMQ client.", whole(1, 1024)
    )
    auto_create_topics: bool = _limits(
        True, "Create a topic when a RocketMQ client sends to one that does not exist.", YES_NO
    )
    events: bool = _limits(
        False,
        "Record in the topic `$events` what happens to stored messages, for `headrace report`.",
        YES_NO,
    )
    memory_high_watermark: str = _limits(
        "40%", "Memory use above which publishers are blocked.", AMOUNT
    )
    disk_free_limit: int = _limits(
        50 * MIB, "Free disk space below which publishers are blocked.", SIZE
    )
    shutdown_timeout: float = _limits(10.0, "How long a clean stop may take.", SECONDS)

    engine: tuple[tuple[str, str], ...] = _topics(
        (),
        "An engine for topics besides `log`: a database. The flag can be given several "
        "times; in the file it is a table `[engines]` of names and URLs. Passwords in it "
        "are better kept in the file.",
        ENGINES,
    )

    share: str = _high_availability(
        "",
        "Keep everything in a database and stand by for other nodes: `ENGINE/SHARD`, where "
        "ENGINE is the name of an `engine`.",
        TEXT,
    )
    node: str = _high_availability("", "Name of this node among those that share a shard.", TEXT)
    address: str = _high_availability(
        "127.0.0.1", "Host by which other nodes reach this one.", TEXT
    )
    share_lease: float = _high_availability(
        5.0,
        "How long a node may be silent before another one takes over; the same on all nodes.",
        SECONDS,
    )

    log_level: str = _logging(
        "info", "Least important messages to show.", choice("debug", "info", "warning", "error")
    )
    log_format: str = _logging("text", "Form of the log.", choice("text", "json"))

    cluster_name: str = _identity(
        "headrace@localhost", "Name of the cluster, as sent to clients.", TEXT
    )
    default_user: str = _identity("guest", "User created in a new data directory.", TEXT)
    default_password: str = _identity("guest", "Password of that user.", TEXT, secret=True)
    rocketmq_user: str = _identity(
        "guest", "User of RocketMQ clients on this machine that do not sign requests.", TEXT
    )
    loopback_users: tuple[str, ...] = _identity(
        ("guest",),
        "Users who may log in from this machine only, separated by commas, or `none`.",
        NAMES,
    )
    strict_topic_permissions: bool = _identity(
        False,
        "Topic permissions restrict dead-lettering, alternate exchanges and exchange bindings too.",
        YES_NO,
    )


@cache
def options() -> Mapping[str, Option]:
    """All settings by name, in the order of their declaration."""
    return {
        f.name: replace(f.metadata["option"], name=f.name, default=f.default)
        for f in fields(Config)
    }


# -- loading ---------------------------------------------------------------------------------


def load(
    file: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Config:
    """Settings from all sources; the later one wins: file, environment, flags (None = not given).

    Raises ConfigError with the place, the key and what is allowed. A bad value is refused even
    when a stronger source overrides it.
    """
    values = _from_file(file) if file else {}
    # A variable that is no setting is left alone: Kubernetes adds HEADRACE_* ones for a service.
    # An empty one counts as not set.
    values |= _convert(
        (option, option.env, text)
        for option in options().values()
        if (text := (environ or {}).get(option.env))
    )
    values |= _convert(
        (options()[name], options()[name].flag or name, value)
        for name, value in (flags or {}).items()
        if value is not None
    )
    config = Config(**values)
    _check_together(config)
    return _with_tls_ports(config)


_KEYS = {"engines": "engine"}  # of the file, where the name of the flag would be odd


def _from_file(file: Path) -> dict[str, Any]:
    import tomllib  # only here: most starts have no file

    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{file}: invalid TOML: {error}") from error
    table = {_KEYS.get(key, key): value for key, value in table.items()}
    for key in table:
        if key not in options():
            raise ConfigError(f"{file}: unknown key {key!r}; allowed: {', '.join(options())}")
    return _convert((options()[key], f"{file}: {key}", value) for key, value in table.items())


def _convert(given: Iterable[tuple[Option, str, object]]) -> dict[str, Any]:
    values = {}
    for option, where, value in given:
        try:
            values[option.name] = option.kind.read(value)
        except (ValueError, RuntimeError):  # RuntimeError: an unknown home directory
            shown = "" if option.secret or option.is_list else f" {value!r}"
            raise ConfigError(
                f"{where}: invalid value{shown}: expected {option.kind.allowed}"
            ) from None
    return values


def _check_together(config: Config) -> None:
    if (config.tls_cert is None) != (config.tls_key is None):
        raise ConfigError("tls_cert and tls_key: set both, or neither")
    for name in ("amqps_port", "native_tls_port", "https_port"):
        if getattr(config, name) is not None and config.tls_cert is None:
            raise ConfigError(f"{name}: a TLS port needs tls_cert and tls_key")
    ports = (config.amqps_port, config.native_tls_port, config.https_port)
    secure = any(port is not None for port in ports)
    plain = config.amqp or config.native or config.http or config.remoting
    if not plain and not secure:
        raise ConfigError(
            "no listener is enabled: turn on amqp, native, http or remoting, or set amqps_port"
        )


def _with_tls_ports(config: Config) -> Config:
    """Ports for TLS where a certificate is given and none is named: it was given to be used.

    Beside a plain port that is any free one, so is the port for TLS; a protocol that is switched
    off stays off.
    """
    named = (config.amqps_port, config.native_tls_port, config.https_port)
    if config.tls_cert is None or any(port is not None for port in named):
        return config
    return replace(
        config,
        amqps_port=(5671 if config.amqp_port else 0) if config.amqp else None,
        native_tls_port=(9091 if config.native_port else 0) if config.native else None,
        https_port=(15671 if config.http_port else 0) if config.http else None,
    )
