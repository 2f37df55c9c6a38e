"""Our SQL conditions choose what Apache's filter chooses, alone and in a broker."""

from __future__ import annotations

from random import Random
from uuid import uuid4

import pytest

from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.headers.groups import ClientCheck, Subscription
from headrace.wire.remoting.headers.pull import SQL92
from support.raw_remoting import Link
from support.rocketmq.apache import Apache
from support.rocketmq.programs import filtered
from support.rocketmq.protocol_checks import accepted, new_topic, pull, read, send
from support.rocketmq.random_expressions import is_known_difference, random_expressions, verdict
from support.rocketmq.sql_expressions import ONLY_HERE_REFUSED, PROPERTIES, REFUSED, VERDICTS

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


def test_a_broker_chooses_the_same_messages(apache: Apache) -> None:
    topic = new_topic(apache)
    wanted = {one: verdict for one, verdict in VERDICTS.items() if verdict != "refused"}
    with Link(apache.broker_address) as link:
        send(link, topic, b"x", **PROPERTIES)
        read(link, topic, 1)
        chosen = {
            one: "match"
            if pull(link, topic, subscription=one, expression_type=SQL92).code
            == ResponseCode.SUCCESS
            else "no match"
            for one in wanted
        }
    assert chosen == wanted


@pytest.mark.parametrize("mistake", REFUSED[::4])
def test_a_broker_refuses_the_same_conditions(apache: Apache, mistake: str) -> None:
    check = ClientCheck("c", f"G{uuid4().hex}", Subscription("T", mistake, kind=SQL92))
    with Link(apache.broker_address) as link:
        answer = link.call(RequestCode.CHECK_CLIENT_CONFIG, body=check.encode())
    assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_the_table_has_the_verdicts_of_the_filter() -> None:
    both = {**VERDICTS, **ONLY_HERE_REFUSED}
    assert dict(zip(both, filtered(list(both)), strict=True)) == both


@pytest.mark.parametrize("seed", range(4))
def test_random_expressions_have_the_verdict_of_the_filter(seed: int) -> None:
    expressions = list(random_expressions(Random(seed), 7000))
    found = {one: verdict(one) for one in expressions}
    differing = {
        one: (theirs, found[one])
        for one, theirs in zip(expressions, filtered(expressions), strict=True)
        if found[one] != theirs and not is_known_difference(one)
    }
    assert differing == {}


def test_a_condition_is_accepted(apache: Apache) -> None:
    check = ClientCheck("c", "G", Subscription("T", "a = 5", kind=SQL92))
    with Link(apache.broker_address) as link:
        accepted(link.call(RequestCode.CHECK_CLIENT_CONFIG, body=check.encode()))
