"""Attacks by the size of the topology: bindings, queues, lists of them."""

from __future__ import annotations

import json
from collections.abc import Generator

from headrace.wire.amqp import methods as m
from headrace.wire.amqp.content import make_content
from headrace.wire.amqp.method_codec import method_frame
from headrace.wire.amqp.properties import Properties
from support.attacks import attack
from support.attacks.target import Target, UserLink, declare

Steps = Generator[None, None, None]
MANY = 300_000


def _bind(link: UserLink, exchange: str, keys: list[str]) -> None:
    binds = [m.QueueBind(0, "q", exchange, key, True) for key in keys]
    link.flood_methods([method_frame(1, bind) for bind in binds])


@attack("300,000 bindings of one queue are added", memory_mib=600)
def add_bindings(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "q")
    yield
    _bind(link, "amq.direct", [f"k{i}" for i in range(MANY)])


@attack("deletion of a queue with 300,000 bindings")
def delete_bound_queue(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "q")
    _bind(link, "amq.direct", [f"k{i}" for i in range(MANY)])
    yield
    link.send(1, m.QueueDelete(queue="q"))
    link.wait_for(m.QueueDeleteOk, 1, 60)


@attack("deletion of an exchange with 300,000 durable bindings", memory_mib=600)
def delete_bound_exchange(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "q", durable=True)
    declared = m.ExchangeDeclare(exchange="e", type="topic", durable=True)
    link.call(1, declared, m.ExchangeDeclareOk)
    _bind(link, "e", [f"a.k{i}.#" for i in range(100_000)])
    yield
    link.send(1, m.ExchangeDelete(exchange="e"))
    link.wait_for(m.ExchangeDeleteOk, 1, 60)


@attack("GET of 300,000 bindings", memory_mib=600)
def list_bindings(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "q")
    target.admin("PUT", "users/mallory", {"password": "mallory", "tags": "management"})
    _bind(link, "amq.direct", [f"k{i}" for i in range(MANY)])
    yield
    assert len(json.loads(target.http("GET", "bindings/%2F"))) > MANY


@attack("GET of 20,000 queues, sorted", memory_mib=400)
def list_queues(target: Target) -> Steps:
    link = target.amqp()
    target.admin("PUT", "users/mallory", {"password": "mallory", "tags": "management"})
    link.flood_methods(
        [method_frame(1, m.QueueDeclare(queue=f"q{i}", nowait=True)) for i in range(20_000)]
    )
    yield
    assert len(json.loads(target.http("GET", "queues?sort=name"))) > 20_000


@attack("topic bindings of the form #.#.#.# and keys of 120 words")
def many_hashes(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "q", x_max_length=10)
    _bind(link, "amq.topic", [f"#.{'#.' * (i % 100)}x{i}.#" for i in range(1000)])
    publish = b"".join(
        method_frame(1, m.BasicPublish(exchange="amq.topic", routing_key=f"{i}" + ".a" * 120))
        + make_content(Properties(), b"x", 1)
        for i in range(2000)
    )
    yield
    link.send_bytes(publish)
    link.barrier()


@attack("300,000 queues declared by one user, watermark 250 MiB",
        env={"HEADRACE_MEMORY_HIGH_WATERMARK": "250MiB"})  # fmt: skip
def many_queues(target: Target) -> Steps:
    link = target.amqp()
    link.sock.settimeout(3)
    yield
    for first in range(0, MANY, 5000):
        link.send_bytes(
            b"".join(
                method_frame(1, m.QueueDeclare(queue=f"q{i}", nowait=True))
                for i in range(first, first + 5000)
            )
        )


@attack("1,000,000 bindings added by one user, watermark 250 MiB",
        env={"HEADRACE_MEMORY_HIGH_WATERMARK": "250MiB"})  # fmt: skip
def endless_bindings(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "q")
    link.sock.settimeout(3)
    yield
    for first in range(0, 1_000_000, 5000):
        link.send_bytes(
            b"".join(
                method_frame(
                    1,
                    m.QueueBind(queue="q", exchange="amq.direct", routing_key=f"k{i}", nowait=True),
                )
                for i in range(first, first + 5000)
            )
        )


@attack("import of definitions with 20,000 queues and 100,000 bindings", memory_mib=600)
def large_import(target: Target) -> Steps:
    queues = [
        {"name": f"q{i}", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
        for i in range(20_000)
    ]
    bindings = [
        {"source": "amq.direct", "vhost": "/", "destination": f"q{i % 20_000}",
         "destination_type": "queue", "routing_key": f"k{i}", "arguments": {}}
        for i in range(100_000)
    ]  # fmt: skip
    body = json.dumps({"queues": queues, "bindings": bindings}).encode()
    yield
    target.http("POST", "definitions", body, user="guest")
