"""Settings of groups, figures of the broker, and replies to requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from headrace.testing import run_broker
from headrace.wire.remoting import names
from headrace.wire.remoting.codes import PullFlag, RequestCode, ResponseCode
from headrace.wire.remoting.headers.admin import (
    CloneGroupOffset,
    DeleteGroup,
    GroupConfig,
    ViewStats,
)
from headrace.wire.remoting.headers.groups import (
    ConsumeModel,
    ConsumerGroup,
    Heartbeat,
    Subscription,
)
from headrace.wire.remoting.headers.offsets import (
    GetMaxOffset,
    OffsetResult,
    QueryConsumerOffset,
    UpdateConsumerOffset,
)
from headrace.wire.remoting.headers.pull import PullMessage
from headrace.wire.remoting.headers.route import GetRouteInfo, TopicRoute
from headrace.wire.remoting.headers.send import PushReply, SendBack, SendMessage
from headrace.wire.remoting.json_values import json_bytes
from headrace.wire.remoting.properties import properties_text, take_properties
from support.raw_remoting import Link
from support.remoting_bodies import take_group_configs, take_messages
from support.remoting_broker import Ours
from support.rocketmq.protocol_checks import accepted, join, new_topic, pull, send

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def site() -> Iterator[Ours]:
    with run_broker(sync=False) as broker:
        yield Ours(broker)


@pytest.fixture
def link(site: Ours) -> Iterator[Link]:
    with Link(site.broker_address, credentials=site.secret()) as link:
        yield link


@pytest.fixture
def topic(site: Ours) -> str:
    return new_topic(site)


def change(link: Link, config: GroupConfig) -> None:
    body = json_bytes(config.as_map())
    accepted(link.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body))


def all_groups(link: Link) -> dict[str, GroupConfig]:
    answer = accepted(link.call(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))
    return take_group_configs(answer.body)


def test_settings_are_kept_shown_and_deleted(link: Link, topic: str) -> None:
    config = GroupConfig("G-kept", retry_max_times=3, consume_timeout_minutes=5)
    change(link, config)
    accepted(link.ask(UpdateConsumerOffset("G-kept", topic, 0, 4)))
    join(link, topic, "G-plain", "client-1")
    accepted(link.ask(UpdateConsumerOffset("G-plain", topic, 0, 4)))

    assert all_groups(link)["G-kept"] == config
    assert all_groups(link)["G-plain"] == GroupConfig("G-plain")
    one = accepted(link.call(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "G-kept"}))
    assert GroupConfig.take(json.loads(one.body)) == config

    accepted(link.ask(DeleteGroup("G-kept", clean_offset=True)))

    assert "G-kept" not in all_groups(link)
    missing = link.call(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "G-kept"})
    assert missing.code == ResponseCode.QUERY_NOT_FOUND
    assert link.ask(DeleteGroup("G-kept")).code == ResponseCode.QUERY_NOT_FOUND


def test_a_group_with_members_is_not_deleted(link: Link, topic: str) -> None:
    join(link, topic, "G-busy", "one")
    answer = link.ask(DeleteGroup("G-busy"))

    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert "has members" in (answer.remark or "")


def test_settings_that_make_no_sense_are_refused(link: Link) -> None:
    for config in (GroupConfig("a b"), GroupConfig("G", retry_max_times=1_000_000)):
        body = json_bytes(config.as_map())
        answer = link.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        assert answer.code == ResponseCode.INVALID_PARAMETER


def test_a_group_that_is_switched_off_gets_nothing(link: Link, topic: str) -> None:
    send(link, topic, b"x")
    wanted = PullMessage("G-off", topic, 0, 0, 1, 4, subscription="*")
    change(link, GroupConfig("G-off", consume_enable=False))
    assert link.ask(wanted).code == ResponseCode.NO_PERMISSION
    change(link, GroupConfig("G-off"))
    accepted(link.ask(wanted))


def test_a_group_can_be_kept_from_broadcasting(link: Link, topic: str) -> None:
    send(link, topic, b"x")
    change(link, GroupConfig("G-loud", consume_broadcast_enable=False))
    group = ConsumerGroup("G-loud", (Subscription(topic, "*"),), model=ConsumeModel.BROADCASTING)
    accepted(link.call(RequestCode.HEART_BEAT, body=Heartbeat("me", (), (group,)).encode()))
    wanted = PullMessage("G-loud", topic, 0, 0, 1, 4, subscription="*")

    assert link.ask(wanted).code == ResponseCode.NO_PERMISSION


def test_the_retry_limit_of_the_settings_counts_for_clients_that_say_none(
    link: Link, topic: str
) -> None:
    change(link, GroupConfig("G-once", retry_max_times=0))
    send(link, topic, b"x")
    (message,) = take_messages(accepted(pull(link, topic, 0)).body)
    accepted(link.ask(SendBack(message.physical_offset, "G-once", 1)))
    dead = accepted(link.ask(GetMaxOffset(names.dead_letter_topic("G-once"), 0)))

    assert OffsetResult.take(dead.ext).offset == 1


def test_a_group_begins_where_another_is(link: Link, topic: str) -> None:
    join(link, topic, "G-src", "client-1")
    accepted(link.ask(UpdateConsumerOffset("G-src", topic, 1, 7)))
    accepted(link.ask(CloneGroupOffset("G-src", "G-dest", topic)))
    found = accepted(link.ask(QueryConsumerOffset("G-dest", topic, 1)))

    assert OffsetResult.take(found.ext).offset == 7
    mistyped = link.ask(CloneGroupOffset("G-scr", "G-dest", topic))
    assert mistyped.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    elsewhere = link.ask(CloneGroupOffset("G-src", "G-dest", "mistyped"))
    assert elsewhere.code == ResponseCode.TOPIC_NOT_EXIST


# -- figures ---------------------------------------------------------------------------------------


def test_the_overview_shows_the_state_of_the_broker(link: Link, topic: str) -> None:
    send(link, topic, b"x")
    body = accepted(link.call(RequestCode.GET_BROKER_RUNTIME_INFO)).body
    table = json.loads(body)["table"]

    assert table["brokerVersionDesc"].startswith("Headrace ")
    assert int(table["topicCount"]) >= 1
    assert int(table["messagesKept"]) >= 1
    assert all(isinstance(value, str) for value in table.values())


def test_sends_are_counted(link: Link, topic: str) -> None:
    for _ in range(3):
        send(link, topic, b"x")
    stats = json.loads(accepted(link.ask(ViewStats("TOPIC_PUT_NUMS", topic))).body)

    assert stats["statsDay"]["sum"] == 3
    assert link.ask(ViewStats("TOPIC_PUT_NUMS", "none")).code == ResponseCode.QUERY_NOT_FOUND


def test_all_producers_are_shown(link: Link) -> None:
    accepted(link.call(RequestCode.HEART_BEAT, body=Heartbeat("cid", ("PG-shown",)).encode()))
    body = accepted(link.call(RequestCode.GET_ALL_PRODUCER_INFO)).body
    (shown,) = json.loads(body)["data"]["PG-shown"]

    assert (shown["clientId"], shown["remoteIP"]) == ("cid", "127.0.0.1")


# -- requests and replies --------------------------------------------------------------------------


def test_a_reply_reaches_the_client_that_asked(site: Ours, link: Link, topic: str) -> None:
    with Link(site.broker_address) as asking:
        accepted(asking.call(RequestCode.HEART_BEAT, body=Heartbeat("asker", ("PG",)).encode()))
        asked = {"CORRELATION_ID": "c-1", "REPLY_TO_CLIENT": "asker", "TTL": "3000"}
        send(asking, topic, b"what?", **asked)
        (request,) = take_messages(accepted(pull(link, topic, 0)).body)
        replies = names.reply_topic(request.properties["CLUSTER"])
        route = TopicRoute.take(accepted(link.ask(GetRouteInfo(replies))).body)
        assert route.queues[0].write_queues == 1
        kept = {name: request.properties[name] for name in ("CORRELATION_ID", "REPLY_TO_CLIENT")}
        text = properties_text({**kept, "MSG_TYPE": "reply"})
        header = SendMessage("PG", replies, 0, 0, 5, properties=text)
        accepted(link.call(RequestCode.SEND_REPLY_MESSAGE_V2, header.ext_v2(), b"that"))
        pushed = asking.wait_for_request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)

    given = PushReply.take(pushed.ext)
    assert pushed.body == b"that"
    assert not pushed.is_oneway
    assert take_properties(given.properties)["CORRELATION_ID"] == "c-1"
    assert given.born_host.startswith("127.0.0.1:")


def test_a_reply_to_an_unknown_address_is_an_error(link: Link) -> None:
    text = properties_text({"REPLY_TO_CLIENT": "gone"})
    replies = SendMessage("PG", "DefaultCluster_REPLY_TOPIC", 0, 0, 5, properties=text)
    answer = link.call(RequestCode.SEND_REPLY_MESSAGE, replies.ext(), b"x")
    wrong = link.call(RequestCode.SEND_REPLY_MESSAGE, replace(replies, topic="T").ext(), b"x")

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "gone" in (answer.remark or "")
    assert wrong.code == ResponseCode.INVALID_PARAMETER


# -- subscriptions -------------------------------------------------------------------------------


def subscribe(link: Link, topic: str, expression: str, version: int) -> None:
    group = ConsumerGroup("G-tags", (Subscription(topic, expression, version=version),))
    accepted(link.call(RequestCode.HEART_BEAT, body=Heartbeat("c", (), (group,)).encode()))


def test_a_waiting_pull_follows_the_subscription_of_its_group(
    site: Ours, link: Link, topic: str
) -> None:
    wait = PullMessage("G-tags", topic, 0, 0, 32, int(PullFlag.SUSPEND), 0, 30_000)
    subscribe(link, topic, "red", 1)
    waiting = link.begin(wait)
    subscribe(link, topic, "blue", 2)
    with Link(site.broker_address) as other:
        send(other, topic, b"wanted", TAGS="blue")
    answer = accepted(link.finish(waiting))

    assert [one.body for one in take_messages(answer.body)] == [b"wanted"]


def test_a_pull_ahead_of_its_heartbeat_is_refused(link: Link, topic: str) -> None:
    changed = PullMessage("G-tags", topic, 0, 0, 32, 0, sub_version=3)
    subscribe(link, topic, "red", 2)
    assert link.ask(changed).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    subscribe(link, topic, "blue", 3)
    assert link.ask(changed).code == ResponseCode.PULL_NOT_FOUND

    restarted = PullMessage("G-unheard", topic, 0, 0, 32, 0, expression_type="SQL92")
    answer = link.ask(restarted)
    assert answer.code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    assert "heartbeat" in (answer.remark or "")
