"""The broker under attack, and the ways in that an ordinary user has."""

from __future__ import annotations

import base64
import json
import socket
import urllib.request
from contextlib import ExitStack
from urllib.parse import quote

from headrace.testing.amqp_connection import RawConnection
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.content import make_content
from headrace.wire.amqp.method_codec import method_frame
from headrace.wire.amqp.properties import Properties
from support.brokers import Broker

USER = "mallory"  # may use everything in the vhost "/", and has no tag
STRANGER = "stranger"  # may log in, and nothing else


class UserLink(RawConnection):
    """A connection of one of these users, with channel 1 open."""

    def __init__(self, port: int, user: str) -> None:
        self._user = user
        super().__init__(port)
        self.open_channel(1)

    def _handshake(self, heartbeat: int, vhost: str) -> None:
        self.send_bytes(b"AMQP\x00\x00\x09\x01")
        self.wait_for(m.ConnectionStart)
        response = f"\0{self._user}\0{self._user}".encode()
        capabilities = {"basic.nack": True, "publisher_confirms": True, "connection.blocked": True}
        self.send(
            0, m.ConnectionStartOk({"capabilities": capabilities}, "PLAIN", response, "en_US")
        )
        self.wait_for(m.ConnectionTune)
        self.send(0, m.ConnectionTuneOk(2047, 131072, heartbeat))
        self.call(0, m.ConnectionOpen(vhost), m.ConnectionOpenOk)

    @property
    def sock(self) -> socket.socket:
        return self._socket

    def flood(self, key: str, count: int, body: bytes = b"x", *, mode: int = 1) -> None:
        """Publish many messages to a queue and wait until the broker has taken them."""
        one = method_frame(1, m.BasicPublish(routing_key=key))
        one += make_content(Properties(delivery_mode=mode), body, 1)
        at_once = max(1, min(count, (1 << 20) // len(one)))
        for done in range(0, count, at_once):
            self.send_bytes(one * min(at_once, count - done))
        self.barrier()

    def flood_methods(self, methods: list[bytes]) -> None:
        """Send frames of methods without an answer and wait until the broker has done them."""
        for first in range(0, len(methods), 10_000):
            self.send_bytes(b"".join(methods[first : first + 10_000]))
        self.barrier()

    def barrier(self, seconds: float = 60.0) -> None:
        """Wait until everything sent so far is done; other answers are dropped."""
        self.send(1, m.BasicQos(prefetch_count=0, global_=True))
        self.wait_for(m.BasicQosOk, 1, seconds)


class Target:
    """A broker; whatever an attack opens is closed in the end."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.stack = ExitStack()
        for user in (USER, STRANGER):
            self.admin("PUT", f"users/{user}", {"password": user, "tags": ""})
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        nothing = {"configure": "", "write": "", "read": ""}
        self.admin("PUT", f"permissions/%2F/{USER}", everything)
        self.admin("PUT", f"permissions/%2F/{STRANGER}", nothing)

    def amqp(self, user: str = USER) -> UserLink:
        link = UserLink(self.broker.amqp_port, user)
        self.stack.callback(link.close)
        return link

    def raw(self, port: str = "amqp") -> socket.socket:
        """A socket on which nothing was said yet."""
        opened = socket.create_connection(("127.0.0.1", self.broker.ports[port]), timeout=20)
        self.stack.callback(opened.close)
        return opened

    def http(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        user: str = USER,
        password: str | None = None,
    ) -> bytes:
        """The answer of the management API; urllib's HTTPError when it refuses."""
        login = f"{user}:{user if password is None else password}".encode()
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.broker.ports['http']}/api/{path}",
            data=None if body is None else data,
            method=method,
            headers={
                "Authorization": "Basic " + base64.b64encode(login).decode(),
                "Content-Type": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            read: bytes = answer.read()
            return read

    def admin(self, method: str, path: str, body: object = None) -> bytes:
        return self.http(method, path, body, user="guest")

    def depth(self, queue: str) -> int:
        """Ready messages, as the management API counts them."""
        return int(json.loads(self.admin("GET", f"queues/%2F/{quote(queue)}"))["messages_ready"])


def declare(link: UserLink, queue: str, **arguments: object) -> None:
    names = {key.replace("_", "-"): value for key, value in arguments.items()}
    durable = bool(names.pop("durable", False))
    method = m.QueueDeclare(queue=queue, durable=durable, arguments=names)
    link.call(1, method, m.QueueDeclareOk)
