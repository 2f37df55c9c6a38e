"""Requests that make no sense: each gets an answer, and none upsets the broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.server.remoting.handlers import HANDLERS
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.command import Serialization
from support.example_counts import examples
from support.raw_remoting import Link, Site
from support.rocketmq.protocol_checks import new_topic

pytestmark = pytest.mark.timeout(120)

TOPIC = "T-attacked"
NAMES = (
    "a b c d e f g h i j k l m topic queueId queueOffset maxMsgNums sysFlag commitOffset "
    "subVersion consumerGroup group producerGroup subscription expressionType properties offset "
    "delayLevel key maxNum beginTimestamp endTimestamp timestamp clientID readQueueNums "
    "writeQueueNums tranStateTableOffset commitLogOffset commitOrRollback bornTimestamp "
    "boundaryType flag"
)
FIELDS = NAMES.split()
VALUES = [
    "",
    "0",
    "1",
    "-1",
    "4",
    "99999",
    "9223372036854775807",
    "-9223372036854775808",
    "true",
    "G",
    TOPIC,
    "%RETRY%G",
    "%DLQ%",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "SCHEDULE_TOPIC_XXXX",
    "SQL92",
    "a > 5",
    "DELAY\x0118\x02TAGS\x01a\x02",
    "DELAY\x01x\x02UNIQ_KEY",
    "\x01\x02",
    "日本",
]
BODIES = [
    b"",
    b"{}",
    b"[]",
    b"x" * 100,
    bytes(31),
    b'{"clientID":1,"consumerDataSet":[{"groupName":"G","subscriptionDataSet":[{"topic":"T"}]}]}',
    b'{"consumerGroup":"G","clientId":"c","mqSet":[{"topic":"T","queueId":-1}]}',
    b'{"subscriptionData":{"subString":"a >","expressionType":"SQL92"}}',
]


NEARLY = [RequestCode.SEND_MESSAGE, RequestCode.PULL_MESSAGE, RequestCode.QUERY_MESSAGE]


@pytest.fixture(scope="module")
def server(ours: Site) -> Site:
    return ours


@pytest.fixture(scope="module", params=list(Serialization), ids=lambda kind: kind.name)
def link(server: Site, request: pytest.FixtureRequest) -> Iterator[Link]:
    new_topic(server)
    with Link(server.broker_address, request.param) as link:
        yield link


@settings(
    max_examples=examples(400),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.sampled_from(sorted(HANDLERS)),
    st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(VALUES), max_size=20),
    st.sampled_from(BODIES) | st.binary(max_size=60),
)
def test_every_request_is_answered(link: Link, code: int, ext: dict[str, str], body: bytes) -> None:
    answer = link.call(code, ext, body)  # no suspendTimeoutMillis: a pull does not wait

    assert "unexpected failure" not in (answer.remark or "")


@settings(
    max_examples=examples(300),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.sampled_from(
        [RequestCode.SEND_MESSAGE, RequestCode.PULL_MESSAGE, RequestCode.QUERY_MESSAGE]
    ),
    st.fixed_dictionaries(
        {
            "topic": st.sampled_from([TOPIC, "%RETRY%G", "T-other"]),
            "producerGroup": st.just("PG"),
            "consumerGroup": st.just("G"),
            "queueId": st.sampled_from(["-1", "0", "5", "99"]),
            "sysFlag": st.sampled_from(["0", "4", "1", "255", "769"]),
            "bornTimestamp": st.sampled_from(["0", "-1", "9223372036854775807"]),
            "queueOffset": st.sampled_from(["0", "1", "-1", "999999"]),
            "maxMsgNums": st.sampled_from(["0", "-5", "32", "99999999"]),
            "key": st.sampled_from(["", "k"]),
            "maxNum": st.sampled_from(["0", "-1", "10"]),
            "flag": st.sampled_from(["0", "-2147483648", "2147483648"]),
            "reconsumeTimes": st.sampled_from(["0", "-1", "99999999999"]),
            "properties": st.sampled_from(VALUES),
            "subscription": st.sampled_from(VALUES),
        }
    ),
    st.binary(max_size=20),
)
def test_requests_that_nearly_make_sense_are_answered(
    link: Link, code: int, ext: dict[str, str], body: bytes
) -> None:
    answer = link.call(code, ext, body)

    assert "unexpected failure" not in (answer.remark or "")
    assert answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize("name", ["flag", "sysFlag", "reconsumeTimes"])
def test_a_number_that_no_message_can_carry_is_refused_at_once(link: Link, name: str) -> None:
    ext = {"producerGroup": "PG", "topic": "T-numbers", "queueId": "0", "sysFlag": "0"}
    ext |= {"bornTimestamp": "1", name: "2147483648"}
    answer = link.call(RequestCode.SEND_MESSAGE, ext, b"x")

    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert name in (answer.remark or "")
