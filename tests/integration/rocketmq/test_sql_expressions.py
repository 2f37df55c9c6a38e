"""The table of SQL92 expressions: the SDK and the broker decide as Apache's filter does."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from headrace.model.selectors import SqlSelector
from headrace.rocketmq import InvalidSelectorError, MessageSelector
from headrace.testing import run_broker
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.headers.groups import ClientCheck, Subscription
from headrace.wire.remoting.headers.pull import SQL92
from support.raw_remoting import Link
from support.remoting_broker import Ours
from support.rocketmq.protocol_checks import new_topic, pull, read, send
from support.rocketmq.random_expressions import verdict
from support.rocketmq.sql_expressions import (
    MATCHED,
    NOT_MATCHED,
    ONLY_HERE_REFUSED,
    PROPERTIES,
    REFUSED,
    VERDICTS,
)


@pytest.fixture(scope="module")
def ours() -> Iterator[Ours]:
    with run_broker(sync=False) as broker:
        yield Ours(broker)


def test_the_table_is_long_enough() -> None:
    assert len(VERDICTS) >= 60
    assert min(map(len, (MATCHED, NOT_MATCHED, REFUSED))) >= 20


@pytest.mark.parametrize("expression", VERDICTS)
def test_an_expression_has_its_verdict(expression: str) -> None:
    assert verdict(expression) == VERDICTS[expression]


@pytest.mark.parametrize("expression", [*REFUSED, *ONLY_HERE_REFUSED])
def test_the_sdk_refuses_an_expression(expression: str) -> None:
    with pytest.raises(InvalidSelectorError, match="SQL92 expression"):
        MessageSelector.by_sql(expression).validate()


def test_the_broker_chooses_by_the_table(ours: Ours) -> None:
    topic = new_topic(ours)
    with Link(ours.broker_address) as link:
        send(link, topic, b"x", **PROPERTIES)
        read(link, topic, 1)
        for expression in [*MATCHED, *NOT_MATCHED]:
            answer = pull(link, topic, subscription=expression, expression_type=SQL92)
            found = "match" if answer.code == ResponseCode.SUCCESS else "no match"
            assert (expression, found) == (expression, VERDICTS[expression])


def test_the_broker_refuses_by_the_table(ours: Ours) -> None:
    with Link(ours.broker_address) as link:
        for expression in [*REFUSED, *ONLY_HERE_REFUSED]:
            wanted = Subscription("T", expression, kind=SQL92)
            check = ClientCheck("c", f"G{uuid4().hex}", wanted)
            answer = link.call(RequestCode.CHECK_CLIENT_CONFIG, body=check.encode())
            assert (expression, answer.code) == (expression, ResponseCode.SUBSCRIPTION_PARSE_FAILED)


def test_a_selector_is_compiled_once() -> None:
    assert SqlSelector.parse("a = 5") is SqlSelector.parse("a = 5")
