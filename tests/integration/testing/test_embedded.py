"""`headrace.Broker`: a broker inside a program, with a data directory that lasts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import headrace
from headrace import Broker
from headrace.client import ConnectionFactory
from headrace.errors import ConfigError


def test_what_is_stored_outlives_the_broker(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data") as broker:
        with ConnectionFactory.from_url(broker.native_url).new_connection() as connection:
            channel = connection.create_channel()
            channel.queue_declare("q", durable=True)
            channel.basic_publish("", "q", {"delivery_mode": 2}, b"x")
        assert broker.queue("q").messages == 1
        assert broker.is_running
        assert broker.http_url is not None
    assert not broker.is_running
    with Broker(data_dir=str(tmp_path / "data"), amqp=False) as broker:
        assert broker.queue("q").messages == 1
        assert broker.amqp_port is None
        ports = broker.ports
        broker.restart()
        assert broker.ports == ports


def test_it_can_be_started_and_stopped_without_a_block(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    assert not broker.is_running
    broker.start()
    broker.stop()
    broker.stop()
    assert (tmp_path / "meta.db").exists()


def test_an_unknown_setting_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown setting 'colour'"):
        Broker(tmp_path / "data", colour="red")
    assert not (tmp_path / "data").exists()


def test_the_package_is_imported_without_the_broker() -> None:
    code = (
        "import sys, headrace\n"
        "print(sorted(one for one in sys.modules if one.startswith('headrace')))\n"
        "print(headrace.Broker.__module__)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert printed.splitlines() == ["['headrace']", "headrace.server.embedded"]


def test_other_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Rabbit'"):
        headrace.Rabbit  # noqa: B018 - the access is what is tested
