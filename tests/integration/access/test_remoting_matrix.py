"""Every RocketMQ request with every permission missing: refused as specified, or done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from headrace.core.broker import Broker
from headrace.server.remoting.authentication import ADMINISTRATION, WATCHING
from headrace.server.remoting.handlers import HANDLERS
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.admin import (
    CloneGroupOffset,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    GroupConfig,
    ViewStats,
)
from headrace.wire.remoting.headers.groups import (
    ClientCheck,
    ConsumeDirectly,
    ConsumerGroup,
    GetConsumerList,
    GetRunningInfo,
    Heartbeat,
    Subscription,
    UnregisterClient,
)
from headrace.wire.remoting.headers.offsets import (
    EarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    QueryConsumerOffset,
    ResetOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from headrace.wire.remoting.headers.pull import PullMessage, QueryMessage, ViewMessage
from headrace.wire.remoting.headers.route import GetRouteInfo
from headrace.wire.remoting.headers.send import (
    COMMIT,
    EndTransaction,
    RecallMessage,
    SendBack,
    SendMessage,
    SendResponse,
)
from headrace.wire.remoting.json_values import json_bytes
from headrace.wire.remoting.message import BatchElement, batch_bytes
from headrace.wire.remoting.message_ids import NOWHERE, offset_id
from headrace.wire.remoting.message_queue import LockRequest, MessageQueue
from headrace.wire.remoting.properties import properties_text
from support.access_matrix import (
    USER,
    Matrix,
    Need,
    Rule,
    Site,
    clear,
    every_subset,
    nothing,
)
from support.raw_remoting import Link

SECRET = "s3cret-s3cret"
GROUP = "CG"
REPLIES = "DefaultCluster_REPLY_TOPIC"
_numbers = count()


class Case:
    """One attempt: a connection, a topic with a message, and names that nothing else has."""

    def __init__(self, link: Link) -> None:
        self.link = link
        number = next(_numbers)
        self.topic, self.new = f"t-{number}", f"n-{number}"
        self.queue = MessageQueue(self.topic, "headrace", 0)
        self.physical = 0
        self.half: EndTransaction | None = None

    def prepare(self) -> None:
        """While everything is allowed."""
        done(self.link.ask(CreateTopic(self.topic, 1, 1)))
        sent = SendResponse.take(done(self.link.ask(self.message(), b"m")).ext)
        self.physical = int(sent.msg_id[-16:], 16)
        text = properties_text({"UNIQ_KEY": "U", "TRAN_MSG": "true", "PGROUP": "PG"})
        half = SendMessage("PG", self.topic, 0, 4, 1, properties=text)
        kept = SendResponse.take(done(self.link.ask(half, b"h")).ext)
        at = int(kept.msg_id[-16:], 16)
        self.half = EndTransaction("PG", kept.queue_offset, at, COMMIT, False, "U", "U", self.topic)
        done(self.link.call(RequestCode.HEART_BEAT, body=self.beat()))
        done(self.link.ask(UpdateConsumerOffset(GROUP, self.topic, 0, 1)))

    def message(self, topic: str | None = None) -> SendMessage:
        return SendMessage("PG", topic or self.topic, 0, 0, 1)

    def beat(self) -> bytes:
        group = ConsumerGroup(GROUP, (Subscription(self.topic, "*"),))
        return Heartbeat("me", ("PG",), (group,)).encode()

    @property
    def decision(self) -> EndTransaction:
        assert self.half is not None
        return self.half


def done(answer: Command) -> Command:
    assert answer.code == ResponseCode.SUCCESS, f"{answer.code}: {answer.remark}"
    return answer


Act = Callable[[Case], Command]
Needs = Callable[[Case], list[Need]]


def on_topic(action: str) -> Needs:
    return lambda case: [Need(action, "topic", f"topic.{case.topic}")]


def locks(case: Case) -> bytes:
    return LockRequest(GROUP, "me", (case.queue,)).encode()


def group_body(case: Case) -> bytes:
    return json_bytes({"topic": case.topic, "consumerGroup": GROUP, "clientId": "me"})


C = RequestCode
READING: dict[RequestCode, Act] = {
    C.PULL_MESSAGE: lambda c: c.link.ask(PullMessage(GROUP, c.topic, 0, 0, 1, 4)),
    C.LITE_PULL_MESSAGE: lambda c: c.link.call(
        C.LITE_PULL_MESSAGE, PullMessage(GROUP, c.topic, 0, 0, 1, 4).ext()
    ),
    C.UPDATE_CONSUMER_OFFSET: lambda c: c.link.ask(UpdateConsumerOffset(GROUP, c.topic, 0, 1)),
    C.QUERY_CONSUMER_OFFSET: lambda c: c.link.ask(QueryConsumerOffset(GROUP, c.topic, 0)),
    C.GET_MAX_OFFSET: lambda c: c.link.ask(GetMaxOffset(c.topic, 0)),
    C.GET_MIN_OFFSET: lambda c: c.link.ask(GetMinOffset(c.topic, 0)),
    C.SEARCH_OFFSET_BY_TIMESTAMP: lambda c: c.link.ask(SearchOffset(c.topic, 0, 1)),
    C.GET_EARLIEST_MSG_STORETIME: lambda c: c.link.ask(EarliestStoreTime(c.topic, 0)),
    C.VIEW_MESSAGE_BY_ID: lambda c: c.link.ask(ViewMessage(c.physical)),
    C.QUERY_MESSAGE: lambda c: c.link.ask(QueryMessage(c.topic, "k", 1, 0, 1 << 60)),
    C.CONSUMER_SEND_MSG_BACK: lambda c: c.link.ask(SendBack(c.physical, GROUP, 1)),
    C.HEART_BEAT: lambda c: c.link.call(C.HEART_BEAT, body=c.beat()),
    C.LOCK_BATCH_MQ: lambda c: c.link.call(C.LOCK_BATCH_MQ, body=locks(c)),
    C.QUERY_ASSIGNMENT: lambda c: c.link.call(C.QUERY_ASSIGNMENT, body=group_body(c)),
    C.GET_TOPIC_CONFIG: lambda c: c.link.call(C.GET_TOPIC_CONFIG, {"topic": c.topic}),
    C.GET_TOPIC_STATS_INFO: lambda c: c.link.call(C.GET_TOPIC_STATS_INFO, {"topic": c.topic}),
    C.QUERY_TOPIC_CONSUME_BY_WHO: lambda c: c.link.call(
        C.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": c.topic}
    ),
}
WRITING: dict[RequestCode, Act] = {
    C.SEND_MESSAGE: lambda c: c.link.ask(c.message(), b"m"),
    C.SEND_MESSAGE_V2: lambda c: c.link.call(C.SEND_MESSAGE_V2, c.message().ext_v2(), b"m"),
    C.SEND_BATCH_MESSAGE: lambda c: c.link.call(
        C.SEND_BATCH_MESSAGE, c.message().ext_v2(), batch_bytes([BatchElement(0, b"m", b"")])
    ),
    C.END_TRANSACTION: lambda c: c.link.ask(c.decision),
    C.RECALL_MESSAGE: lambda c: c.link.ask(RecallMessage("PG", c.topic, "none")),
}
FREE: dict[RequestCode, Act] = {
    C.GET_ROUTEINFO_BY_TOPIC: lambda c: c.link.ask(GetRouteInfo(c.topic)),
    C.GET_BROKER_CLUSTER_INFO: lambda c: c.link.call(C.GET_BROKER_CLUSTER_INFO),
    # There are no values: none is shown, and deleting one changes nothing.
    C.GET_KV_CONFIG: lambda c: c.link.call(C.GET_KV_CONFIG),
    C.GET_KVLIST_BY_NAMESPACE: lambda c: c.link.call(C.GET_KVLIST_BY_NAMESPACE),
    C.DELETE_KV_CONFIG: lambda c: c.link.call(C.DELETE_KV_CONFIG),
    # These show what the user may use.
    C.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: lambda c: c.link.call(
        C.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
    ),
    C.GET_TOPICS_BY_CLUSTER: lambda c: c.link.call(C.GET_TOPICS_BY_CLUSTER, {"cluster": "x"}),
    C.GET_SYSTEM_TOPIC_LIST_FROM_NS: lambda c: c.link.call(C.GET_SYSTEM_TOPIC_LIST_FROM_NS),
    C.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: lambda c: c.link.call(C.GET_SYSTEM_TOPIC_LIST_FROM_BROKER),
    C.GET_ALL_TOPIC_CONFIG: lambda c: c.link.call(C.GET_ALL_TOPIC_CONFIG),
    C.GET_CONSUME_STATS: lambda c: c.link.call(C.GET_CONSUME_STATS, {"consumerGroup": GROUP}),
    # These are about the connection itself.
    C.UNREGISTER_CLIENT: lambda c: c.link.ask(UnregisterClient("me", "PG", None)),
    C.UNLOCK_BATCH_MQ: lambda c: c.link.call(C.UNLOCK_BATCH_MQ, body=locks(c)),
    C.GET_CONSUMER_LIST_BY_GROUP: lambda c: c.link.ask(GetConsumerList(GROUP)),
    C.CHECK_CLIENT_CONFIG: lambda c: c.link.call(
        C.CHECK_CLIENT_CONFIG, body=ClientCheck("me", GROUP, Subscription(c.topic, "*")).encode()
    ),
}
WATCHED: dict[RequestCode, Act] = {
    C.GET_BROKER_CONFIG: lambda c: c.link.call(C.GET_BROKER_CONFIG),
    C.GET_BROKER_CONSUME_STATS: lambda c: c.link.call(C.GET_BROKER_CONSUME_STATS),
    C.GET_BROKER_RUNTIME_INFO: lambda c: c.link.call(C.GET_BROKER_RUNTIME_INFO),
    C.VIEW_BROKER_STATS_DATA: lambda c: c.link.ask(ViewStats("TOPIC_PUT_NUMS", c.topic)),
    C.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: lambda c: c.link.call(C.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
    C.GET_SUBSCRIPTIONGROUP_CONFIG: lambda c: c.link.call(
        C.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": GROUP}
    ),
    C.GET_CONSUMER_CONNECTION_LIST: lambda c: c.link.call(
        C.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": GROUP}
    ),
    C.GET_PRODUCER_CONNECTION_LIST: lambda c: c.link.call(
        C.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "PG"}
    ),
    C.GET_ALL_PRODUCER_INFO: lambda c: c.link.call(C.GET_ALL_PRODUCER_INFO),
    C.QUERY_TOPICS_BY_CONSUMER: lambda c: c.link.call(C.QUERY_TOPICS_BY_CONSUMER, {"group": GROUP}),
    C.GET_CONSUMER_RUNNING_INFO: lambda c: c.link.ask(GetRunningInfo(GROUP, "nobody")),
}
ADMIN = ("administrator",)


def settings(case: Case) -> Command:
    body = json_bytes(GroupConfig(case.new).as_map())
    return case.link.call(C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)


def delete_settings(case: Case) -> Command:
    settings(case)
    return case.link.ask(DeleteGroup(case.new))


def create_by_sending(case: Case) -> list[Need]:
    name = f"topic.{case.new}"
    return [Need("write", "topic", name), Need("configure", "topic", name)]


RULES: dict[str, Rule[RequestCode, Case]] = {
    **{code.name: Rule(code, act, on_topic("read")) for code, act in READING.items()},
    **{code.name: Rule(code, act, on_topic("write")) for code, act in WRITING.items()},
    **{code.name: Rule(code, act, nothing) for code, act in FREE.items()},
    **{code.name: Rule(code, act, nothing, tags=("monitoring",)) for code, act in WATCHED.items()},
    "SEND_MESSAGE to a new topic": Rule(
        C.SEND_MESSAGE, lambda c: c.link.ask(c.message(c.new), b"m"), create_by_sending
    ),
    "SEND_REPLY_MESSAGE": Rule(
        C.SEND_REPLY_MESSAGE,
        lambda c: c.link.call(C.SEND_REPLY_MESSAGE, reply().ext(), b"m"),
        lambda c: [Need("write", "topic", f"topic.{REPLIES}")],
    ),
    "SEND_REPLY_MESSAGE_V2": Rule(
        C.SEND_REPLY_MESSAGE_V2,
        lambda c: c.link.call(C.SEND_REPLY_MESSAGE_V2, reply().ext_v2(), b"m"),
        lambda c: [Need("write", "topic", f"topic.{REPLIES}")],
    ),
    "UPDATE_AND_CREATE_TOPIC": Rule(
        C.UPDATE_AND_CREATE_TOPIC,
        lambda c: c.link.ask(CreateTopic(c.new, 1, 1)),
        lambda c: [Need("configure", "topic", f"topic.{c.new}")],
    ),
    "DELETE_TOPIC_IN_BROKER": Rule(
        C.DELETE_TOPIC_IN_BROKER,
        lambda c: c.link.ask(DeleteTopic(c.topic)),
        on_topic("configure"),
        tags=ADMIN,
    ),
    "DELETE_TOPIC_IN_NAMESRV": Rule(
        C.DELETE_TOPIC_IN_NAMESRV,
        lambda c: c.link.call(C.DELETE_TOPIC_IN_NAMESRV, {"topic": c.topic}),
        nothing,
        tags=ADMIN,
    ),
    "INVOKE_BROKER_TO_RESET_OFFSET": Rule(
        C.INVOKE_BROKER_TO_RESET_OFFSET,
        lambda c: c.link.call(
            C.INVOKE_BROKER_TO_RESET_OFFSET, ResetOffset(c.topic, GROUP, 0, True).ext()
        ),
        on_topic("read"),
        tags=ADMIN,
    ),
    "CLONE_GROUP_OFFSET": Rule(
        C.CLONE_GROUP_OFFSET,
        lambda c: c.link.ask(CloneGroupOffset(GROUP, "other", c.topic)),
        on_topic("read"),
        tags=ADMIN,
    ),
    "CONSUME_MESSAGE_DIRECTLY": Rule(
        C.CONSUME_MESSAGE_DIRECTLY,
        lambda c: c.link.ask(ConsumeDirectly(GROUP, "nobody", offset_id(NOWHERE, c.physical))),
        on_topic("read"),
        tags=ADMIN,
    ),
    "SET_MESSAGE_REQUEST_MODE": Rule(
        C.SET_MESSAGE_REQUEST_MODE,
        lambda c: c.link.call(C.SET_MESSAGE_REQUEST_MODE, body=group_body(c)),
        on_topic("configure"),
        tags=ADMIN,
    ),
    "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP": Rule(
        C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, settings, nothing, tags=ADMIN
    ),
    "DELETE_SUBSCRIPTIONGROUP": Rule(
        C.DELETE_SUBSCRIPTIONGROUP, delete_settings, nothing, tags=ADMIN
    ),
}
OTHER_ANSWERS = {  # done, and nothing there
    ResponseCode.QUERY_NOT_FOUND,
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.ILLEGAL_OPERATION,
}


def reply() -> SendMessage:
    return SendMessage("PG", REPLIES, 0, 0, 1, properties=properties_text({"REPLY_TO_CLIENT": "x"}))


@pytest.fixture(scope="module")
def links(site: Site) -> Iterator[dict[bool, Link]]:
    """One that signs, and one that does not."""

    def prepare(broker: Broker) -> None:
        broker.users.store_user(USER, None, ("administrator",))
        broker.users.set_secret(USER, SECRET)

    site.allow_everything()
    site.do(prepare)
    address = f"127.0.0.1:{site.running.ports['remoting']}"
    with Link(address, credentials=(USER, SECRET)) as signed, Link(address) as plain:
        yield {True: signed, False: plain}


@pytest.fixture
def case(site: Site, links: dict[bool, Link]) -> Iterator[Case]:
    site.allow_everything()
    site.do(lambda broker: broker.users.store_user(USER, None, ("administrator",)))
    found = Case(links[True])
    found.prepare()
    yield found
    site.do(clear)


def refusal(rule: Rule[RequestCode, Case], case: Case) -> str | None:
    """The text of the refusal, or None when the request was carried out."""
    answer = rule.act(case)
    if answer.code == ResponseCode.NO_PERMISSION:
        return answer.remark or ""
    assert answer.code == ResponseCode.SUCCESS or answer.code in OTHER_ANSWERS, answer
    return None


MATRIX = Matrix(RULES, refusal)


@every_subset
@pytest.mark.parametrize("name", RULES)
def test_a_request_is_done_with_the_actions_it_needs_and_refused_without(
    site: Site, case: Case, name: str, granted: tuple[str, ...]
) -> None:
    MATRIX.check_actions(site, case, name, granted)


@pytest.mark.parametrize("name", RULES)
def test_a_request_needs_no_more_than_its_rule_says(site: Site, case: Case, name: str) -> None:
    site.do(lambda broker: broker.users.store_user(USER, None, RULES[name].tags))
    MATRIX.check_exact_needs(site, case, name)


@pytest.mark.parametrize("name", RULES)
def test_a_request_that_needs_a_tag_is_refused_without(site: Site, case: Case, name: str) -> None:
    rule = RULES[name]
    site.do(lambda broker: broker.users.store_user(USER, None, ()))

    text = refusal(rule, case)

    assert (text is not None) == bool(rule.tags)
    assert not rule.tags or "tag" in (text or "")


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.tags == ADMIN])
def test_administration_needs_a_login(case: Case, links: dict[bool, Link], name: str) -> None:
    """Even of a user who may do everything: guest, as whom clients act that do not sign."""
    case.link = links[False]

    answer = case.link.call(RULES[name].operation, {"topic": case.topic, "group": "g"})

    assert answer.code == ResponseCode.NO_PERMISSION
    assert "needs a login" in (answer.remark or "")


def test_every_request_has_a_rule() -> None:
    assert {rule.operation for rule in RULES.values()} == set(HANDLERS)
    assert {rule.operation for rule in RULES.values() if rule.tags == ADMIN} == ADMINISTRATION
    assert {rule.operation for rule in RULES.values() if rule.tags == ("monitoring",)} == WATCHING
