"""pika's BlockingConnection over time: parameters, heartbeats, threads, and cut connections."""

from __future__ import annotations

import threading

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel as Channel
from pika.exceptions import AMQPConnectionError, ProbableAccessDeniedError
from pika.spec import Basic

from headrace.testing import wait_for
from support.endpoint import Address, Names
from support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.timeout(30)


def connect(url: str) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(url))


def test_url_parameters_are_negotiated(amqp_address: Address) -> None:
    url = f"{amqp_address.url}?heartbeat=7&frame_max=8192&channel_max=5&connection_attempts=1"

    with connect(url) as connection:
        parameters = connection._impl.params
        assert (parameters.heartbeat, parameters.frame_max, parameters.channel_max) == (7, 8192, 5)
        assert [connection.channel().channel_number for _ in range(5)] == [1, 2, 3, 4, 5]


def test_small_frames_carry_large_bodies(amqp_address: Address, names: Names) -> None:
    queue, body = names.queue(), b"0123456789" * 10_000
    with connect(f"{amqp_address.url}?frame_max=4096") as connection:
        channel = connection.channel()
        channel.queue_declare(queue)

        channel.basic_publish("", queue, body)

        assert channel.basic_get(queue, auto_ack=True)[2] == body


def test_an_unknown_vhost_is_refused(amqp_address: Address) -> None:
    with pytest.raises(ProbableAccessDeniedError):
        connect(f"amqp://guest:guest@{amqp_address.host}:{amqp_address.port}/no-such-vhost")


def test_the_server_names_itself_and_its_capabilities(amqp_address: Address) -> None:
    with connect(amqp_address.url) as connection:
        capabilities = connection._impl.server_capabilities
        wanted = {"publisher_confirms", "exchange_exchange_bindings", "basic.nack",
                  "consumer_cancel_notify", "connection.blocked", "authentication_failure_close",
                  "direct_reply_to", "per_consumer_qos", "consumer_priorities"}  # fmt: skip
        assert {name for name in wanted if capabilities.get(name)} == wanted
        assert connection.publisher_confirms_supported
        assert connection.exchange_exchange_bindings_supported


def test_blocked_callbacks_are_accepted_and_stay_silent(
    amqp_address: Address, names: Names
) -> None:
    heard: list[str] = []
    queue = names.queue()
    with connect(f"{amqp_address.url}?blocked_connection_timeout=5") as connection:
        connection.add_on_connection_blocked_callback(lambda *_: heard.append("blocked"))
        connection.add_on_connection_unblocked_callback(lambda *_: heard.append("unblocked"))
        channel = connection.channel()
        channel.queue_declare(queue)
        channel.confirm_delivery()
        channel.basic_publish("", queue, b"free")

    assert heard == []


def test_an_idle_connection_lives_on_heartbeats(amqp_address: Address) -> None:
    with connect(f"{amqp_address.url}?heartbeat=1") as connection:
        # pika gives up after two silent intervals, and so does the broker
        connection.process_data_events(time_limit=3.2)

        assert connection.is_open
        assert connection.channel().queue_declare("", exclusive=True).method.message_count == 0


def test_a_client_that_stops_sending_heartbeats_is_disconnected(amqp_address: Address) -> None:
    connection = connect(f"{amqp_address.url}?heartbeat=1")
    connection._impl._heartbeat_checker._send_heartbeat = lambda: None
    connection._impl._heartbeat_checker._check_interval = 60

    with pytest.raises(AMQPConnectionError):
        while True:
            connection.process_data_events(time_limit=1)


def test_threads_with_their_own_connections_share_a_queue(
    amqp_address: Address, names: Names
) -> None:
    queue, each, workers = names.queue(), 50, 4
    with connect(amqp_address.url) as connection:
        connection.channel().queue_declare(queue)

    def publish(worker: int) -> None:
        with connect(amqp_address.url) as mine:
            channel = mine.channel()
            channel.confirm_delivery()
            for number in range(each):
                channel.basic_publish("", queue, b"%d.%d" % (worker, number))

    threads = [threading.Thread(target=publish, args=(worker,)) for worker in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    with connect(amqp_address.url) as connection:
        channel = connection.channel()
        bodies = [channel.basic_get(queue, auto_ack=True)[2] for _ in range(each * workers)]
    assert set(bodies) == {b"%d.%d" % (w, n) for w in range(workers) for n in range(each)}


def test_another_thread_acknowledges_through_the_connection(
    amqp_address: Address, names: Names
) -> None:
    queue = names.queue()
    with connect(amqp_address.url) as connection:
        channel = connection.channel()
        channel.queue_declare(queue)
        channel.basic_publish("", queue, b"work")

        def finish(tag: int) -> None:
            channel.basic_ack(tag)
            channel.stop_consuming()

        def on_message(
            _channel: Channel, method: Basic.Deliver, _properties: object, _body: bytes
        ) -> None:
            work = (lambda: finish(method.delivery_tag),)
            threading.Thread(target=connection.add_callback_threadsafe, args=work).start()

        channel.basic_consume(queue, on_message)
        channel.start_consuming()

    with connect(amqp_address.url) as connection:
        assert connection.channel().queue_declare(queue, passive=True).method.message_count == 0


def test_unacked_messages_are_redelivered_after_a_cut(
    proxy: TcpProxy, proxy_address: Address, names: Names
) -> None:
    queue = names.queue()
    connection = connect(proxy_address.url)
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    channel.basic_publish("", queue, b"acked")
    channel.basic_publish("", queue, b"held")
    channel.basic_ack(channel.basic_get(queue)[0].delivery_tag)
    assert channel.basic_get(queue)[2] == b"held"
    channel.queue_declare(queue, passive=True)  # the ack has been handled once this is answered

    assert proxy.cut() == 1
    with pytest.raises(AMQPConnectionError):
        connection.process_data_events(time_limit=5)

    with connect(proxy_address.url) as second:
        channel = second.channel()
        method, _, body = wait_for(lambda: _got(channel, queue))
        assert (body, method.redelivered) == (b"held", True)
        assert channel.basic_get(queue)[0] is None


def test_a_cut_consumer_does_not_keep_its_exclusive_queue(
    proxy: TcpProxy, proxy_address: Address, amqp_address: Address
) -> None:
    connection = connect(proxy_address.url)
    queue = connection.channel().queue_declare("", exclusive=True).method.queue
    proxy.cut()
    with pytest.raises(AMQPConnectionError):
        connection.process_data_events(time_limit=5)

    with connect(amqp_address.url) as other:
        wait_for(lambda: not _exists(other, queue))


def test_a_client_reconnects_once_the_broker_accepts_again(
    proxy: TcpProxy, proxy_address: Address
) -> None:
    proxy.refuse()
    with pytest.raises(AMQPConnectionError):
        connect(f"{proxy_address.url}?connection_attempts=2&retry_delay=0.05")

    proxy.accept()
    with connect(f"{proxy_address.url}?connection_attempts=2&retry_delay=0.05") as connection:
        assert connection.is_open
    assert proxy.accepted >= 3


def _got(channel: Channel, queue: str) -> tuple | None:
    delivery = channel.basic_get(queue)
    return delivery if delivery[0] else None


def _exists(connection: pika.BlockingConnection, queue: str) -> bool:
    try:
        connection.channel().queue_declare(queue, passive=True)
    except pika.exceptions.ChannelClosedByBroker as error:
        # 405 means the broker has not noticed the cut yet
        return error.reply_code != 404
    return True
