"""Topics as administrators change them: kept, or refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from headrace.testing import run_broker
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.admin import CreateTopic, DeleteTopic
from headrace.wire.remoting.headers.route import GetRouteInfo, TopicRoute
from headrace.wire.remoting.headers.send import SendMessage, SendResponse
from headrace.wire.remoting.properties import properties_text
from support.http_api import Api
from support.raw_remoting import Link
from support.remoting_broker import Ours
from support.rocketmq.protocol_checks import BORN, accepted, new_topic, pull, read, send

pytestmark = pytest.mark.timeout(60)

SYSTEM_TOPICS = [
    "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_WHEEL_TIMER", "RMQ_SYS_TRANS_HALF_TOPIC", "TBW102",
    "RMQ_SYS_TRACE_TOPIC", "rmq_sys_other", "DefaultCluster", "headrace",
]  # fmt: skip


@pytest.fixture
def link(ours: Ours) -> Iterator[Link]:
    with Link(ours.broker_address, credentials=ours.secret()) as link:
        yield link


@pytest.fixture
def topic(ours: Ours) -> str:
    return new_topic(ours)


def config(link: Link, topic: str) -> dict[str, Any]:
    answer = accepted(link.call(RequestCode.GET_TOPIC_CONFIG, {"topic": topic}))
    found: dict[str, Any] = json.loads(answer.body)
    return found


def send_to(link: Link, topic: str, queue_id: int) -> Command:
    text = properties_text({"UNIQ_KEY": uuid4().hex})
    return link.ask(SendMessage("PG", topic, queue_id, 0, BORN, properties=text), b"x")


@pytest.mark.parametrize("name", SYSTEM_TOPICS)
def test_system_topics_cannot_be_changed_or_deleted(link: Link, topic: str, name: str) -> None:
    send(link, topic, b"late", DELAY="1")
    for answer in (link.ask(CreateTopic(name, 2, 2)), link.ask(DeleteTopic(name))):
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert "system topic" in (answer.remark or "")
    assert read(link, topic, 1)[0].body == b"late"


def test_permissions_of_a_topic_are_kept_and_applied(ours: Ours, link: Link, topic: str) -> None:
    send(link, topic, b"x")
    read(link, topic, 1)
    accepted(link.ask(CreateTopic(topic, 2, 2, perm=4)))
    assert config(link, topic)["perm"] == 4
    with Link(ours.name_address) as names_link:
        route = TopicRoute.take(accepted(names_link.ask(GetRouteInfo(topic))).body)
    assert route.queues[0].perm == 4
    refused = send_to(link, topic, 0)
    assert refused.code == ResponseCode.NO_PERMISSION
    assert "perm 4" in (refused.remark or "")

    accepted(link.ask(CreateTopic(topic, 2, 2, perm=2)))
    accepted(send_to(link, topic, 0))
    assert pull(link, topic).code == ResponseCode.NO_PERMISSION

    accepted(link.ask(CreateTopic(topic, 2, 2)))
    assert len(read(link, topic, 2)) == 2


def test_order_flags_and_the_message_type_are_kept(link: Link, topic: str) -> None:
    wanted = CreateTopic(topic, 2, 2, order=True, topic_sys_flag=2, attributes="+message.type=FIFO")
    accepted(link.ask(wanted))
    found = config(link, topic)
    assert (found["order"], found["topicSysFlag"]) == (True, 2)
    assert found["attributes"] == {"message.type": "FIFO"}

    changes = "-message.type,+queue.type=SimpleCQ,+cleanup.policy=DELETE"
    accepted(link.ask(CreateTopic(topic, 2, 2, attributes=changes)))
    found = config(link, topic)
    assert found["attributes"] == {"queue.type": "SimpleCQ", "cleanup.policy": "DELETE"}


@pytest.mark.parametrize(
    "wanted",
    [
        CreateTopic("", 2, 2, perm=8),
        CreateTopic("", 2, 2, perm=-1),
        CreateTopic("", 2, 2, topic_filter_type="MULTI_TAG"),
        CreateTopic("", 2, 2, attributes="+queue.type=BatchCQ"),
        CreateTopic("", 2, 2, attributes="+cleanup.policy=COMPACTION"),
        CreateTopic("", 2, 2, attributes="+message.type=MIXED"),
        CreateTopic("", 0, 0),
        CreateTopic("", 2, 5000),
    ],
)
def test_settings_that_cannot_be_kept_are_refused(
    link: Link, topic: str, wanted: CreateTopic
) -> None:
    before = config(link, topic)
    answer = link.call(RequestCode.UPDATE_AND_CREATE_TOPIC, {**wanted.ext(), "topic": topic})

    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert config(link, topic) == before


def test_a_topic_gets_more_queues(link: Link, topic: str) -> None:
    send(link, topic, b"before")
    read(link, topic, 1)
    accepted(link.ask(CreateTopic(topic, 4, 4)))
    accepted(send_to(link, topic, 3))

    assert config(link, topic)["writeQueueNums"] == 4
    assert [one.body for one in read(link, topic, 1)] == [b"before"]
    assert accepted(pull(link, topic, queue_id=3)).body


def test_queues_to_write_and_to_read_are_reduced_one_after_the_other(
    link: Link, topic: str
) -> None:
    accepted(send_to(link, topic, 1))
    accepted(link.ask(CreateTopic(topic, 2, 1)))
    found = {SendResponse.take(send_to(link, topic, -1).ext).queue_id for _ in range(20)}
    assert found == {0}
    assert accepted(pull(link, topic, queue_id=1)).body

    accepted(link.ask(CreateTopic(topic, 1, 1)))
    assert pull(link, topic, queue_id=1).code == ResponseCode.INVALID_PARAMETER
    assert send_to(link, topic, 1).code == ResponseCode.INVALID_PARAMETER

    accepted(link.ask(CreateTopic(topic, 2, 2)))
    assert accepted(pull(link, topic, queue_id=1)).body


def test_settings_survive_a_restart_and_a_transfer_of_definitions(tmp_path: Path) -> None:
    with run_broker(data_dir=tmp_path / "one") as broker:
        ours = Ours(broker)
        with Link(ours.broker_address, credentials=ours.secret()) as link:
            accepted(link.ask(CreateTopic("%RETRY%G", 1, 1)))
            accepted(link.ask(CreateTopic("Orders-1", 4, 2, perm=4, order=True)))
            send(link, "%RETRY%G", b"x", DELAY="1")
        broker.restart()
        with Link(ours.broker_address, credentials=ours.secret()) as link:
            before = config(link, "Orders-1")
        with Api(broker) as api:
            definitions = api.get("/api/definitions")
    with run_broker(data_dir=tmp_path / "two") as broker:
        ours = Ours(broker)
        with Api(broker) as api:
            api.post("/api/definitions", definitions)
        with Link(ours.broker_address, credentials=ours.secret()) as link:
            assert config(link, "Orders-1") == before
            assert config(link, "%RETRY%G")["readQueueNums"] == 1
            send(link, "%RETRY%G", b"x", DELAY="1")
            assert len(read(link, "%RETRY%G", 1)) == 1

    assert (before["perm"], before["order"], before["writeQueueNums"]) == (4, True, 2)


def test_settings_are_deleted_with_their_topic_over_any_protocol(ours: Ours, link: Link) -> None:
    accepted(link.ask(CreateTopic("gone", 2, 2, perm=4)))
    with Api(ours.broker) as api:
        api.delete("/api/topics/%2F/gone", None)
        parameters = api.get("/api/parameters/rocketmq-topic/%2F")
    accepted(link.ask(CreateTopic("gone", 2, 2)))

    assert config(link, "gone")["perm"] == 6
    assert "gone" not in [one["name"] for one in parameters]
