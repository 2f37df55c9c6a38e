"""What a RocketMQ server answers, asked in both kinds of headers.

A module with a fixture `server` takes these tests over: Apache's must pass them, and ours too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import pytest

from headrace.testing import wait_for
from headrace.wire.remoting import compression, message_queue, names
from headrace.wire.remoting.codes import PullFlag, RequestCode, ResponseCode
from headrace.wire.remoting.command import Command, Serialization
from headrace.wire.remoting.headers.admin import (
    CreateTopic,
    GetConsumeStats,
    TopicRequest,
)
from headrace.wire.remoting.headers.groups import (
    ClientCheck,
    ConsumerGroup,
    GetConsumerList,
    Heartbeat,
    Subscription,
    UnregisterClient,
)
from headrace.wire.remoting.headers.offsets import (
    GetMaxOffset,
    GetMinOffset,
    OffsetResult,
    QueryConsumerOffset,
    ResetOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from headrace.wire.remoting.headers.pull import (
    SQL92,
    PullMessage,
    PullResult,
    QueryMessage,
    ViewMessage,
)
from headrace.wire.remoting.headers.route import GetRouteInfo, TopicRoute
from headrace.wire.remoting.headers.send import (
    COMMIT,
    EndTransaction,
    SendBack,
    SendMessage,
    SendResponse,
)
from headrace.wire.remoting.message import BatchElement, batch_bytes
from headrace.wire.remoting.message_queue import LockRequest, MessageQueue
from headrace.wire.remoting.properties import properties_bytes, properties_text
from support.raw_remoting import Link, Site
from support.remoting_bodies import (
    ClusterInfo,
    RemotingMessage,
    route_address,
    take_connections,
    take_consume_stats,
    take_message,
    take_messages,
    take_topic_configs,
    take_topic_list,
    take_topic_stats,
)

BORN = 1_700_000_000_000


@pytest.fixture(params=list(Serialization), ids=lambda kind: kind.name)
def names_link(server: Site, request: pytest.FixtureRequest) -> Iterator[Link]:
    with Link(server.name_address, request.param) as link:
        yield link


@pytest.fixture(params=list(Serialization), ids=lambda kind: kind.name)
def link(server: Site, request: pytest.FixtureRequest) -> Iterator[Link]:
    with Link(server.broker_address, request.param) as link:
        yield link


@pytest.fixture
def topic(server: Site) -> str:
    return new_topic(server)


def new_topic(server: Site) -> str:
    """A new topic with two queues, known to the name server."""
    name = f"T{uuid4().hex}"
    with Link(server.broker_address) as link:
        accepted(link.ask(CreateTopic(name, 2, 2)))
    with Link(server.name_address) as link:
        wait_for(lambda: link.ask(GetRouteInfo(name)).code == 0, 20, 0.05)
    return name


def accepted(answer: Command) -> Command:
    assert answer.code == ResponseCode.SUCCESS, f"{answer.code}: {answer.remark}"
    return answer


def send(link: Link, topic: str, body: bytes, sys_flag: int = 0, **properties: str) -> SendResponse:
    text = properties_text({"UNIQ_KEY": uuid4().hex.upper(), "WAIT": "true", **properties})
    header = SendMessage("PG", topic, 0, sys_flag, BORN, properties=text)
    return SendResponse.take(
        accepted(link.call(RequestCode.SEND_MESSAGE_V2, header.ext_v2(), body)).ext
    )


def pull(link: Link, topic: str, offset: int = 0, **more: object) -> Command:
    """Everything from ``offset`` on; a queue shows a message a moment after it was sent."""
    flags = int(PullFlag.SUBSCRIPTION)
    header = PullMessage("CG", topic, 0, offset, 32, flags, subscription="*")
    header = replace(header, **more)  # type: ignore[arg-type]

    def found() -> Command | None:
        answer = link.ask(header)
        return answer if answer.code != ResponseCode.PULL_NOT_FOUND else None

    return wait_for(found, 10, 0.02)


# -- the name server ---------------------------------------------------------------------------


def test_a_route(server: Site, names_link: Link, topic: str) -> None:
    found = TopicRoute.take(accepted(names_link.ask(GetRouteInfo(topic))).body)

    assert route_address(found, server.broker_name) == server.broker_address
    assert found.write_queues(topic) == [
        MessageQueue(topic, server.broker_name, at) for at in range(2)
    ]


def test_an_unknown_topic(names_link: Link) -> None:
    answer = names_link.ask(GetRouteInfo("T-nobody-made"))

    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert "T-nobody-made" in (answer.remark or "")


def test_clusters_and_topics(server: Site, names_link: Link, topic: str) -> None:
    info = ClusterInfo.take(accepted(names_link.call(RequestCode.GET_BROKER_CLUSTER_INFO)).body)
    listed = accepted(names_link.call(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))

    assert info.clusters == {"DefaultCluster": (server.broker_name,)}
    assert topic in take_topic_list(listed.body)


# -- sending and reading -----------------------------------------------------------------------


def test_a_message_goes_and_comes(server: Site, link: Link, topic: str) -> None:
    result = send(link, topic, b"hello", TAGS="TagA", KEYS="k1 k2", colour="Grün")
    answer = accepted(pull(link, topic))
    (message,) = take_messages(answer.body)

    assert (result.queue_id, result.queue_offset) == (0, 0)
    assert message.topic == topic
    assert message.body == b"hello"
    assert message.tags == "TagA"
    assert message.keys == ["k1", "k2"]
    assert message.properties["colour"] == "Grün"
    assert message.born_timestamp == BORN
    assert result.transaction_id in (message.msg_id, None)  # 4.9 says it of half messages only
    assert message.offset_id == result.msg_id
    assert str(message.store_host) == server.broker_address
    assert PullResult.take(answer.ext) == PullResult(0, 1, 0, 1)


@pytest.mark.parametrize("version", ["long names", "short names"])
def test_both_sets_of_names(link: Link, topic: str, version: str) -> None:
    header = SendMessage("PG", topic, 1, 0, BORN, properties="TAGS\x01a\x02")
    if version == "long names":
        answer = link.ask(header, b"body")
    else:
        answer = link.call(RequestCode.SEND_MESSAGE_V2, header.ext_v2(), b"body")

    assert SendResponse.take(accepted(answer).ext).queue_id == 1


def test_a_compressed_body(link: Link, topic: str) -> None:
    body = b"hello " * 1000
    small, bits = compression.deflate(body)
    send(link, topic, small, bits)
    (message,) = take_messages(accepted(pull(link, topic)).body)

    assert message.body == body
    assert message.store_size > len(small)


def test_a_batch(link: Link, topic: str) -> None:
    elements = [
        BatchElement(at, b"%d" % at, properties_bytes({"UNIQ_KEY": uuid4().hex.upper()}))
        for at in range(3)
    ]
    header = SendMessage("PG", topic, 0, 0, BORN, properties="WAIT\x01true\x02", batch=True)
    answer = link.call(RequestCode.SEND_BATCH_MESSAGE, header.ext_v2(), batch_bytes(elements))
    result = SendResponse.take(accepted(answer).ext)
    found = read(link, topic, 3)

    assert [message.body for message in found] == [b"0", b"1", b"2"]
    assert [message.flag for message in found] == [0, 1, 2]
    assert result.msg_id.split(",") == [message.offset_id for message in found]


def read(link: Link, topic: str, wanted: int) -> list[RemotingMessage]:
    def found() -> list[RemotingMessage]:
        messages = list(take_messages(accepted(pull(link, topic)).body))
        return messages if len(messages) >= wanted else []

    return wait_for(found, 10, 0.02)


def test_tags_choose(link: Link, topic: str) -> None:
    for tag in ("a", "b", "c"):
        send(link, topic, tag.encode(), TAGS=tag)
    read(link, topic, 3)
    chosen = accepted(pull(link, topic, subscription="a || c"))

    assert [message.tags for message in take_messages(chosen.body)] == ["a", "c"]
    assert PullResult.take(chosen.ext).next_begin_offset == 3


def test_nothing_chosen_goes_on_behind_what_was_looked_at(link: Link, topic: str) -> None:
    send(link, topic, b"x", TAGS="a")
    read(link, topic, 1)
    answer = pull(link, topic, subscription="other")

    assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert PullResult.take(answer.ext).next_begin_offset == 1


def test_sql_chooses(link: Link, topic: str) -> None:
    for price in (5, 50, 500):
        send(link, topic, b"%d" % price, price=str(price))
    read(link, topic, 3)
    chosen = pull(link, topic, subscription="price BETWEEN 10 AND 1000", expression_type=SQL92)

    assert [message.body for message in take_messages(accepted(chosen).body)] == [b"50", b"500"]


def test_sql_that_cannot_be_parsed(link: Link, topic: str) -> None:
    check = ClientCheck("client-1", "CG", Subscription(topic, "price >", kind=SQL92))
    answer = link.call(RequestCode.CHECK_CLIENT_CONFIG, body=check.encode())

    assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_bounds_and_times(link: Link, topic: str) -> None:
    send(link, topic, b"x")
    (message,) = read(link, topic, 1)

    def offset(header: GetMaxOffset | GetMinOffset | SearchOffset) -> int:
        return OffsetResult.take(accepted(link.ask(header)).ext).offset

    assert offset(GetMaxOffset(topic, 0)) == 1
    assert offset(GetMinOffset(topic, 0)) == 0
    assert offset(SearchOffset(topic, 0, message.store_timestamp)) == 0


def test_a_message_by_its_place_and_by_its_keys(link: Link, topic: str) -> None:
    send(link, topic, b"x", KEYS="order-1 order-2")
    (message,) = read(link, topic, 1)
    viewed = take_message(accepted(link.ask(ViewMessage(message.physical_offset, topic))).body)
    by_key = QueryMessage(topic, "order-2", 10)
    by_id = QueryMessage(topic, message.msg_id, 10, by_unique_key=True)

    assert viewed.msg_id == message.msg_id
    for query in (by_key, by_id):
        answer = wait_for(lambda query=query: _found(link.ask(query)), 10, 0.05)
        assert [one.msg_id for one in take_messages(answer.body)] == [message.msg_id]


def _found(answer: Command) -> Command | None:
    return answer if answer.code == ResponseCode.SUCCESS else None


def test_offsets_of_a_group(link: Link, topic: str) -> None:
    group = f"G{uuid4().hex}"
    join(link, topic, group, "client-1")
    accepted(link.ask(UpdateConsumerOffset(group, topic, 1, 7)))
    answer = accepted(link.ask(QueryConsumerOffset(group, topic, 1)))

    assert OffsetResult.take(answer.ext).offset == 7


# -- groups ------------------------------------------------------------------------------------


def join(link: Link, topic: str, group: str, client_id: str) -> None:
    subscription = Subscription(topic, "*", version=BORN)
    retries = Subscription(names.retry_topic(group), "*", version=BORN)
    heartbeat = Heartbeat(client_id, ("PG",), (ConsumerGroup(group, (subscription, retries)),))
    accepted(link.call(RequestCode.HEART_BEAT, body=heartbeat.encode()))


def test_members_join_lock_and_leave(server: Site, link: Link, topic: str) -> None:
    group = f"G{uuid4().hex}"
    join(link, topic, group, "client-1")
    link.wait_for_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
    members = message_queue.take_members(accepted(link.ask(GetConsumerList(group))).body)
    queue = MessageQueue(topic, server.broker_name, 0)
    lock = LockRequest(group, "client-1", (queue,)).encode()
    held = message_queue.take_locked(accepted(link.call(RequestCode.LOCK_BATCH_MQ, body=lock)).body)
    other = LockRequest(group, "client-2", (queue,)).encode()
    refused = message_queue.take_locked(
        accepted(link.call(RequestCode.LOCK_BATCH_MQ, body=other)).body
    )
    accepted(link.call(RequestCode.UNLOCK_BATCH_MQ, body=lock))
    accepted(link.ask(UnregisterClient("client-1", "PG", group)))

    assert members == ["client-1"]
    assert held == (queue,)
    assert refused == ()
    assert link.ask(GetConsumerList(group)).code == ResponseCode.SYSTEM_ERROR


def test_a_message_that_comes_back_is_seen_again_in_the_retry_topic(link: Link, topic: str) -> None:
    group = f"G{uuid4().hex}"
    join(link, topic, group, "client-1")
    send(link, topic, b"again")
    (message,) = read(link, topic, 1)
    accepted(link.ask(SendBack(message.physical_offset, group, 1, message.msg_id, topic)))
    (again,) = read(link, names.retry_topic(group), 1)

    assert again.body == b"again"
    assert again.reconsume_times == 1
    assert again.properties["RETRY_TOPIC"] == topic


def reset(link: Link, topic: str, group: str) -> int:
    """Let a group go back to the beginning; the offset which the broker tells."""
    join(link, topic, group, "client-1")
    send(link, topic, b"x")
    read(link, topic, 1)
    for at in range(2):  # an old broker insists on all queues
        accepted(link.ask(UpdateConsumerOffset(group, topic, at, 1 - at)))
    header = ResetOffset(topic, group, 0, True)
    answer = link.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header.ext())
    offsets = message_queue.take_offsets("offsetTable", accepted(answer).body)
    return next(offset for queue, offset in offsets.items() if queue.queue_id == 0)


def test_a_half_message_is_seen_after_its_commit(link: Link, topic: str) -> None:
    unique = uuid4().hex.upper()
    text = properties_text({"UNIQ_KEY": unique, "TRAN_MSG": "true", "PGROUP": "PG"})
    header = SendMessage("PG", topic, 0, 4, BORN, properties=text)
    result = SendResponse.take(accepted(link.ask(header, b"half")).ext)
    physical = int(result.msg_id[-16:], 16)
    end = EndTransaction(
        "PG", result.queue_offset, physical, COMMIT, False, unique, result.transaction_id, topic
    )
    link.tell(end)
    (message,) = read(link, topic, 1)

    assert message.body == b"half"
    assert message.msg_id == unique
    assert message.prepared_transaction_offset == physical


def test_what_consoles_ask(server: Site, link: Link, topic: str) -> None:
    send(link, topic, b"x")
    read(link, topic, 1)
    group = f"G{uuid4().hex}"
    join(link, topic, group, "client-1")
    accepted(link.ask(UpdateConsumerOffset(group, topic, 0, 0)))
    queue = MessageQueue(topic, server.broker_name, 0)
    configs = accepted(link.call(RequestCode.GET_ALL_TOPIC_CONFIG))
    stats = accepted(link.call(RequestCode.GET_TOPIC_STATS_INFO, TopicRequest(topic).ext()))
    progress = accepted(link.ask(GetConsumeStats(group, topic)))
    members = accepted(
        link.call(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group})
    )

    assert take_topic_configs(configs.body)[topic].read_queues == 2
    assert take_topic_stats(stats.body)[queue].max_offset == 1
    assert take_consume_stats(progress.body)[0][queue].lag == 1
    assert [one.client_id for one in take_connections(members.body)] == ["client-1"]


def test_an_unknown_code_is_answered(link: Link) -> None:
    assert link.call(29999).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
