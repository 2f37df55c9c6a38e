"""What is taken away is gone at once: from publishers, consumers, connections."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from headrace.testing import wait_for
from headrace.wire.native.payloads import Op
from support.access_matrix import PASSWORD, USER, Site, add_user, clear
from support.raw_native import Native, Refused

Q = "q"


@pytest.fixture(autouse=True)
def fresh(site: Site) -> Iterator[None]:
    site.do(lambda broker: add_user(broker, USER, PASSWORD))
    site.allow_everything()
    with site.as_guest() as channel:
        channel.queue_declare(Q)
        yield
    site.do(clear)


@pytest.fixture
def native(site: Site) -> Iterator[Native]:
    native = Native(("127.0.0.1", site.running.ports["native"]))
    native.hello(user=USER, password=PASSWORD)
    native.call(Op.CHANNEL_OPEN, 1)
    yield native
    native.close()


def consume(connection: pika.BlockingConnection, queue: str = Q) -> BlockingChannel:
    channel = connection.channel()
    channel.basic_consume(queue, lambda *_: None)
    return channel


# -- AMQP -----------------------------------------------------------------------------------------


def test_a_running_consumer_ends_when_reading_is_forbidden(site: Site) -> None:
    with site.connection() as connection, site.as_guest() as guest:
        guest.queue_declare("other")
        victim, spared = consume(connection), consume(connection, "other")
        guest.basic_publish("", Q, b"unacknowledged")
        wait_for(lambda: site.running.queue(Q).unacknowledged == 1)
        site.allow("", "", "^other$")
        with pytest.raises(ChannelClosedByBroker) as closed:
            victim.start_consuming()

        assert closed.value.reply_code == 403
        assert closed.value.reply_text == (
            f"ACCESS_REFUSED - access to queue '{Q}' in vhost '/' refused for user '{USER}'"
        )
        assert spared.is_open
        spared.basic_qos(prefetch_count=1)
        state = site.running.queue(Q)
        assert (state.messages, state.consumers) == (1, 0)  # it is there for somebody else


def test_a_publisher_is_refused_from_the_next_message_on(site: Site) -> None:
    with site.connection() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", Q, b"1")
        site.allow(".*", "", ".*")
        with pytest.raises(ChannelClosedByBroker) as closed:
            channel.basic_publish("", Q, b"2")

    assert closed.value.reply_code == 403
    assert "exchange 'amq.default'" in closed.value.reply_text
    assert site.running.queue(Q).messages == 1


def test_a_transaction_that_was_allowed_when_it_began_is_refused_at_its_end(site: Site) -> None:
    with site.connection() as connection:
        channel = connection.channel()
        channel.tx_select()
        channel.basic_publish("", Q, b"1")
        channel.basic_qos(prefetch_count=1)  # the publish has arrived
        site.allow(".*", "", ".*")
        with pytest.raises(ChannelClosedByBroker) as closed:
            channel.tx_commit()

    assert closed.value.reply_code == 403
    assert site.running.queue(Q).messages == 0


def test_a_permission_granted_again_works_on_the_same_connection(site: Site) -> None:
    with site.connection() as connection:
        site.allow("", "", "")
        with pytest.raises(ChannelClosedByBroker):
            connection.channel().basic_get(Q)
        site.allow("", "", ".*")

        assert connection.channel().basic_get(Q) == (None, None, None)


def test_connections_of_a_deleted_user_are_closed(site: Site) -> None:
    with site.connection() as connection:
        channel = consume(connection)
        site.do(lambda broker: broker.users.delete_user(USER))
        with pytest.raises(ConnectionClosedByBroker) as closed:
            channel.start_consuming()

    assert closed.value.reply_code == 320
    assert closed.value.reply_text == f"CONNECTION_FORCED - user '{USER}' is deleted"


def test_connections_to_a_vhost_that_is_closed_to_the_user_are_closed(site: Site) -> None:
    with site.connection() as connection, site.as_guest() as guest:
        channel = consume(connection)
        site.do(lambda broker: broker.users.clear_permissions(USER, "/"))
        with pytest.raises(ConnectionClosedByBroker) as closed:
            channel.start_consuming()
        guest.basic_qos(prefetch_count=1)  # somebody else's goes on

    assert closed.value.reply_code == 320
    assert f"access to vhost '/' refused for user '{USER}'" in closed.value.reply_text


def test_connections_to_a_deleted_vhost_are_closed(site: Site) -> None:
    site.do(lambda broker: broker.add_vhost("doomed"))
    site.allow(".*", ".*", ".*", vhost="doomed")
    with site.connection(vhost="doomed") as connection:
        channel = connection.channel()
        channel.queue_declare("there")
        channel.basic_consume("there", lambda *_: None)
        site.do(lambda broker: broker.delete_vhost("doomed"))
        with pytest.raises(ConnectionClosedByBroker) as closed:
            channel.start_consuming()

    assert closed.value.reply_code == 320


def test_rights_changed_between_login_and_open_count(site: Site) -> None:
    """A login is of no use when the user is gone before it enters a vhost."""
    user = site.wait(lambda broker: broker.users.authenticate(USER, PASSWORD, "127.0.0.1"))
    site.do(lambda broker: broker.users.clear_permissions(USER, "/"))

    def enter() -> object:
        return site.do(lambda broker: broker.admit(user, "/"))

    with pytest.raises(Exception, match="access to vhost '/' refused"):
        enter()
    site.do(lambda broker: broker.users.delete_user(USER))
    with pytest.raises(Exception, match="user 'tester' is deleted"):
        enter()


# -- native ---------------------------------------------------------------------------------------


def test_a_native_consumer_is_cancelled_with_the_reason(site: Site, native: Native) -> None:
    tag = native.call(Op.CONSUME, queue=Q)["consumer_tag"]
    site.allow(".*", ".*", "")

    kind, fields = native.event()

    assert kind == Op.CANCEL
    assert (fields["consumer_tag"], fields["code"]) == (tag, "access_refused")
    assert fields["text"] == f"access to queue '{Q}' in vhost '/' refused for user '{USER}'"
    assert site.running.queue(Q).consumers == 0
    assert native.publish("", Q, b"still allowed")["routed"] == 1


def test_a_native_publisher_is_refused_from_the_next_message_on(site: Site, native: Native) -> None:
    native.publish("", Q, b"1")
    site.allow(".*", "", ".*")
    with pytest.raises(Refused) as refused:
        native.publish("", Q, b"2")

    assert refused.value.code == "access_refused"
    assert site.running.queue(Q).messages == 1


def test_a_native_read_that_waits_is_refused_when_reading_is_forbidden(
    site: Site, native: Native
) -> None:
    for name in ("mine", "other"):
        native.call(Op.TOPIC_DECLARE, name=name)
    waiting = {
        name: native.request(Op.READ, 1, topic=name, token="t", batch=1, wait_ms=60_000)
        for name in ("mine", "other")
    }
    native.call(Op.PING)
    site.allow(".*", ".*", r"^topic\.other$")
    with pytest.raises(Refused) as refused:
        native.answer(waiting["mine"])
    native.call(Op.APPEND, topic="mine", body=b"secret")
    native.call(Op.APPEND, topic="other", body=b"m")

    assert refused.value.code == "access_refused"
    assert "'topic.mine' in vhost '/' refused" in refused.value.answer["text"]
    (message,) = native.answer(waiting["other"])["messages"]
    assert b"m" in message


def test_a_native_connection_of_a_deleted_user_is_closed(site: Site, native: Native) -> None:
    site.do(lambda broker: broker.users.delete_user(USER))

    last = native.expect_end()[-1]

    assert (last["code"], last["closed"]) == ("connection_forced", True)
    assert last["text"] == f"user '{USER}' is deleted"
