"""run_broker(): a real broker in a thread, its settings, its ends, and nothing left behind."""

from __future__ import annotations

import gc
import logging
import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPConnectionError

from headrace.client import ConnectionFactory
from headrace.errors import ConfigError, NotFound, StoreError
from headrace.testing import RunningBroker, run_broker, wait_for
from support.open_files import descriptors

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with run_broker() as broker:
        yield broker


def connect(broker: RunningBroker) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(broker.amqp_url))


def confirming(connection: pika.BlockingConnection) -> BlockingChannel:
    channel = connection.channel()
    channel.confirm_delivery()
    return channel


# -- start ---------------------------------------------------------------------------------------


def test_clients_reach_it_by_its_url(broker: RunningBroker) -> None:
    with connect(broker) as connection:
        connection.channel().queue_declare("reached", exclusive=True)

        assert broker.queue("reached") == (0, 0, 0)


def test_two_brokers_run_side_by_side(broker: RunningBroker) -> None:
    with run_broker() as other:
        assert other.amqp_port != broker.amqp_port
        assert other.data_dir != broker.data_dir


def test_settings_are_those_of_serve() -> None:
    with run_broker(
        default_user="o'neill", default_password="a/b@c", max_message_size="1MiB"
    ) as one:
        assert one.config.max_message_size == 1 << 20
        with connect(one) as connection:
            assert connection.is_open
        with ConnectionFactory.from_url(one.native_url).new_connection() as native:
            assert native.is_open


def test_listener_that_is_off_has_no_port() -> None:
    with run_broker(amqp=False) as one:
        assert one.amqp_port is None
        assert one.native_port == one.ports["native"]
        with pytest.raises(ConfigError, match="amqp is off"):
            _ = one.amqp_url


def test_unknown_setting_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown setting 'amqp_prot'"), run_broker(amqp_prot=1):
        pass


def test_start_that_fails_raises_in_the_caller_and_leaves_nothing() -> None:
    before = threading.active_count()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = f"cannot listen on 127.0.0.1:{port} for amqp: address already in use; choose another"
        with pytest.raises(ConfigError, match=f"{told} --amqp-port$"), run_broker(amqp_port=port):
            pass

    assert threading.active_count() == before


def test_data_directory_in_use_is_refused(broker: RunningBroker) -> None:
    expected = pytest.raises(ConfigError, match="in use by another broker")
    with expected, run_broker(data_dir=broker.data_dir):
        pass


def test_logging_is_left_alone(capfd: pytest.CaptureFixture[str]) -> None:
    before = logging.getLogger("headrace").handlers[:], logging.getLogger().handlers[:]
    with run_broker():
        pass

    assert (logging.getLogger("headrace").handlers, logging.getLogger().handlers) == before
    assert capfd.readouterr() == ("", "")


# -- files ---------------------------------------------------------------------------------------


def test_temporary_directory_is_removed_also_when_the_test_fails() -> None:
    with pytest.raises(ZeroDivisionError), run_broker() as one:
        home = one.data_dir.parent
        assert one.data_dir.is_dir()
        _ = 1 // 0

    assert not home.exists()


def test_given_directory_is_kept_and_used_again(tmp_path: Path) -> None:
    with run_broker(data_dir=tmp_path / "kept") as one, connect(one) as connection:
        channel = confirming(connection)
        channel.queue_declare("orders", durable=True)
        channel.basic_publish("", "orders", b"1", PERSISTENT)

    with run_broker(data_dir=str(tmp_path / "kept")) as one:
        assert one.queue("orders").messages == 1


def test_without_sync_files_are_in_memory_where_that_is_possible(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("headrace.testing.broker.MEMORY", tmp_path)
    monkeypatch.setattr("headrace.testing.broker.MEMORY_WANTED", 0)
    with run_broker(sync=False) as one:
        assert one.data_dir.is_relative_to(tmp_path)

    monkeypatch.setattr("headrace.testing.broker.MEMORY", tmp_path / "missing")
    with run_broker(sync=False) as one:
        assert one.data_dir.is_relative_to(tempfile.gettempdir())


def test_memory_without_much_room_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("headrace.testing.broker.MEMORY", tmp_path / "..")
    monkeypatch.setattr("headrace.testing.broker.MEMORY_WANTED", 1 << 62)
    with run_broker(sync=False) as one:
        assert not one.data_dir.is_relative_to(tmp_path / "..")


def test_directory_and_no_sync_do_not_go_together(tmp_path: Path) -> None:
    expected = pytest.raises(ConfigError, match="sync=False")
    with expected, run_broker(sync=False, data_dir=tmp_path):
        pass


# -- inspection ----------------------------------------------------------------------------------


def test_a_queue_reports_its_counts(broker: RunningBroker) -> None:
    with connect(broker) as connection:
        channel = confirming(connection)
        channel.queue_declare("seen", exclusive=True)
        for _ in range(3):
            channel.basic_publish("", "seen", b"x")
        channel.basic_get("seen")
        assert broker.queue("seen") == (2, 1, 0)

        channel.basic_qos(prefetch_count=1)
        channel.basic_consume("seen", lambda *_: None)
        wait_for(lambda: broker.queue("seen") == (1, 2, 1))


def test_queue_that_is_not_there_is_not_found(broker: RunningBroker) -> None:
    with pytest.raises(NotFound, match="no queue 'nowhere' in vhost '/'"):
        broker.queue("nowhere")

    assert "nowhere" not in broker.queues()


# -- ends ----------------------------------------------------------------------------------------


def test_restart_keeps_ports_and_durable_things() -> None:
    with run_broker() as one:
        ports = one.ports
        with connect(one) as connection:
            channel = confirming(connection)
            channel.queue_declare("orders", durable=True)
            channel.basic_publish("", "orders", b"1", PERSISTENT)

        one.restart()

        assert one.ports == ports
        with connect(one) as connection:
            method, _, body = connection.channel().basic_get("orders")
        assert (body, method.redelivered) == (b"1", False)


def test_restart_waits_for_a_port_taken_meanwhile() -> None:
    with run_broker() as one:
        port = one.amqp_port or 0
        one.stop()
        taken = socket.create_server(("127.0.0.1", port))
        release = threading.Timer(0.3, taken.close)
        release.start()
        try:
            one.start()
        finally:
            release.join()

        assert one.amqp_port == port
        with connect(one) as connection:
            assert connection.is_open


def test_crash_cuts_connections_and_leaves_what_was_stored() -> None:
    with run_broker() as one:
        channel = confirming(connect(one))
        channel.queue_declare("orders", durable=True)
        for body in (b"kept", b"held"):
            channel.basic_publish("", "orders", body, PERSISTENT)
        channel.basic_publish("", "orders", b"transient")
        channel.basic_get("orders")

        one.crash()
        with pytest.raises(AMQPConnectionError):
            channel.queue_declare("orders", passive=True)
        assert not one.is_running
        one.restart()

        with connect(one) as connection:
            found = [connection.channel().basic_get("orders") for _ in range(3)]
        assert [(body, method.redelivered) for method, _, body in found if method] == [
            (b"kept", True),
            (b"held", True),
        ]


def test_crash_while_messages_pour_in_loses_nothing_that_was_confirmed() -> None:
    confirmed = 0
    with run_broker() as one:
        channel = confirming(connect(one))
        channel.queue_declare("orders", durable=True)
        crash = threading.Timer(0.05, one.crash)
        crash.start()
        with pytest.raises(AMQPConnectionError):
            while True:
                channel.basic_publish("", "orders", b"x" * 1000, PERSISTENT)
                confirmed += 1
        crash.join()
        one.restart()

        assert one.queue("orders").messages in (confirmed, confirmed + 1)


def test_crash_leaves_nothing_beside_the_directory(tmp_path: Path) -> None:
    with run_broker(data_dir=tmp_path / "data") as one:
        one.crash()
        assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_using_a_stopped_broker_raises_an_error() -> None:
    with run_broker() as one:
        one.stop()
        one.stop()
        for use in (one.queues, one.crash):
            with pytest.raises(RuntimeError, match="is not running"):
                use()
        one.start()
        with pytest.raises(RuntimeError, match="runs already"):
            one.start()


def test_failure_of_the_storage_is_raised_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int) -> None:
        raise OSError(5, "Input/output error")

    cut = pytest.raises(AMQPConnectionError)
    with pytest.raises((OSError, StoreError)), run_broker() as one, cut:
        channel = confirming(connect(one))
        channel.queue_declare("orders", durable=True)
        monkeypatch.setattr(os, "fdatasync", fail)
        channel.basic_publish("", "orders", b"1", PERSISTENT)


# -- leaks ---------------------------------------------------------------------------------------


def test_fifty_starts_leave_no_thread_no_descriptor_and_no_file(tmp_path: Path) -> None:
    def use() -> None:
        with run_broker() as one, connect(one) as connection:
            channel = confirming(connection)
            channel.queue_declare("orders", durable=True)
            channel.basic_publish("", "orders", b"1", PERSISTENT)

    def held() -> tuple[int, list[str], list[str]]:
        gc.collect()  # a ResourceWarning of something dropped is an error here
        return threading.active_count(), descriptors(), os.listdir(tmp_path)

    tempfile.tempdir, before = str(tmp_path), tempfile.tempdir
    try:
        use()  # what is opened once and for all
        at_first = held()
        for _ in range(49):
            use()
        for _ in range(50):  # another broker in this process may look at /proc just now
            if (at_last := held()) == at_first:
                break
            time.sleep(0.1)
        assert at_last == at_first
    finally:
        tempfile.tempdir = before
