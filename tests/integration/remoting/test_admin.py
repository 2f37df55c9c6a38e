"""Assignments, lag and figures, as mqadmin and consoles ask for them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.admin import CreateTopic
from headrace.wire.remoting.headers.groups import (
    ConsumerGroup,
    Heartbeat,
    Subscription,
)
from headrace.wire.remoting.headers.offsets import QueryConsumerOffset, UpdateConsumerOffset
from headrace.wire.remoting.headers.send import SendMessage
from headrace.wire.remoting.json_values import body_map, json_bytes
from headrace.wire.remoting.message_queue import by_queue
from support.http_api import Api
from support.raw_remoting import Link
from support.remoting_broker import Ours
from support.rocketmq.protocol_checks import BORN, accepted, join, new_topic, pull, read, send

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def link(ours: Ours) -> Iterator[Link]:
    with Link(ours.broker_address, credentials=ours.secret()) as link:
        yield link


@pytest.fixture
def topic(ours: Ours) -> str:
    return new_topic(ours)


def assignment(link: Link, topic: str, group: str, client_id: str, **more: str) -> Command:
    body = {"topic": topic, "consumerGroup": group, "clientId": client_id,
            "strategyName": "AVG", "messageModel": "CLUSTERING", **more}  # fmt: skip
    return link.call(RequestCode.QUERY_ASSIGNMENT, body=json_bytes(body))


def assigned(answer: Command) -> list[int]:
    found = json.loads(accepted(answer).body)["messageQueueAssignments"]
    assert {one["mode"] for one in found} <= {"PULL"}
    return [one["messageQueue"]["queueId"] for one in found]


# -- assignments -------------------------------------------------------------------------------


def test_queues_are_divided_among_the_members(ours: Ours, link: Link, topic: str) -> None:
    accepted(link.ask(CreateTopic(topic, 8, 8)))
    with Link(ours.broker_address) as second, Link(ours.broker_address) as third:
        for one, name in ((link, "a"), (second, "b"), (third, "c")):
            join(one, topic, "G-three", name)
        average = [assigned(assignment(link, topic, "G-three", name)) for name in "abc"]
        circle = [
            assigned(assignment(link, topic, "G-three", name, strategyName="AVG_BY_CIRCLE"))
            for name in "abc"
        ]
    every = assigned(assignment(link, topic, "G-three", "a", messageModel="BROADCASTING"))

    assert average == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert circle == [[0, 3, 6], [1, 4, 7], [2, 5]]
    assert every == list(range(8))


def test_members_share_the_retry_topic_and_strangers_get_nothing(link: Link, topic: str) -> None:
    join(link, topic, "G-retry", "a")

    assert assigned(assignment(link, "%RETRY%G-retry", "G-retry", "a")) == [0]
    assert assigned(assignment(link, topic, "G-retry", "stranger")) == []


def test_assignments_that_cannot_be_made_are_refused(link: Link, topic: str) -> None:
    unknown = assignment(link, topic, "G", "a", strategyName="MACHINE_ROOM_NEARBY")
    missing = assignment(link, "T-missing", "G", "a")

    assert unknown.code == ResponseCode.INVALID_PARAMETER
    assert "AVG_BY_CIRCLE" in (unknown.remark or "")
    assert missing.code == ResponseCode.TOPIC_NOT_EXIST


def test_groups_pull_and_cannot_be_set_to_pop(link: Link, topic: str) -> None:
    def set_mode(mode: str) -> Command:
        body = json_bytes({"topic": topic, "consumerGroup": "G", "mode": mode})
        return link.call(RequestCode.SET_MESSAGE_REQUEST_MODE, body=body)

    accepted(set_mode("PULL"))
    assert set_mode("POP").code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


# -- lag ---------------------------------------------------------------------------------------


def stats(link: Link, group: str, topic: str | None = None) -> dict[str, Any]:
    ext = {"consumerGroup": group, **({"topic": topic} if topic else {})}
    return body_map(accepted(link.call(RequestCode.GET_CONSUME_STATS, ext)).body)


def fill(link: Link, topic: str) -> None:
    """Three messages in queue 0, four in queue 1."""
    for queue_id, many in ((0, 3), (1, 4)):
        for _ in range(many):
            accepted(link.ask(SendMessage("PG", topic, queue_id, 0, BORN), b"x"))
    read(link, topic, 3)


def test_the_lag_counts_queues_without_an_offset(ours: Ours, link: Link, topic: str) -> None:
    fill(link, topic)
    join(link, topic, "G-stuck", "a")
    accepted(link.ask(UpdateConsumerOffset("G-stuck", topic, 0, 2)))
    found = by_queue("offsetTable", stats(link, "G-stuck", topic)["offsetTable"])
    lags = {
        queue.queue_id: one["brokerOffset"] - one["consumerOffset"]  # type: ignore[index]
        for queue, one in found
    }
    with Api(ours.broker) as api:
        groups = api.get("/api/groups")
    shown = next(one for one in groups if one["name"] == "G-stuck")

    assert lags == {0: 1, 1: 4}
    assert shown["messages"] == 5


def test_a_group_that_has_only_subscribed_has_a_lag(link: Link, topic: str) -> None:
    fill(link, topic)
    join(link, topic, "G-new", "a")
    found = by_queue("offsetTable", stats(link, "G-new")["offsetTable"])

    assert sum(one["brokerOffset"] - one["consumerOffset"] for _, one in found) == 7  # type: ignore[index]


def test_pulled_and_not_yet_consumed_messages_are_inflight(link: Link, topic: str) -> None:
    fill(link, topic)
    join(link, topic, "CG", "a")
    accepted(pull(link, topic, 0))
    accepted(link.ask(UpdateConsumerOffset("CG", topic, 0, 1)))
    found = stats(link, "CG", topic)
    by_id = {queue.queue_id: one for queue, one in by_queue("offsetTable", found["offsetTable"])}

    assert (by_id[0]["pullOffset"], by_id[0]["consumerOffset"]) == (3, 1)  # type: ignore[index]
    assert found["consumeTps"] > 0


def test_the_consume_stats_of_the_broker(link: Link, topic: str) -> None:
    fill(link, topic)
    join(link, topic, "G-all", "a")
    answer = accepted(link.call(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}))
    found = body_map(answer.body)
    groups = {name: list_ for one in found["consumeStatsList"] for name, list_ in one.items()}

    assert "G-all" in groups
    assert found["totalDiff"] >= 7
    assert found["brokerAddr"]


# -- figures -----------------------------------------------------------------------------------


def test_the_totals_of_a_day(link: Link, topic: str) -> None:
    fill(link, topic)
    answer = accepted(link.call(RequestCode.GET_BROKER_RUNTIME_INFO))
    table = json.loads(answer.body)["table"]
    put = [int(table[f"msgPutTotal{one}"]) for one in
           ("YesterdayMorning", "TodayMorning", "TodayNow")]  # fmt: skip

    assert put[2] - put[1] >= 7
    assert put[1] == put[0]
    assert float(table["putTps"].split(" ")[0]) > 0
    assert table["brokerActive"] == "true"
    assert 0 <= float(table["commitLogDiskRatio"]) <= 1
    assert int(table["earliestMessageTimeStamp"]) > BORN


def test_the_broker_config(link: Link) -> None:
    answer = accepted(link.call(RequestCode.GET_BROKER_CONFIG))
    found = dict(line.split("=", 1) for line in answer.body.decode().splitlines())

    assert found["brokerName"] == "headrace"
    assert found["maxMessageSize"] == str(4 << 20)
    assert json.loads(answer.ext["version"])["counter"] == 0


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.POP_MESSAGE,
        RequestCode.PUT_KV_CONFIG,
        RequestCode.CLEAN_UNUSED_TOPIC,
        RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC,
        RequestCode.AUTH_CREATE_USER,
    ],
)
def test_codes_that_are_not_supported_are_refused_by_name(link: Link, code: RequestCode) -> None:
    answer = link.call(code)

    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert code.name in (answer.remark or "")


def test_the_name_server_has_no_values(link: Link) -> None:
    key = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T"}
    assert link.call(RequestCode.GET_KV_CONFIG, key).code == ResponseCode.QUERY_NOT_FOUND
    accepted(link.call(RequestCode.DELETE_KV_CONFIG, key))  # the end of Java's deleteTopic()


def test_an_unknown_access_key_is_refused_and_logged_once(
    ours: Ours, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.INFO),
        Link(ours.broker_address, credentials=("stranger", "s3cret-s3cret")) as stranger,
    ):
        answers = [stranger.ask(SendMessage("PG", topic, 0, 0, BORN), b"x") for _ in range(2)]

    assert {one.code for one in answers} == {ResponseCode.NO_PERMISSION}
    lines = [one for one in caplog.records if "refused" in one.getMessage()]
    assert [one.levelno for one in lines] == [logging.INFO]


# -- new groups --------------------------------------------------------------------------------


def test_a_client_may_ask_for_the_offset_that_is_stored_and_nothing_else(
    link: Link, topic: str
) -> None:
    """So that a new group on a young topic begins where it asks to."""
    send(link, topic, b"x")
    read(link, topic, 1)

    assert accepted(link.ask(QueryConsumerOffset("G-young", topic, 0))).ext["offset"] == "0"
    asked = link.ask(QueryConsumerOffset("G-young", topic, 0, False))
    assert asked.code == ResponseCode.QUERY_NOT_FOUND


def test_a_heartbeat_names_members(link: Link, topic: str) -> None:
    group = ConsumerGroup("G-beat", (Subscription(topic),))
    accepted(link.call(RequestCode.HEART_BEAT, body=Heartbeat("a", (), (group,)).encode()))

    assert assigned(assignment(link, topic, "G-beat", "a")) == [0, 1]
