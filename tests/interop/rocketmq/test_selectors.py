"""Our SQL conditions choose what a real Apache RocketMQ chooses."""

from __future__ import annotations

from uuid import uuid4

import pytest

from headrace.errors import SelectorError
from headrace.model.selectors import SqlSelector
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.headers.groups import ClientCheck, Subscription
from headrace.wire.remoting.headers.pull import SQL92
from support.raw_remoting import Link
from support.rocketmq.apache import Apache
from support.rocketmq.protocol_checks import accepted, new_topic, pull, read, send

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

PROPERTIES = {"a": "5", "b": "5.5", "color": "red", "on": "TRUE", "off": "false"}
CONDITIONS = [
    "a = 5",
    "a = 5L",
    "a = 5.0",
    "a <> 6",
    "5 = a",
    "a > 4 AND a < 6 and a >= 5 aNd a <= 5",
    "b > 5",
    "b > 5.0",
    "b = 55E-1",
    "b = 5 OR TRUE",
    "a = 5 OR b = 5",
    "NOT (b = 5)",
    "b BETWEEN 5.0 AND 6.5",
    "a NOT BETWEEN 6 AND 7",
    "a NOT BETWEEN 7 AND 6",
    "a BETWEEN -1 AND +6",
    "color IN ('blue', 'red')",
    "color NOT IN ('blue')",
    "missing IN ('x')",
    "missing NOT IN ('x')",
    "NOT (missing IN ('x'))",
    "color IS NOT NULL",
    "missing IS NULL",
    "missing = 5",
    "missing <> 5",
    "NOT (missing = 5)",
    "missing = 1 OR a = 5",
    "on = TRUE",
    "color = false",
    "color",
    "NOT color",
    "NOT missing",
    "TRUE",
    "NULL",
    "(a > 4) = TRUE",
    "a < b",
    "color > b",
    "-a = -5",
    "color CONTAINS 'e'",
    "color STARTSWITH 're'",
    "color ENDSWITH 'x'",
    "color NOT CONTAINS 'x'",
    "color NOT CONTAINS ''",
    "missing NOT CONTAINS 'x'",
    "NOT (missing CONTAINS 'x')",
    "a -- a comment\n = 5",
]
MISTAKES = [
    "a >",
    "a > 'x'",
    "a = NULL",
    "TRUE = 5",
    "a BETWEEN 2 AND 1",
    "5 IN ('x')",
    "a IN (5)",
    "5",
    "a CONTAINS 5",
    "a = 9223372036854775808",
]


def test_the_same_messages_are_chosen(apache: Apache) -> None:
    topic = new_topic(apache)
    with Link(apache.broker_address) as link:
        send(link, topic, b"x", **PROPERTIES)
        read(link, topic, 1)
        chosen = {
            condition: pull(link, topic, subscription=condition, expression_type=SQL92).code
            == ResponseCode.SUCCESS
            for condition in CONDITIONS
        }

    assert chosen == {
        condition: SqlSelector.parse(condition).matches(PROPERTIES) for condition in CONDITIONS
    }


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_same_conditions_are_refused(apache: Apache, mistake: str) -> None:
    check = ClientCheck("c", f"G{uuid4().hex}", Subscription("T", mistake, kind=SQL92))
    with Link(apache.broker_address) as link:
        answer = link.call(RequestCode.CHECK_CLIENT_CONFIG, body=check.encode())

    assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    with pytest.raises(SelectorError):
        SqlSelector.parse(mistake)


def test_a_condition_is_accepted(apache: Apache) -> None:
    check = ClientCheck("c", "G", Subscription("T", "a = 5", kind=SQL92))
    with Link(apache.broker_address) as link:
        accepted(link.call(RequestCode.CHECK_CLIENT_CONFIG, body=check.encode()))
