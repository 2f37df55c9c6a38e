"""Our broker for RocketMQ clients: what a conversation with any broker does not show."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace import topics
from headrace.testing import run_broker, wait_for
from headrace.wire.remoting import message_queue, names
from headrace.wire.remoting.codes import PullFlag, RequestCode, ResponseCode
from headrace.wire.remoting.command import ONEWAY, Command
from headrace.wire.remoting.frames import Reader, command_bytes
from headrace.wire.remoting.headers.admin import CreateTopic, DeleteTopic
from headrace.wire.remoting.headers.groups import GetConsumerList, Heartbeat, UnregisterClient
from headrace.wire.remoting.headers.offsets import (
    GetMaxOffset,
    OffsetResult,
    QueryConsumerOffset,
    UpdateConsumerOffset,
)
from headrace.wire.remoting.headers.pull import PullMessage, PullResult
from headrace.wire.remoting.headers.route import GetRouteInfo, TopicRoute
from headrace.wire.remoting.headers.send import (
    COMMIT,
    ROLLBACK,
    CheckTransaction,
    EndTransaction,
    SendBack,
    SendMessage,
    SendResponse,
)
from headrace.wire.remoting.message_queue import LockRequest, MessageQueue
from headrace.wire.remoting.properties import properties_text
from support.raw_remoting import Link, Site
from support.remoting_bodies import RemotingMessage, route_address, take_messages
from support.remoting_broker import Ours
from support.rocketmq.protocol_checks import accepted, join, new_topic, pull, send

pytestmark = pytest.mark.timeout(60)

HELD = int(PullFlag.SUSPEND | PullFlag.SUBSCRIPTION)


@pytest.fixture
def server(ours: Site) -> Site:
    return ours


@pytest.fixture
def link(server: Site) -> Iterator[Link]:
    with Link(server.broker_address) as link:
        yield link


@pytest.fixture
def topic(server: Site) -> str:
    return new_topic(server)


class Bare:
    """A connection on which requests do not wait for each other."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), 20)
        self.reader = Reader()
        self.received: list[Command] = []

    def __enter__(self) -> Bare:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *commands: Command) -> None:
        self.socket.sendall(b"".join([command_bytes(one) for one in commands]))

    def next(self) -> Command:
        while not self.received:
            data = self.socket.recv(1 << 16)
            assert data, "the connection was closed"
            self.received += self.reader.feed(data)
        return self.received.pop(0)


def held_pull(topic: str, opaque: int, wait_ms: int = 30_000, offset: int = 0) -> Command:
    header = PullMessage(
        "CG", topic, 0, offset, 32, HELD, suspend_timeout_millis=wait_ms, subscription="*"
    )
    return Command(RequestCode.PULL_MESSAGE, header.ext(), opaque=opaque)


def max_offset(topic: str, opaque: int) -> Command:
    return Command(RequestCode.GET_MAX_OFFSET, GetMaxOffset(topic, 0).ext(), opaque=opaque)


# -- waiting -----------------------------------------------------------------------------------


def test_a_long_poll_blocks_no_other_request_and_is_answered_by_the_next_message(
    server: Site, link: Link, topic: str
) -> None:
    with Bare(server.broker_address) as bare:
        bare.send(held_pull(topic, 1), max_offset(topic, 2))
        assert bare.next().opaque == 2
        send(link, topic, b"news")
        answer = bare.next()

    assert answer.opaque == 1
    assert [one.body for one in take_messages(answer.body)] == [b"news"]


def test_a_held_pull_of_a_topic_that_is_not_there_waits_for_it(server: Site, link: Link) -> None:
    topic = names.retry_topic("late")
    with Bare(server.broker_address) as bare:
        bare.send(held_pull(topic, 1), max_offset(topic, 2))
        assert bare.next().opaque == 2
        send(link, topic, b"news")

        assert [one.body for one in take_messages(bare.next().body)] == [b"news"]


def test_a_held_pull_ends_with_its_time() -> None:
    with run_broker(clock="virtual", sync=False) as broker:
        server = Ours(broker)
        topic = new_topic(server)
        with Bare(server.broker_address) as bare:
            bare.send(held_pull(topic, 1, 15_000), max_offset(topic, 2))
            assert bare.next().opaque == 2
            broker.advance(14)
            bare.send(max_offset(topic, 3))
            assert bare.next().opaque == 3
            broker.advance(2)
            answer = bare.next()

    assert (answer.opaque, answer.code) == (1, ResponseCode.PULL_NOT_FOUND)
    assert PullResult.take(answer.ext).next_begin_offset == 0


def test_a_pull_that_chooses_nothing_goes_on_behind_what_was_looked_at(
    link: Link, topic: str
) -> None:
    for _ in range(3):
        send(link, topic, b"x", TAGS="other")
    answer = pull(link, topic, subscription="mine")

    assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert PullResult.take(answer.ext).next_begin_offset == 3


# -- requests without an answer ------------------------------------------------------------------


def test_a_oneway_request_is_never_answered_not_even_when_it_fails(
    server: Site, topic: str
) -> None:
    wrong = Command(RequestCode.GET_MAX_OFFSET, {}, opaque=1, flag=ONEWAY)
    unknown = Command(29_999, {}, opaque=2, flag=ONEWAY)
    header = SendMessage("PG", topic, 0, 0, 1)
    oneway = Command(RequestCode.SEND_MESSAGE, header.ext(), b"x", opaque=3, flag=ONEWAY)
    with Bare(server.broker_address) as bare:
        bare.send(wrong, unknown, oneway, max_offset(topic, 4))

        assert bare.next().opaque == 4


# -- groups ------------------------------------------------------------------------------------


def test_those_who_stay_hear_of_those_who_go(server: Site, topic: str) -> None:
    with Link(server.broker_address) as stays:
        join(stays, topic, "G-leave", "one")
        stays.wait_for_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
        stays.requests.clear()
        with Link(server.broker_address) as goes:
            join(goes, topic, "G-leave", "two")
            stays.wait_for_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
            members = stays.ask(GetConsumerList("G-leave"))
            stays.requests.clear()
        stays.wait_for_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
        left = stays.ask(GetConsumerList("G-leave"))

    assert message_queue.take_members(members.body) == ["one", "two"]
    assert message_queue.take_members(left.body) == ["one"]


def test_locks_of_a_lost_connection_are_free(server: Site, topic: str) -> None:
    queue = MessageQueue(topic, server.broker_name, 0)

    def lock(link: Link, client_id: str) -> tuple[MessageQueue, ...]:
        body = LockRequest("G-lock", client_id, (queue,)).encode()
        answer = accepted(link.call(RequestCode.LOCK_BATCH_MQ, body=body))
        return message_queue.take_locked(answer.body)

    with Link(server.broker_address) as stays:
        join(stays, topic, "G-lock", "one")
        with Link(server.broker_address) as goes:
            join(goes, topic, "G-lock", "two")
            assert lock(goes, "two") == (queue,)
            assert lock(stays, "one") == ()

        assert wait_for(lambda: lock(stays, "one")) == (queue,)


def test_the_silent_are_forgotten() -> None:
    with run_broker(clock="virtual", sync=False, heartbeat=0) as broker:
        server = Ours(broker)
        topic = new_topic(server)
        with Link(server.broker_address) as link:
            join(link, topic, "G", "one")
            for _ in range(13):
                broker.advance(10)
                link.ask(GetMaxOffset(topic, 0))  # the connection lives, only the member is silent

            assert link.ask(GetConsumerList("G")).code == ResponseCode.SYSTEM_ERROR


# -- again and again -----------------------------------------------------------------------------


def only(link: Link, topic: str) -> RemotingMessage:
    (message,) = take_messages(accepted(pull(link, topic)).body)
    return message


def test_a_message_that_cannot_be_consumed_is_dead_lettered(link: Link, topic: str) -> None:
    send(link, topic, b"bad")
    message = only(link, topic)
    header = SendBack(message.physical_offset, "G-bury", -1, message.msg_id, topic)
    accepted(link.ask(header))
    dead = only(link, names.dead_letter_topic("G-bury"))

    assert dead.body == b"bad"
    assert dead.reconsume_times == 1
    assert dead.properties["RETRY_TOPIC"] == topic


def test_after_the_last_retry_a_message_is_dead_lettered(link: Link, topic: str) -> None:
    send(link, topic, b"bad")
    message = only(link, topic)
    header = SendBack(message.physical_offset, "G-last", 1, max_reconsume_times=0)
    accepted(link.ask(header))

    assert only(link, names.dead_letter_topic("G-last")).body == b"bad"


def test_a_delayed_message_comes_when_its_time_has_come() -> None:
    with run_broker(clock="virtual", sync=False) as broker:
        server = Ours(broker)
        topic = new_topic(server)
        with Link(server.broker_address) as link:
            send(link, topic, b"late", DELAY="4")  # 30 seconds
            broker.advance(29)
            assert OffsetResult.take(link.ask(GetMaxOffset(topic, 0)).ext).offset == 0
            broker.advance(2)
            message = only(link, topic)

    assert message.body == b"late"
    assert message.delay_level == 4


def test_delayed_messages_of_one_level_come_once_each_and_in_order() -> None:
    with run_broker(clock="virtual", sync=False, rocketmq_pull_limit=50) as broker:
        server = Ours(broker)
        topic = new_topic(server)
        with Link(server.broker_address) as link:
            for number in range(50):
                send(link, topic, b"%d" % number, DELAY="1")
                if number == 24:
                    broker.advance(0.5)
            broker.advance(5)
            found = list(take_messages(accepted(pull(link, topic, max_msg_nums=1000)).body))
            broker.advance(5)
            end = OffsetResult.take(link.ask(GetMaxOffset(topic, 0)).ext).offset

    assert [message.body for message in found] == [b"%d" % number for number in range(50)]
    assert end == 50


def test_a_delayed_message_of_a_recreated_topic_is_not_lost() -> None:
    with run_broker(clock="virtual", sync=False) as broker:
        server = Ours(broker)
        topic = new_topic(server)
        with Link(server.broker_address, credentials=server.secret()) as link:
            header = SendMessage("PG", topic, 1, 0, 1, properties="DELAY\x011\x02")
            accepted(link.ask(header, b"late"))
            accepted(link.ask(DeleteTopic(topic)))
            accepted(link.ask(CreateTopic(topic, 1, 1)))
            broker.advance(5)

            assert only(link, topic).body == b"late"


# -- transactions --------------------------------------------------------------------------------


def half(link: Link, topic: str) -> EndTransaction:
    """Send a half message; its commit."""
    text = properties_text({"UNIQ_KEY": "U", "TRAN_MSG": "true", "PGROUP": "PG"})
    header = SendMessage("PG", topic, 1, 4, 1, properties=text)
    result = SendResponse.take(accepted(link.ask(header, b"half")).ext)
    physical = int(result.msg_id[-16:], 16)
    return EndTransaction("PG", result.queue_offset, physical, COMMIT, False, "U", "U", topic)


def test_a_half_message_survives_a_crash_and_is_committed_once(tmp_path: Path) -> None:
    with run_broker(data_dir=tmp_path / "data") as broker:
        server = Ours(broker)
        topic = new_topic(server)
        with Link(server.broker_address) as link:
            commit = half(link, topic)
        broker.crash()
        broker.start()
        with Link(server.broker_address) as link:
            wrong = link.ask(replace(commit, producer_group="other"))
            accepted(link.ask(commit))
            again = link.ask(commit)
        broker.crash()
        broker.start()
        with Link(server.broker_address) as link:
            (message,) = take_messages(accepted(pull(link, topic, queue_id=1)).body)

    assert wrong.code == again.code == ResponseCode.QUERY_NOT_FOUND
    assert message.body == b"half"
    assert message.sys_flag & 0xC == COMMIT


def test_a_rolled_back_message_is_never_seen(link: Link, topic: str) -> None:
    accepted(link.ask(replace(half(link, topic), commit_or_rollback=ROLLBACK)))
    answer = link.ask(PullMessage("CG", topic, 1, 0, 32, 4, subscription="*"))

    assert answer.code == ResponseCode.PULL_NOT_FOUND


def test_a_producer_that_does_not_decide_is_asked_again_and_again() -> None:
    with run_broker(clock="virtual", sync=False) as broker:
        server = Ours(broker)
        topic = new_topic(server)
        with Link(server.broker_address) as link:
            join(link, topic, "G", "one")  # as a producer of PG too
            commit = half(link, topic)
            broker.advance(4)
            link.ask(GetMaxOffset(topic, 0))
            early = [one.code for one in link.requests]
            broker.advance(8)
            question = link.wait_for_request(RequestCode.CHECK_TRANSACTION_STATE)
            asked = CheckTransaction.take(question.ext)
            link.requests.clear()
            broker.advance(32)
            link.wait_for_request(RequestCode.CHECK_TRANSACTION_STATE)

    assert RequestCode.CHECK_TRANSACTION_STATE not in early
    assert (asked.commit_log_offset, asked.topic) == (commit.commit_log_offset, topic)
    (message,) = take_messages(question.body)
    assert (message.topic, message.queue_id, message.body) == (topic, 1, b"half")


# -- restarts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_messages_offsets_and_delays_survive(tmp_path: Path, how: str) -> None:
    with run_broker(clock="virtual", data_dir=tmp_path / "data") as broker:
        server = Ours(broker)
        topic = new_topic(server)
        with Link(server.broker_address) as link:
            send(link, topic, b"kept", TAGS="a")
            send(link, topic, b"late", DELAY="2")
            join(link, topic, "G", "one")
            accepted(link.ask(UpdateConsumerOffset("G", topic, 0, 1)))
            accepted(link.ask(UnregisterClient("one", None, "G")))
        if how == "crash":
            broker.crash()
            broker.start()
        else:
            broker.restart()
        with Link(server.broker_address) as link:
            kept = only(link, topic)
            offset = OffsetResult.take(link.ask(QueryConsumerOffset("G", topic, 0)).ext).offset
            broker.advance(6)
            found = wait_for(
                lambda: [one.body for one in take_messages(pull(link, topic, 1).body or b"")]
            )

    assert (kept.body, kept.tags, offset) == (b"kept", "a", 1)
    assert found == [b"late"]


# -- who may what --------------------------------------------------------------------------------


def test_topics_are_not_made_by_sending_when_the_settings_say_so() -> None:
    with run_broker(sync=False, auto_create_topics=False) as broker:
        server = Ours(broker)
        with Link(server.broker_address) as link:
            answer = link.ask(SendMessage("PG", "T", 0, 0, 1), b"x")
            template = link.ask(GetRouteInfo(names.TEMPLATE_TOPIC))

    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert template.code == ResponseCode.TOPIC_NOT_EXIST


def test_an_unknown_rocketmq_user_refuses_every_request() -> None:
    with (
        run_broker(sync=False, rocketmq_user="nobody") as broker,
        Link(Ours(broker).broker_address) as link,
    ):
        answer = link.ask(GetRouteInfo("T"))

    assert answer.code == ResponseCode.NO_PERMISSION
    assert "rocketmq_user" in (answer.remark or "")


def test_clients_get_the_advertised_host() -> None:
    with run_broker(sync=False, advertise_host="mq.example") as broker:
        server = Ours(broker)
        topic = new_topic(server)
        with Link(server.name_address) as link:
            route = TopicRoute.take(link.ask(GetRouteInfo(topic)).body)

    assert route_address(route, "headrace") == f"mq.example:{broker.ports['remoting']}"


def test_the_brokers_own_topics_are_closed(link: Link) -> None:
    answer = link.ask(SendMessage("PG", names.HALF_TOPIC, 0, 0, 1), b"x")

    assert answer.code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (SendMessage("PG", "a b", 0, 0, 1), ResponseCode.INVALID_PARAMETER),
        (GetMaxOffset("T", 99), ResponseCode.SUCCESS),
        (
            PullMessage("CG", "T", 0, 0, 1, 4, subscription="a >", expression_type="SQL92"),
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        ),
        (PullMessage("a b", "T", 0, 0, 1, 4), ResponseCode.INVALID_PARAMETER),
    ],
)
def test_a_wrong_request_is_answered_with_its_code(
    link: Link, header: SendMessage | GetMaxOffset | PullMessage, code: ResponseCode
) -> None:
    assert link.ask(header).code == code


def test_a_queue_that_is_not_there_is_refused(link: Link, topic: str) -> None:
    answer = link.ask(SendMessage("PG", topic, 99, 0, 1), b"x")

    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert "has no queue 99" in (answer.remark or "")


def test_an_unknown_queue_cannot_be_locked(server: Site, link: Link, topic: str) -> None:
    join(link, topic, "G-none", "one")
    wanted = [MessageQueue(topic, server.broker_name, at) for at in (0, 99)]
    wanted.append(MessageQueue("T-nowhere", server.broker_name, 0))
    body = LockRequest("G-none", "one", tuple(wanted)).encode()
    answer = accepted(link.call(RequestCode.LOCK_BATCH_MQ, body=body))

    assert message_queue.take_locked(answer.body) == (wanted[0],)


def test_a_client_in_very_many_groups_is_refused(link: Link) -> None:
    groups = tuple(f"P{number}" for number in range(1001))
    answer = link.call(RequestCode.HEART_BEAT, body=Heartbeat("one", groups).encode())

    assert answer.code == ResponseCode.INVALID_PARAMETER


def test_a_topic_of_another_engine_is_refused_with_its_name_and_not_to_be_retried() -> None:
    with run_broker(sync=False) as broker:
        url = f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"
        with topics.open(url) as store:
            store.create("orders", engine="memory")
        with Link(Ours(broker).broker_address) as link:
            for request in (
                SendMessage("PG", "orders", 0, 0, 1),
                PullMessage("CG", "orders", 0, 0, 32, int(PullFlag.SUBSCRIPTION)),
                GetMaxOffset("orders", 0),
                QueryConsumerOffset("CG", "orders", 0),
                GetRouteInfo("orders"),
                CreateTopic("orders", 1, 1),
            ):
                answer = link.ask(request, b"x" if isinstance(request, SendMessage) else b"")

                assert answer.code == ResponseCode.INVALID_PARAMETER
                assert "engine 'memory', which RocketMQ clients cannot use" in (answer.remark or "")


@pytest.mark.parametrize("engine", [None, "memory"])
def test_a_waiting_pull_is_refused_when_its_topic_is_gone(engine: str | None) -> None:
    """Deleted, or now one of an engine that RocketMQ clients cannot use."""
    with run_broker(sync=False) as broker, Link(Ours(broker).broker_address) as link:
        accepted(link.ask(CreateTopic("orders", 1, 1)))
        flags = int(PullFlag.SUSPEND | PullFlag.SUBSCRIPTION)
        wanted = PullMessage("CG", "orders", 0, 0, 1, flags, suspend_timeout_millis=1000)
        pull = link.begin(wanted)
        link.ask(GetMaxOffset("orders", 0))  # the pull waits
        with topics.open(f"headrace://guest:guest@127.0.0.1:{broker.native_port}/") as store:
            store.delete("orders")
            if engine:
                store.create("orders", engine=engine)
        code = ResponseCode.INVALID_PARAMETER if engine else ResponseCode.TOPIC_NOT_EXIST

        assert link.finish(pull).code == code
        assert link.ask(wanted).code == code


def test_a_pull_of_a_topic_that_does_not_exist_is_refused() -> None:
    with run_broker(sync=False) as broker, Link(Ours(broker).broker_address) as link:
        pull = PullMessage("CG", "mistyped", 0, 0, 1, int(PullFlag.SUBSCRIPTION))

        assert link.ask(pull).code == ResponseCode.TOPIC_NOT_EXIST
        retries = replace(pull, topic="%RETRY%CG")  # exists from the first retry on
        assert link.ask(retries).code == ResponseCode.PULL_NOT_FOUND


def test_a_broker_that_is_low_on_memory_says_so_and_goes_on_serving_consumers() -> None:
    with run_broker(sync=False, memory_high_watermark="1MiB") as broker:
        server = Ours(broker)
        topic = new_topic(server)
        with Link(server.broker_address) as link:
            answer = link.ask(SendMessage("PG", topic, 0, 0, 1), b"x")

            assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "memory" in (answer.remark or "")
            assert link.ask(GetMaxOffset(topic, 0)).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        bytes.fromhex("7fffffff00000000"),
        bytes.fromhex("0000000800000004") + b"{]{]",
        bytes.fromhex("1603010200010001fc0303"),
    ],
)
def test_connections_of_other_protocols_are_closed(
    server: Site, link: Link, topic: str, data: bytes
) -> None:
    with Bare(server.broker_address) as bare:
        bare.socket.sendall(data)
        assert bare.socket.recv(100) == b""

    assert link.ask(GetMaxOffset(topic, 0)).code == ResponseCode.SUCCESS


def test_requests_before_a_damaged_frame_are_answered(server: Site, topic: str) -> None:
    header = SendMessage("PG", topic, 0, 0, 1)
    frames = [
        command_bytes(Command(header.CODE, header.ext(), b"x", opaque=number)) for number in (1, 2)
    ]
    reader = Reader()
    with Bare(server.broker_address) as bare:
        bare.socket.sendall(b"".join(frames) + bytes.fromhex("0000000800000004") + b"{]{]")
        answers = []
        while data := bare.socket.recv(1 << 16):
            answers += reader.feed(data)

    assert sorted((one.opaque, one.code) for one in answers) == [(1, 0), (2, 0)]


@pytest.mark.parametrize(
    ("settings", "there"),
    [
        ({}, {"namesrv", "remoting"}),
        ({"namesrv": False}, {"remoting"}),
        ({"remoting": False}, set()),
    ],
)
def test_its_ports_can_be_left_closed(settings: dict[str, bool], there: set[str]) -> None:
    with run_broker(sync=False, **settings) as running:
        assert {"namesrv", "remoting"} & set(running.ports) == there
        if "remoting" in there:
            with Link(f"127.0.0.1:{running.ports['remoting']}") as link:
                accepted(link.ask(CreateTopic("T", 1, 1)))
