"""One broker per data directory, only known formats, and stops that keep what they can."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from headrace.testing.amqp_connection import RawConnection
from headrace.testing.broker_process import BrokerProcess
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.properties import Properties
from support.recovery_site import Site


def test_a_second_broker_on_the_same_directory_refuses(site: Site, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "second", "--data-dir", str(site.node.data)) as second:
        second.launch()
        code = second.wait(10)

    assert code == 2
    assert second.log().splitlines() == [
        f"headrace: data directory {site.node.data} is in use by another broker"
    ]
    assert not site.has_queue("nothing")  # the first one goes on


def test_an_unknown_format_is_refused_and_nothing_is_changed(site: Site) -> None:
    channel = site.channel()
    channel.queue_declare("q", durable=True)
    site.publish(channel, "q", "x")
    site.stop()
    known = (site.node.data / "format").read_bytes()
    (site.node.data / "format").write_text("headrace 99\n")
    before = contents(site.node.data)
    said = len(site.node.log())

    site.node.launch()

    assert site.node.wait(10) == 2
    assert len(site.node.log()[said:].splitlines()) == 1
    assert "headrace 99" in site.node.log()[said:]
    assert contents(site.node.data) == before
    (site.node.data / "format").write_bytes(known)
    site.node.start()
    assert site.bodies("q") == ["x"]


@pytest.mark.parametrize("left", ["missing", "empty"])
def test_messages_without_their_catalogue_are_not_thrown_away(site: Site, left: str) -> None:
    channel = site.channel()
    channel.queue_declare("q", durable=True)
    site.publish(channel, "q", "x")
    site.stop()
    catalogue = site.node.data / "meta.db"
    kept = catalogue.read_bytes()
    catalogue.unlink()
    if left == "empty":
        catalogue.touch()
    before = contents(site.node.data)
    said = len(site.node.log())

    for _ in range(2):
        site.node.launch()
        assert site.node.wait(10) == 1

    for line in site.node.log()[said:].splitlines():
        assert line.startswith(f"headrace: {catalogue} is {left}, and journal beside it has")
    assert contents(site.node.data) == before
    catalogue.write_bytes(kept)
    site.node.start()
    assert site.bodies("q") == ["x"]


def contents(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def test_a_stop_keeps_work_that_is_not_confirmed_yet(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as node:
        link = RawConnection(node.start().port)
        link.open_channel(1)
        link.call(1, m.QueueDeclare(queue="q", durable=True), m.QueueDeclareOk)
        link.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
        for _ in range(2000):
            link.publish(1, "", "q", b"x" * 1000, Properties(delivery_mode=2))
        assert node.process is not None
        began = time.monotonic()

        node.process.send_signal(signal.SIGTERM)

        confirmed = max(
            (one.method.delivery_tag for one in link.rest() if isinstance(one.method, m.BasicAck)),
            default=0,
        )
        assert node.wait(10) == 0
        assert time.monotonic() - began < 10
        asking = RawConnection(node.start().port)
        asking.open_channel(1)
        found = asking.call(1, m.QueueDeclare(queue="q", passive=True), m.QueueDeclareOk)
        asking.close()
        assert found.message_count >= confirmed
        assert node.stop() == 0


def test_a_stop_with_idle_connections_is_quick(site: Site) -> None:
    for _ in range(5):
        site.channel()
    began = time.monotonic()

    assert site.node.stop() == 0

    assert time.monotonic() - began < 10
