"""Bodies compressed by other producers: readable, or a failed message; never garbage."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from dataclasses import replace

import lz4.frame
import pytest
import zstandard

from headrace.rocketmq import (
    BodyError,
    ConcurrentConsumer,
    ConsumeResult,
    MessageExt,
    MessageQueue,
    OrderlyConsumer,
    QueueReader,
)
from headrace.testing import wait_for
from headrace.wire.remoting.codes import SysFlag
from support.rocketmq.fake_server import BROKER, Fake

Consume = Callable[..., ConcurrentConsumer]
BODY = b"hello " * 100
ZLIB = (zlib.compress(BODY), SysFlag.ZLIB)
LZ4 = (lz4.frame.compress(BODY), SysFlag.LZ4)
ZSTD = (zstandard.ZstdCompressor().compress(BODY), SysFlag.ZSTD)


def put(fake: Fake, data: bytes, kind: int, topic: str = "T") -> None:
    fake.put(topic, data)
    stored = fake.messages[topic, 0]
    stored[-1] = replace(stored[-1], sys_flag=int(SysFlag.COMPRESSED | kind))


class Listener:
    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def __call__(self, messages: list[MessageExt]) -> ConsumeResult:
        self.bodies += [one.body for one in messages]
        return ConsumeResult.SUCCESS


@pytest.mark.parametrize("body", [ZLIB, LZ4, ZSTD], ids=["zlib", "lz4", "zstd"])
def test_a_listener_gets_the_body_as_it_was_sent(
    fake: Fake, consume: Consume, body: tuple[bytes, int]
) -> None:
    put(fake, *body)
    listener = Listener()
    consume(ConcurrentConsumer, listener)
    wait_for(lambda: listener.bodies == [BODY])


@pytest.mark.parametrize("kind", [ConcurrentConsumer, OrderlyConsumer])
@pytest.mark.parametrize(
    ("body", "library"), [(LZ4, "lz4.frame"), (ZSTD, "zstandard"), ((b"garbage", 0x300), "-")]
)
def test_a_body_that_cannot_be_read_goes_to_the_dead_letters(
    fake: Fake,
    consume: Consume,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: type[ConcurrentConsumer],
    body: tuple[bytes, int],
    library: str,
) -> None:
    """The messages before and after it are delivered, also where listeners get batches."""
    monkeypatch.setitem(sys.modules, library, None)
    fake.put("T", b"before")
    put(fake, *body)
    fake.put("T", b"after")
    listener = Listener()
    settings = {"max_reconsume_times": 0, "orderly_max_reconsume_times": 0}
    consume(kind, listener, consume_message_batch_max_size=10, **settings)
    wait_for(lambda: fake.messages["%DLQ%g", 0])
    assert fake.messages["%DLQ%g", 0][0].body == body[0]
    wait_for(lambda: sorted(listener.bodies) == [b"after", b"before"])
    assert library == "-" or "pip install 'headrace[rocketmq]'" in caplog.text


def test_a_reader_refuses_a_body_that_cannot_be_read(fake: Fake) -> None:
    fake.put("T", b"before")
    put(fake, b"garbage", SysFlag.ZLIB)
    queue = MessageQueue("T", BROKER, 0)
    with QueueReader(fake.address) as reader:
        reader.queues("T")
        batches = reader.read(queue, 0, 2)
        assert [one.body for one in next(batches)] == [b"before"]
        with pytest.raises(BodyError, match="damaged"):
            next(batches)
