"""What consoles ask of members: the broker hands it on, and hands the answer back."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event, Thread
from uuid import uuid4

import pytest

from headrace.rocketmq import (
    ConcurrentConsumer,
    ConsumerConfig,
    ConsumeResult,
    MessageExt,
)
from headrace.testing import run_broker, wait_for
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.headers.groups import ConsumeDirectly, GetRunningInfo
from headrace.wire.remoting.headers.statistics import ConsumeDirectlyResult, ConsumeResultCode
from support.raw_remoting import Link
from support.remoting_bodies import RunningInfo, take_topic_list
from support.remoting_broker import Ours
from support.rocketmq.protocol_checks import accepted, join, new_topic, send

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def site() -> Iterator[Ours]:
    with run_broker(sync=False) as broker:
        yield Ours(broker)


@pytest.fixture
def console(site: Ours) -> Iterator[Link]:
    with Link(site.broker_address, credentials=site.secret()) as link:
        yield link


@pytest.fixture
def topic(site: Ours) -> str:
    return new_topic(site)


class Worker:
    """A consumer of our SDK, and what it got."""

    def __init__(self, site: Ours, topic: str) -> None:
        self.group = f"G{uuid4().hex[:12]}"
        self.got: list[MessageExt] = []
        config = ConsumerConfig(
            consumer_group=self.group,
            namesrv_addr=site.name_address,
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",  # type: ignore[arg-type]
        )
        self.consumer = ConcurrentConsumer(config)
        self.consumer.subscribe(topic)
        self.consumer.register_message_listener(self._listen)

    def _listen(self, messages: list[MessageExt]) -> ConsumeResult:
        self.got += messages
        return ConsumeResult.SUCCESS


def test_a_console_asks_a_consumer_what_it_does(site: Ours, console: Link, topic: str) -> None:
    worker = Worker(site, topic)
    with worker.consumer as consumer:
        answer = console.ask(GetRunningInfo(worker.group, consumer.client_id))
        info = RunningInfo.take(accepted(answer).body)

    assert info.properties["PROP_NAMESERVER_ADDR"] == site.name_address
    assert topic in {queue.topic for queue in info.queues}


def test_a_console_lets_a_consumer_consume_a_message_again(
    site: Ours, console: Link, topic: str
) -> None:
    worker = Worker(site, topic)
    send(console, topic, b"again, please")
    with worker.consumer as consumer:
        wait_for(lambda: worker.got)
        again = ConsumeDirectly(worker.group, consumer.client_id, worker.got[0].offset_msg_id)
        result = ConsumeDirectlyResult.take(accepted(console.ask(again)).body)

    assert result.result is ConsumeResultCode.CR_SUCCESS
    assert [one.body for one in worker.got] == [b"again, please"] * 2


def test_an_unknown_member_is_reported(site: Ours, console: Link, topic: str) -> None:
    worker = Worker(site, topic)
    nobody = console.ask(GetRunningInfo(worker.group, "nobody"))
    send(console, topic, b"x")
    nothing = console.ask(ConsumeDirectly(worker.group, "nobody", "0" * 32))

    assert (nobody.code, nothing.code) == (ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_ERROR)
    assert "not online" in (nobody.remark or "")
    assert "no message" in (nothing.remark or "")


def test_a_member_that_dies_during_a_relayed_request_is_reported(
    site: Ours, console: Link, topic: str
) -> None:
    group, asked = f"G{uuid4().hex[:12]}", Event()
    with Link(site.broker_address) as member:
        join(member, topic, group, "silent")

        def die() -> None:
            member.wait_for_request(RequestCode.GET_CONSUMER_RUNNING_INFO)
            asked.set()

        dying = Thread(target=lambda: (die(), member.__exit__()))
        dying.start()
        answer = console.ask(GetRunningInfo(group, "silent"))
        dying.join()

    assert asked.is_set()
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "disconnected" in (answer.remark or "")


def test_a_signature_is_not_handed_on(site: Ours, console: Link, topic: str) -> None:
    group = f"G{uuid4().hex[:12]}"
    with (
        Link(site.broker_address) as member,
        Link(site.broker_address, credentials=site.secret()) as other,
    ):
        join(member, topic, group, "curious")
        other._send(307, GetRunningInfo(group, "curious").ext(), b"", 0)
        seen = member.wait_for_request(RequestCode.GET_CONSUMER_RUNNING_INFO)

    assert sorted(seen.ext) == ["clientId", "consumerGroup", "jstackEnable"]


def test_consoles_find_groups_by_their_retry_topics(site: Ours, console: Link, topic: str) -> None:
    group = f"G{uuid4().hex[:12]}"
    with Link(site.broker_address) as member:
        join(member, topic, group, "m")
        body = accepted(console.call(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).body

    assert f"%RETRY%{group}" in take_topic_list(body)
