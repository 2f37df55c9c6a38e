"""The SDK over TLS, against a broker that takes nothing else."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from headrace.rocketmq import (
    AsyncProducer,
    ConcurrentConsumer,
    ConsumerConfig,
    ConsumeResult,
    Message,
    MessageExt,
    Producer,
    ProducerConfig,
)
from headrace.rocketmq.errors import ConfigurationError, RocketMQError
from headrace.rocketmq.queue_reader import QueueReader
from headrace.testing import RunningBroker, run_broker, wait_for

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def broker(
    authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    directory: Path = tmp_path_factory.mktemp("tls")
    server = authority.issue_cert("127.0.0.1", "localhost")
    cert, key = directory / "cert.pem", directory / "key.pem"
    server.cert_chain_pems[0].write_to_path(cert)
    server.private_key_pem.write_to_path(key)
    with run_broker(sync=False, tls_cert=cert, tls_key=key, remoting_tls="required") as running:
        yield running


@pytest.fixture
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def names(broker: RunningBroker) -> str:
    return f"127.0.0.1:{broker.ports['namesrv']}"


def producer(broker: RunningBroker, tls: bool | ssl.SSLContext) -> Producer:
    return Producer(ProducerConfig("pg", names(broker), tls=tls, compress_over=0))


def test_messages_of_all_sizes_go_there_and_back(
    broker: RunningBroker, trusting: ssl.SSLContext
) -> None:
    bodies = {b"small", b"m" * 70_000, b"l" * 3_000_000}
    got: set[bytes] = set()

    def listen(messages: list[MessageExt]) -> ConsumeResult:
        got.update(message.body for message in messages)
        return ConsumeResult.SUCCESS

    config = ConsumerConfig(
        "there",
        names(broker),
        tls=trusting,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",  # type: ignore[arg-type]
    )
    with producer(broker, trusting) as sender:
        for body in bodies:
            sender.send(Message("there", body))
        consumer = ConcurrentConsumer(config)
        consumer.subscribe("there")
        consumer.register_message_listener(listen)
        with consumer:
            wait_for(lambda: got == bodies, timeout=30)


def test_many_threads_share_a_connection(broker: RunningBroker, trusting: ssl.SSLContext) -> None:
    with producer(broker, trusting) as sender:
        sender.send(Message("shared", b"first"))
        futures = []

        def work(number: int) -> None:
            for at in range(20):
                body = b"%d " % number * (1 + at * 997)
                futures.append(sender.send_async(Message("shared", body)))
                sender.send(Message("shared", body))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for future in futures:
            future.result(20)
    with QueueReader(names(broker), tls=trusting) as reader:
        ends = [reader.max_offset(queue) for queue in reader.queues("shared")]
    assert sum(ends) == 1 + 8 * 20 * 2


def test_asyncio(broker: RunningBroker, trusting: ssl.SSLContext) -> None:
    async def live() -> None:
        config = ProducerConfig("pg", names(broker), tls=trusting)
        async with AsyncProducer(config) as sender:
            await asyncio.gather(*(sender.send(Message("aio", b"x" * n)) for n in range(1, 50)))

    asyncio.run(live())


def test_an_untrusted_certificate_is_refused(broker: RunningBroker) -> None:
    why = r"no TLS with 127\.0\.0\.1.*CERTIFICATE_VERIFY_FAILED"
    with pytest.raises(RocketMQError, match=why), producer(broker, tls=True) as sender:
        sender.send(Message("t", b"x"))


def test_plain_text_is_not_taken_here(broker: RunningBroker) -> None:
    with pytest.raises(RocketMQError), producer(broker, tls=False) as sender:
        sender.send(Message("t", b"x"))


def test_tls_with_a_plain_server_is_reported() -> None:
    with run_broker(sync=False) as plain, pytest.raises(RocketMQError):
        producer(plain, tls=True).start()


def test_anything_else_is_no_tls_setting() -> None:
    with pytest.raises(ConfigurationError, match="tls is 'yes'"):
        ProducerConfig("pg", "127.0.0.1:9876", tls="yes")  # type: ignore[arg-type]
