"""Our codec judged by a real Apache RocketMQ, old and new, with both kinds of headers."""

from __future__ import annotations

from uuid import uuid4

import pytest

from headrace.wire.remoting import compression, message_queue
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.headers.pull import PullResult
from headrace.wire.remoting.headers.route import GetRouteInfo, TopicRoute
from headrace.wire.remoting.message_queue import MessageQueue
from support.raw_remoting import Link, Site
from support.remoting_bodies import route_address, take_messages
from support.rocketmq.apache import Apache
from support.rocketmq.protocol_checks import *  # noqa: F403 - the tests
from support.rocketmq.protocol_checks import accepted, new_topic, pull, reset, send

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


@pytest.fixture(params=["apache", "old_apache"])
def server(request: pytest.FixtureRequest) -> Site:
    found: Site = request.getfixturevalue(request.param)
    return found


def test_a_route_for_an_old_client_has_keys_without_quotes(server: Site, topic: str) -> None:
    with Link(server.name_address, version=317) as link:
        body = accepted(link.ask(GetRouteInfo(topic))).body

    assert b"{0:" in body
    assert route_address(TopicRoute.take(body), server.broker_name) == server.broker_address


def test_apache_keeps_a_body_as_it_was_compressed(apache: Apache) -> None:
    """Ours does not: consumers of other protocols could not read it."""
    topic = new_topic(apache)
    body = b"hello " * 1000
    small, bits = compression.deflate(body)
    with Link(apache.broker_address) as link:
        send(link, topic, small, bits)
        (message,) = take_messages(accepted(pull(link, topic)).body)

    assert message.body == body
    assert len(small) < message.store_size < len(body)


def test_an_old_broker_notifies_members_of_a_reset(old_apache: Apache) -> None:
    topic = new_topic(old_apache)
    with Link(old_apache.broker_address) as link:
        assert reset(link, topic, f"G{uuid4().hex}") == 0
        told = link.wait_for_request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET)

    queue = MessageQueue(topic, old_apache.broker_name, 0)
    assert message_queue.take_offsets("offsetTable", told.body)[queue] == 0


def test_a_new_broker_lets_the_next_pull_find_the_reset(apache: Apache) -> None:
    topic = new_topic(apache)
    group = f"G{uuid4().hex}"
    with Link(apache.broker_address) as link:
        assert reset(link, topic, group) == 0
        answer = pull(link, topic, 1, consumer_group=group)

    assert answer.code == ResponseCode.PULL_OFFSET_MOVED
    assert PullResult.take(answer.ext).next_begin_offset == 0
