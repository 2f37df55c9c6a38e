"""Attacks by what is hard to decode, to match or to inflate."""

from __future__ import annotations

import json
import socket
import urllib.error
import zlib
from collections.abc import Generator
from urllib.parse import quote

from headrace.bulk.client import BulkConnection
from headrace.client.errors import HeadraceError
from headrace.client.settings import Settings
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.content import make_content
from headrace.wire.amqp.method_codec import method_frame
from headrace.wire.amqp.properties import HeaderTable, Properties
from headrace.wire.native.frames import frame
from headrace.wire.native.payloads import Op, message
from headrace.wire.remoting.codes import RequestCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.frames import Reader, command_bytes
from headrace.wire.remoting.headers.send import SendMessage
from headrace.wire.remoting.message import BatchElement, batch_bytes
from support.attacks import attack
from support.attacks.target import STRANGER, USER, Target, declare

Steps = Generator[None, None, None]
SLOW_NAME = "a" * 100
SLOW = "^" + "a?" * 28 + "a" * 28 + "b$"  # backtracking takes minutes for SLOW_NAME
SLOWER = r"(?!x)(a|aa)+$"
COMPRESSED = 1


def _tagged(target: Target, tag: str) -> None:
    target.admin("PUT", f"users/{USER}", {"password": USER, "tags": tag})


def _with_slow_names(target: Target, count: int) -> None:
    link = target.amqp()
    for n in range(count):
        declare(link, SLOW_NAME + f"{n:04}!")


# -- patterns --------------------------------------------------------------------------------------


@attack("regular expressions in 20 lists of 1,000 queues")
def patterns_of_lists(target: Target) -> Steps:
    _tagged(target, "management")
    _with_slow_names(target, 1000)
    yield
    for n in range(20):
        pattern = quote((SLOW, SLOWER)[n % 2])
        target.http("GET", f"queues?page=1&use_regex=true&name={pattern}")


@attack("20 policies with slow regular expressions for 1,000 queues")
def patterns_of_policies(target: Target) -> Steps:
    _tagged(target, "policymaker")
    _with_slow_names(target, 1000)
    yield
    for n in range(20):
        policy = {"pattern": (SLOW, SLOWER)[n % 2], "definition": {"max-length": 5}}
        target.http("PUT", f"policies/%2F/p{n}", policy)


@attack("500 declarations checked with a slow permission")
def patterns_of_permissions(target: Target) -> Steps:
    _tagged(target, "management")
    slow = {"configure": SLOWER, "write": "", "read": ""}
    target.admin("PUT", f"permissions/%2F/{USER}", slow)
    yield
    for n in range(500):
        try:
            target.http("PUT", f"queues/%2F/{SLOW_NAME}{n}!", {})
        except urllib.error.HTTPError as error:
            assert error.code == 401


# -- the native protocol ---------------------------------------------------------------------------


def _native(target: Target, user: str) -> BulkConnection:
    settings = Settings(port=target.broker.native_port, user=user, password=user)
    return target.stack.enter_context(BulkConnection(settings))


@attack("5,000 empty staged batches by a user without rights")
def empty_batches(target: Target) -> Steps:
    bulk = _native(target, STRANGER)
    yield
    for n in range(5000):
        try:
            bulk.stage("query", n, "a", [])
        except HeadraceError:
            pass


@attack("2,000 staged batches of 1 MiB", memory_mib=100)
def large_batches(target: Target) -> Steps:
    bulk = _native(target, USER)
    messages = [{"exchange": "", "key": "q", "body": bytes(1 << 20)}]
    yield
    for n in range(2000):
        try:
            bulk.stage("query", n, "a", messages)
        except HeadraceError:
            pass


def _staged(target: Target, topic: str | None, mode: int = 2) -> BulkConnection:
    """240 MB, staged for a queue or a topic."""
    bulk = _native(target, USER)
    bulk.call(Op.QUEUE_DECLARE, name="q", durable=True)
    if topic is not None:
        bulk.call(Op.TOPIC_DECLARE, name=topic)
    one: dict[str, object] = {"body": bytes(1000)}
    if topic is None:
        one |= {"exchange": "", "key": "q", "properties": {"delivery_mode": mode}}
    for _ in range(96):
        bulk.stage("query", 0, "a", [one] * 2500, topic=topic)
    return bulk


@attack("publication of a staged batch of 240 MB to a queue, persistent", memory_mib=1024)
def publish_batch(target: Target) -> Steps:
    bulk = _staged(target, None)
    yield
    assert bulk.publish_staged("query", 0, ["a"])


@attack("publication of a staged batch of 240 MB to a queue, not persistent", memory_mib=128)
def publish_transient_batch(target: Target) -> Steps:
    bulk = _staged(target, None, mode=1)
    yield
    assert bulk.publish_staged("query", 0, ["a"])


@attack("publication of a staged batch of 240 MB to a topic", memory_mib=1024)
def publish_batch_to_topic(target: Target) -> Steps:
    bulk = _staged(target, "t")
    yield
    assert bulk.publish_staged("query", 0, ["a"])


@attack("20 native frames of 59 MiB of empty maps by a user without rights")
def empty_maps(target: Target) -> Steps:
    maps = (b"\xdc\x20\x00" + b"\x80" * 8192) * 7200
    payload = b"\x82\xa3rid\x01\xa5batch\xdc\x1c\x20" + maps
    hello = {"rid": 0, "version": 1, "user": STRANGER, "password": STRANGER}
    yield
    for _ in range(20):
        with target.raw("native") as peer:
            peer.sendall(message(Op.HELLO, hello))
            peer.recv(4096)
            peer.sendall(frame(Op.PUBLISH, payload))
            while peer.recv(1 << 16):
                pass


@attack("100 native frames of as many values as are allowed")
def many_values(target: Target) -> Steps:
    bulk = _native(target, STRANGER)
    rows = [["abc"] * 8000 for _ in range(32)]
    yield
    for _ in range(100):
        try:
            bulk.call(Op.PUBLISH, batch=[{"exchange": "", "key": "q", "body": b"", "x": rows}])
        except HeadraceError:
            pass


# -- HTTP ------------------------------------------------------------------------------------------


@attack("HTTP bodies of 32 MiB of empty objects")
def empty_objects(target: Target) -> Steps:
    _tagged(target, "management")
    body = b'{"arguments": [' + b"{}," * (11 << 20) + b"{}]}"
    yield
    for _ in range(3):
        target.http("PUT", "queues/%2F/q", body[: (32 << 20) - 1])


@attack("50 HTTP bodies of 1 MiB of empty objects")
def small_empty_objects(target: Target) -> Steps:
    _tagged(target, "management")
    body = b'{"x": [' + b"{}," * 349_000 + b"{}]}"
    yield
    for _ in range(50):
        target.http("PUT", "queues/%2F/q", body)


@attack("10 HTTP publishes of 21 MiB of empty objects")
def publish_empty_objects(target: Target) -> Steps:
    _tagged(target, "management")
    body = b'{"payload": [' + b"{}," * (7 << 20) + b"{}]}"
    yield
    for _ in range(10):
        try:
            target.http("POST", "exchanges/%2F/amq.default/publish", body)
        except urllib.error.HTTPError as error:
            assert error.code == 400


@attack("definitions of 30 MiB by an administrator", memory_mib=900)
def definitions(target: Target) -> Steps:
    bindings = [
        {"source": "amq.direct", "vhost": "/", "destination": f"q{n % 50}", "routing_key": f"k{n}",
         "destination_type": "queue", "arguments": {}, "note": "x" * 30} for n in range(150_000)
    ]  # fmt: skip
    queues = [{"name": f"q{n}", "vhost": "/", "durable": True} for n in range(50)]
    body = json.dumps({"queues": queues, "bindings": bindings}, indent=1).encode()
    yield
    target.admin("POST", "definitions", body)


# -- RocketMQ --------------------------------------------------------------------------------------


def _answers(peer: socket.socket, count: int) -> list[Command]:
    reader, answers = Reader(), list[Command]()
    while len(answers) < count and (data := peer.recv(1 << 16)):
        answers += reader.feed(data)
    return answers


def _send(body: bytes, opaque: int, *, batch: bool = False) -> bytes:
    header = SendMessage("PG", "T", 0, COMPRESSED, 1, batch=batch)
    return command_bytes(Command(RequestCode.SEND_MESSAGE, header.ext(), body, opaque=opaque))


@attack("60 RocketMQ sends of 16 KiB that inflate to 16 MiB", memory_mib=400)
def bombs(target: Target) -> Steps:
    bomb = zlib.compress(bytes((16 << 20) - 100))
    yield
    with target.raw("remoting") as peer:
        peer.sendall(b"".join(_send(bomb, n) for n in range(60)))
        _answers(peer, 60)


@attack("a RocketMQ batch of 60 bodies that inflate to 16 MiB")
def batch_of_bombs(target: Target) -> Steps:
    bomb = BatchElement(0, zlib.compress(bytes((16 << 20) - 100)), b"")
    yield
    with target.raw("remoting") as peer:
        peer.sendall(_send(batch_bytes([bomb] * 50), 1, batch=True))
        _answers(peer, 1)


@attack("100 RocketMQ heartbeats of 15 MiB that are no JSON")
def heartbeats(target: Target) -> Steps:
    body = b"{0:[" + b"[]," * (5 << 20) + b"1]}"
    yield
    with target.raw("remoting") as peer:
        peer.sendall(command_bytes(Command(RequestCode.GET_ALL_TOPIC_CONFIG, opaque=1)))
        _answers(peer, 1)
        for n in range(100):
            peer.sendall(command_bytes(Command(RequestCode.HEART_BEAT, body=body, opaque=n)))
            _answers(peer, 1)


# -- AMQP ------------------------------------------------------------------------------------------


@attack("2,000 publishes to a headers exchange with 5,000 bindings")
def headers(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "q")
    wanted: list[dict[str, object]] = [{"type": "report", "id": n} for n in range(5000)]
    link.flood_methods(
        [method_frame(1, m.QueueBind(0, "q", "amq.headers", "", True, one)) for one in wanted]
    )
    publish = method_frame(1, m.BasicPublish(exchange="amq.headers"))
    sent = [
        Properties(headers=HeaderTable.of({"type": "report", "id": -n})) for n in range(1, 2001)
    ]
    yield
    link.send_bytes(b"".join(publish + make_content(one, b"", 1) for one in sent))
    link.barrier()


@attack("200 declarations with 128 KiB of empty tables")
def empty_tables(target: Target) -> Steps:
    link = target.amqp()
    arguments: dict[str, object] = {"x": [{}] * 26_000}
    declared = method_frame(1, m.ExchangeDeclare(exchange="e", type="direct", nowait=True,
                                                   arguments=arguments))  # fmt: skip
    yield
    link.flood_methods([declared] * 200)
