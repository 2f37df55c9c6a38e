"""What was declared, after a restart: durable things are there, others are not."""

from __future__ import annotations

import json
from pathlib import Path

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

from support.recovery_site import Site


def test_durable_topology_survives(site: Site) -> None:
    channel = site.channel()
    channel.exchange_declare("e", "topic", durable=True)
    channel.exchange_declare("behind", "fanout", durable=True)
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "e", "a.*")
    channel.exchange_bind("behind", "e", "b.#")
    channel.queue_bind("q", "behind")

    site.restart()
    site.crash()

    channel = site.channel()
    for key in ("a.x", "b.x.y", "c"):
        channel.basic_publish("e", key, key.encode())
    assert site.bodies("q") == ["a.x", "b.x.y"]


def test_an_unbound_binding_does_not_come_back(site: Site) -> None:
    channel = site.channel()
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "amq.direct", "one")
    channel.queue_bind("q", "amq.direct", "two")
    channel.queue_unbind("q", "amq.direct", "one")

    site.crash()

    channel = site.channel()
    channel.basic_publish("amq.direct", "one", b"one")
    channel.basic_publish("amq.direct", "two", b"two")
    assert site.bodies("q") == ["two"]


def test_transient_things_do_not_survive(site: Site) -> None:
    channel = site.channel()
    channel.queue_declare("transient")
    channel.exchange_declare("transient", "fanout")
    channel.queue_declare("durable", durable=True)
    channel.queue_bind("durable", "transient")
    site.publish(channel, "transient", "x")

    site.restart()

    assert not site.has_queue("transient")
    assert not site.has_exchange("transient")
    assert site.has_queue("durable")


def test_exclusive_queues_do_not_survive_even_when_durable(site: Site) -> None:
    site.channel().queue_declare("mine", durable=True, exclusive=True)

    site.crash()

    assert not site.has_queue("mine")


def test_an_auto_delete_queue_survives_and_goes_with_its_last_consumer(site: Site) -> None:
    channel = site.channel()
    channel.queue_declare("q", durable=True, auto_delete=True)
    site.publish(channel, "q", "x")

    site.crash()

    channel = site.channel()
    assert site.ready(channel, "q") == 1
    tag = channel.basic_consume("q", lambda *_: None)
    channel.basic_cancel(tag)
    assert not site.has_queue("q")


def test_arguments_survive(site: Site) -> None:
    arguments = {"x-max-length": 2, "x-message-ttl": 60_000, "x-queue-mode": "lazy"}
    site.channel().queue_declare("q", durable=True, arguments=arguments)

    site.restart()

    channel = site.channel()
    channel.queue_declare("q", durable=True, arguments=arguments)
    site.publish(channel, "q", "1", "2", "3")
    assert site.bodies("q") == ["2", "3"]
    with pytest.raises(ChannelClosedByBroker) as closed:
        site.channel().queue_declare("q", durable=True, arguments={"x-max-length": 3})
    assert closed.value.reply_code == 406


def test_vhosts_and_policies_survive(tmp_path: Path) -> None:
    definitions = tmp_path / "definitions.json"
    policy = {"vhost": "other", "name": "short", "pattern": "^q", "apply-to": "queues"}
    policy |= {"priority": 0, "definition": {"max-length": 1}}
    definitions.write_text(json.dumps({"vhosts": [{"name": "other"}], "policies": [policy]}))
    with Site(tmp_path / "broker", "--load-definitions", str(definitions)) as site:
        site.node.start()
        site.channel(vhost="other").queue_declare("q", durable=True)
        site.stop()
    with Site(tmp_path / "broker") as site:
        site.node.start()

        channel = site.channel(vhost="other")
        for body in (b"1", b"2"):
            channel.basic_publish("", "q", body, pika.BasicProperties(delivery_mode=2))

        assert site.take(channel, "q") == [("2", False)]


def test_a_declaration_is_on_disk_when_it_is_answered(site: Site) -> None:
    for number in range(20):
        channel = site.channel(confirms=False)
        channel.exchange_declare(f"e{number}", "fanout", durable=True)
        channel.queue_declare(f"q{number}", durable=True)
        channel.queue_bind(f"q{number}", f"e{number}")

        site.crash()

        channel = site.channel()
        channel.basic_publish(f"e{number}", "", b"x")
        assert site.bodies(f"q{number}") == ["x"]


def test_a_deleted_queue_does_not_come_back_nor_do_its_messages(site: Site) -> None:
    channel = site.channel()
    channel.queue_declare("q", durable=True)
    site.publish(channel, "q", "old")
    channel.queue_delete("q")

    site.crash()

    assert not site.has_queue("q")
    channel = site.channel()
    channel.queue_declare("q", durable=True)
    site.publish(channel, "q", "new")
    site.crash()
    assert site.bodies("q") == ["new"]
