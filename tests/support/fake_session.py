"""A session without a connection: as much of one as channels and publishers need."""

from __future__ import annotations

from typing import cast

from headrace.core.access.user import User
from headrace.core.exchange import Exchange
from headrace.core.vhost import Vhost
from headrace.model.permissions import Permissions
from headrace.server.amqp.channel import Channel
from headrace.server.amqp.publisher import Publisher
from headrace.server.amqp.session import Session
from headrace.server.base_channel import SessionOutput
from headrace.wire.amqp.content import body_of
from headrace.wire.amqp.method_codec import Method, decode_method, method_frame
from headrace.wire.amqp.methods import BasicDeliver, BasicReturn
from support.fake_loop import Stage

Sent = tuple[int, Method, str | None]  # channel, method, body


class Desk:
    """Collects what a client would be sent."""

    def __init__(self, stage: Stage) -> None:
        self.turn = stage.turn
        self.open_vhost: Vhost = stage.vhost
        self.user = User("guest", permissions={"/": Permissions(".*", ".*", ".*")})
        self.output = SessionOutput(stage.turn, self.flush)
        self.confirming: set[Channel] = set()
        self.small_frames = False
        self.frame_max = 131072
        self.notify_cancel = True
        self.publisher = Publisher(self.session)

    @property
    def session(self) -> Session:
        return cast(Session, self)

    def check(self, action: str, kind: str, name: str) -> None:
        self.user.check("/", action, kind, name)

    def check_key(self, action: str, exchange: Exchange, key: str) -> None:
        if exchange.router.kind == "topic":
            self.user.check_topic("/", action, exchange.name, key)

    def send(self, channel: int, method: Method) -> None:
        self.output.parts.append(method_frame(channel, method))

    notify = send

    def send_bytes(self, data: bytes) -> None:
        self.output.parts.append(data)

    def flush(self) -> None:
        """The turn is over; what was sent stays until a test takes it."""

    def take(self) -> list[Sent]:
        """Everything sent so far, decoded."""
        data = b"".join(self.output.parts)
        self.output.parts.clear()
        frames = frames_in(data)
        sent: list[Sent] = []
        while frames:
            kind, channel, whole = frames.pop(0)
            assert kind == 1
            method = decode_method(whole[7:-1])
            content = b""
            while frames and frames[0][0] != 1:
                assert frames[0][1] == channel
                content += frames.pop(0)[2]
            assert bool(content) == isinstance(method, BasicDeliver | BasicReturn)
            sent.append((channel, method, body_of(content).decode() if content else None))
        return sent


def frames_in(data: bytes) -> list[tuple[int, int, bytes]]:
    """Kind, channel and bytes of each frame."""
    frames = []
    offset = 0
    while offset < len(data):
        size = int.from_bytes(data[offset + 3 : offset + 7], "big")
        end = offset + 8 + size
        assert data[end - 1] == 0xCE
        frames.append((data[offset], int.from_bytes(data[offset + 1 : offset + 3], "big"),
                       data[offset:end]))  # fmt: skip
        offset = end
    return frames
