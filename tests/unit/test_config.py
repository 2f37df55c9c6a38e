"""Settings: where they come from, who wins, and what a bad one is told."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.config import Config, load, options
from headrace.errors import ConfigError
from headrace.option_types import format_size, parse_amount, parse_size


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "headrace.toml"


def test_without_any_source_the_defaults_hold() -> None:
    assert load() == Config()


def test_settings_cannot_be_changed_afterwards() -> None:
    with pytest.raises(FrozenInstanceError):
        Config().amqp_port = 1  # type: ignore[misc]


def test_the_environment_beats_the_file_and_a_flag_beats_both(file: Path) -> None:
    file.write_text('heartbeat = 1\nchannel_max = 1\nhost = "::1"\n')
    environ = {"HEADRACE_HEARTBEAT": "2", "HEADRACE_CHANNEL_MAX": "2"}

    config = load(file, environ=environ, flags={"heartbeat": "3", "host": None})

    assert (config.heartbeat, config.channel_max, config.host) == (3, 2, "::1")


def test_every_setting_has_a_key_a_variable_and_unless_secret_a_flag() -> None:
    port, password = options()["amqp_port"], options()["default_password"]

    assert (port.flag, port.env, port.default) == ("--amqp-port", "HEADRACE_AMQP_PORT", 5672)
    assert (password.flag, password.env) == (None, "HEADRACE_DEFAULT_PASSWORD")
    assert list(options()) == list(Config.__dataclass_fields__)


@pytest.mark.parametrize("name", [name for name in options() if options()[name].default])
def test_every_default_is_a_value_that_is_allowed(name: str) -> None:
    option = options()[name]

    assert option.kind.read(option.default) == option.default


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("amqp", "off", False),
        ("amqp_port", "0", 0),
        ("data_dir", "/srv/mq", Path("/srv/mq")),
        ("disk_free_limit", "1GB", 10**9),
        ("handshake_timeout", "2.5", 2.5),
        ("log_format", "json", "json"),
        ("max_message_size", " 64 MiB ", 64 * 2**20),
        ("memory_high_watermark", "12.5%", "12.5%"),
    ],
)
def test_text_becomes_a_value_of_the_right_type(key: str, text: str, value: object) -> None:
    # A second listener, so that switching the first one off leaves a broker that can be reached.
    tls = {"amqps_port": "0", "tls_cert": __file__, "tls_key": __file__}

    config = load(environ={options()[key].env: text}, flags=tls)

    assert getattr(config, key) == value


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "amqp_port = 65536",
            "amqp_port: invalid value 65536: expected a whole number from 0 to 65535",
        ),
        (
            "amqp_port = true",
            "amqp_port: invalid value True: expected a whole number from 0 to 65535",
        ),
        ("amqp_port = -1", "amqp_port: invalid value -1: expected a whole number"),
        ("amqp = 'maybe'", "amqp: invalid value 'maybe': expected true or false"),
        ("frame_max = 4095", "frame_max: invalid value 4095: expected a whole number from 4096"),
        (
            "handshake_timeout = nan",
            "handshake_timeout: invalid value nan: expected a number of seconds",
        ),
        ("host = ''", "host: invalid value '': expected text that is not empty"),
        (
            "log_level = ['info']",
            "log_level: invalid value ['info']: expected one of debug, info, warning, error",
        ),
        ("data_dir = 'a\\u0000b'", "data_dir"),
        (
            "tls_cert = '/no/such'",
            "tls_cert: invalid value '/no/such': expected the path of an existing file",
        ),
        (
            "max_message_size = '1XB'",
            "max_message_size: invalid value '1XB': expected a number of bytes, or a size",
        ),
        (
            "memory_high_watermark = 0.4",
            "memory_high_watermark: invalid value 0.4: expected a size",
        ),
        (
            "memory_high_watermark = '101%'",
            "memory_high_watermark: invalid value '101%': expected a size",
        ),
        (
            "[amqp_port]\nplain = 1",
            "amqp_port: invalid value {'plain': 1}: expected a whole number",
        ),
    ],
)
def test_a_bad_value_is_reported_with_file_key_and_allowed_values(
    file: Path, line: str, message: str
) -> None:
    file.write_text(line.replace("'a\\u0000b'", '"a\\u0000b"'))

    with pytest.raises(ConfigError) as caught:
        load(file)
    assert str(caught.value).startswith(f"{file}: {message}")


def test_an_unknown_key_is_reported_with_the_known_ones(file: Path) -> None:
    file.write_text("port = 1")

    with pytest.raises(ConfigError, match=r"unknown key 'port'; allowed: data_dir, .*amqp_port"):
        load(file)


def test_a_bad_value_names_the_variable_or_flag_it_came_from() -> None:
    with pytest.raises(ConfigError, match=r"^HEADRACE_HEARTBEAT: invalid value 'x'"):
        load(environ={"HEADRACE_HEARTBEAT": "x"})
    with pytest.raises(ConfigError, match=r"^--heartbeat: invalid value 'y'"):
        load(flags={"heartbeat": "y"})


def test_foreign_and_empty_variables_are_left_alone() -> None:
    environ = {"HEADRACE_PORT_5672_TCP": "tcp://10.0.0.1:5672", "HEADRACE_AMQP_PORT": ""}

    assert load(environ=environ) == Config()


@pytest.mark.parametrize("content", [b"amqp_port", b"\xff\xfe", b"a = 1\na = 2"])
def test_a_file_that_is_not_toml_is_reported(file: Path, content: bytes) -> None:
    file.write_bytes(content)

    with pytest.raises(ConfigError, match="invalid TOML"):
        load(file)


def test_an_unreadable_file_is_reported(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*: No such file"):
        load(file)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"amqps_port": 0}, "amqps_port: a TLS port needs tls_cert and tls_key"),
        ({"native_tls_port": 0}, "native_tls_port: a TLS port needs tls_cert and tls_key"),
        ({"tls_cert": __file__}, "set both, or neither"),
        ({"tls_key": __file__}, "set both, or neither"),
        (dict.fromkeys(("amqp", "native", "http", "remoting"), False), "no listener is enabled"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(
    flags: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load(flags=flags)


_CERTIFICATE = {"tls_cert": __file__, "tls_key": __file__}


@pytest.mark.parametrize(
    ("flags", "ports"),
    [
        ({}, (5671, 9091, 15671)),
        ({"amqp_port": 0, "native_port": 0, "http_port": 0}, (0, 0, 0)),
        ({"http": False, "native": False}, (5671, None, None)),
        ({"amqps_port": 6000}, (6000, None, None)),
        ({"https_port": 0}, (None, None, 0)),
    ],
)
def test_a_certificate_opens_the_ports_for_tls_unless_one_is_named(
    flags: dict[str, object], ports: tuple[int | None, ...]
) -> None:
    config = load(flags=_CERTIFICATE | flags)

    assert (config.amqps_port, config.native_tls_port, config.https_port) == ports


def test_without_a_certificate_nothing_listens_for_tls() -> None:
    config = load()

    assert (config.amqps_port, config.native_tls_port, config.https_port) == (None, None, None)


def test_a_password_shows_up_neither_in_repr_nor_in_errors_nor_in_the_docs(file: Path) -> None:
    file.write_text("default_password = 271828")

    with pytest.raises(ConfigError) as caught:
        load(file)
    assert "271828" not in str(caught.value)
    assert "s3cret" not in repr(Config(default_password="s3cret"))
    assert options()["default_password"].default_text == "hidden"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("10b", 10),
        ("1k", 1024),
        ("1kB", 1000),
        ("1KiB", 1024),
        ("1.5GB", 1_500_000_000),
        ("2 TiB", 2 * 2**40),
        (4096, 4096),
    ],
)
def test_sizes_have_units(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1", "1.5", "1e9", "inf", "0x10", "9" * 30, True, []])
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(ValueError):
        parse_size(text)


@given(st.integers(0, 2**63 - 1))
def test_a_formatted_size_reads_back(size: int) -> None:
    assert parse_size(format_size(size)) == size


def test_an_amount_is_a_share_of_the_total_or_a_size() -> None:
    assert parse_amount("40%", total=1000) == 400
    assert parse_amount("1MiB", total=1000) == 2**20


@given(st.sampled_from(sorted(options())), st.text() | st.integers() | st.floats() | st.binary())
def test_no_value_whatever_raises_anything_but_a_config_error(name: str, value: object) -> None:
    try:
        load(flags={name: value})
    except ConfigError:
        pass
