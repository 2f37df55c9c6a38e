"""The remoting codec: what is written is read again, any bytes give values or one error."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.errors import BrokerError, FrameError, MalformedError, PreconditionFailed
from headrace.wire.remoting import json_values, message_queue
from headrace.wire.remoting.codes import Language
from headrace.wire.remoting.command import Command, Serialization
from headrace.wire.remoting.compression import deflate, inflate
from headrace.wire.remoting.frames import Reader, command_bytes
from headrace.wire.remoting.headers import route, statistics
from headrace.wire.remoting.headers.groups import (
    ClientCheck,
    ConsumeFrom,
    ConsumeModel,
    ConsumerGroup,
    ConsumeType,
    Heartbeat,
    Subscription,
)
from headrace.wire.remoting.headers.pull import PullMessage, PullResult, QueryMessage
from headrace.wire.remoting.headers.send import (
    EndTransaction,
    SendBack,
    SendMessage,
    SendResponse,
    take_send,
)
from headrace.wire.remoting.headers.statistics import ConsumeDirectlyResult, ProcessQueueInfo
from headrace.wire.remoting.message import BatchElement, batch_bytes, take_batch
from headrace.wire.remoting.message_ids import HostAddress, offset_id, take_offset_id
from headrace.wire.remoting.message_queue import LockRequest, MessageQueue
from headrace.wire.remoting.properties import properties_text, take_properties
from support.remoting_bodies import (
    ClusterInfo,
    RemotingMessage,
    RunningInfo,
    message_bytes,
    take_connections,
    take_consume_stats,
    take_group_configs,
    take_messages,
    take_topic_configs,
    take_topic_list,
    take_topic_stats,
)

FRAME_MAX = 2000

texts = st.text(st.characters(codec="utf-8"), max_size=20)
words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
int16s = st.integers(-(1 << 15), (1 << 15) - 1)
int32s = st.integers(-(1 << 31), (1 << 31) - 1)
int64s = st.integers(-(1 << 63), (1 << 63) - 1)
counts = st.integers(0, 1000)
booleans = st.booleans()

commands = st.builds(
    Command,
    int16s,
    st.dictionaries(words, words, max_size=4),
    st.binary(max_size=50),
    st.none() | words,
    int32s,
    int32s,
    st.sampled_from(Language),
    int16s,
    st.sampled_from(Serialization),
)
hosts = st.builds(
    HostAddress,
    st.ip_addresses(v=4).map(str) | st.ip_addresses(v=6).map(str),
    st.integers(0, 65535),
)
property_names = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1)
property_maps = st.dictionaries(property_names, property_names, max_size=4)
message_queues = st.builds(MessageQueue, texts, texts, counts)
queue_offsets = st.dictionaries(message_queues, int64s, max_size=4)


@given(st.lists(commands, max_size=5), st.lists(st.integers(0, 2000)))
def test_every_split_of_the_stream_gives_the_same_commands(
    sent: list[Command], cuts: list[int]
) -> None:
    data = b"".join([command_bytes(one) for one in sent])
    reader = Reader(FRAME_MAX)
    edges = sorted({0, len(data), *[cut for cut in cuts if cut < len(data)]})

    received = [one for start, end in pairwise(edges) for one in reader.feed(data[start:end])]

    assert received == sent
    assert reader.fault is None


@given(st.binary(max_size=300))
def test_any_bytes_give_commands_or_one_fault(data: bytes) -> None:
    reader = Reader(FRAME_MAX)
    reader.feed(data)

    if reader.fault is not None:
        assert isinstance(reader.fault, FrameError | MalformedError)
        assert reader.feed(command_bytes(Command(1))) == []


@given(st.sampled_from([0, 1]), st.binary(max_size=200))
@example(0, b'{"code":1,"extFields":{"a":"\\ud800"}}')
@example(0, b'{"code":1,"extFields":[]}')
@example(0, b'{"code":true}')
@example(0, b'{"code":' + b"9" * 5000 + b"}")
@example(0, b"[" * 100_000)
@example(0, b'{"code":1,"extFields":{"a":' + b"[" * 100_000)
def test_any_header_gives_a_command_or_a_fault(serialization: int, header: bytes) -> None:
    reader = Reader(1 << 20)

    found = reader.feed(
        struct.pack(">iI", 4 + len(header), serialization << 24 | len(header)) + header
    )

    assert len(found) == (reader.fault is None)
    for command in found:
        assert Reader(1 << 20).feed(command_bytes(command)) != []  # it can be said again


@given(
    st.builds(
        RemotingMessage,
        words.filter(lambda text: len(text.encode()) < 300),
        st.binary(max_size=50),
        property_maps,
        int32s,
        int32s,
        int64s,
        int64s,
        st.integers(0, 0xF).map(lambda bits: bits & ~1),
        int64s,
        hosts,
        int64s,
        hosts,
        int32s,
        int64s,
    )
)
def test_a_message_survives(message: RemotingMessage) -> None:
    (found,) = take_messages(message_bytes(message))

    assert message_bytes(found) == message_bytes(message)
    for name in ("topic", "body", "properties", "flag", "queue_id", "queue_offset", "born_host"):
        assert getattr(found, name) == getattr(message, name)
    assert found.store_size == len(message_bytes(message))


@given(st.integers(0, 150), st.binary(max_size=8))
def test_a_damaged_message_is_a_message_or_an_error(place: int, damage: bytes) -> None:
    whole = message_bytes(RemotingMessage("topic", b"body", {"TAGS": "a"}))
    data = whole[:place] + damage + whole[place + len(damage) :]
    try:
        list(take_messages(data))
    except MalformedError:
        pass


@given(st.binary(max_size=300))
def test_any_bytes_give_messages_or_an_error(data: bytes) -> None:
    for take in (take_messages, take_batch):
        try:
            list(take(data))
        except MalformedError:
            pass


@given(st.lists(st.builds(BatchElement, int32s, st.binary(max_size=20), st.binary(max_size=20))))
def test_a_batch_survives(elements: list[BatchElement]) -> None:
    assert list(take_batch(batch_bytes(elements))) == elements


@given(property_maps)
def test_properties_survive(properties: dict[str, str]) -> None:
    assert take_properties(properties_text(properties)) == properties


@given(st.dictionaries(texts, texts, max_size=4))
def test_properties_which_cannot_be_said_are_refused(properties: dict[str, str]) -> None:
    try:
        text = properties_text(properties)
    except PreconditionFailed:
        assert (
            any("\x01" in part or "\x02" in part for part in (*properties, *properties.values()))
            or "" in properties
        )
        return
    assert take_properties(text) == {name: value for name, value in properties.items() if value}


@given(texts)
def test_any_properties_text_is_read(text: str) -> None:
    take_properties(text)


@given(st.binary(max_size=300))
def test_a_compressed_body_survives(body: bytes) -> None:
    assert inflate(*deflate(body)) == body


@given(st.binary(max_size=100), st.sampled_from([0x1, 0x301, 0x401]))
def test_any_compressed_body_gives_bytes_or_an_error(body: bytes, sys_flag: int) -> None:
    try:
        inflate(body, sys_flag, 1000)
    except MalformedError:
        pass


@given(hosts, int64s)
def test_an_offset_id_survives(host: HostAddress, offset: int) -> None:
    assert take_offset_id(offset_id(host, offset)) == (host, offset)


# -- headers -----------------------------------------------------------------------------------

sends = st.builds(
    SendMessage,
    producer_group=texts,
    topic=texts,
    queue_id=int32s,
    sys_flag=int32s,
    born_timestamp=int64s,
    flag=int32s,
    properties=texts,
    reconsume_times=counts,
    unit_mode=booleans,
    max_reconsume_times=st.none() | counts,
    batch=booleans,
    broker_name=st.none() | texts,
)
headers = (
    st.builds(
        PullMessage,
        texts,
        texts,
        counts,
        int64s,
        counts,
        counts,
        int64s,
        counts,
        st.none() | texts,
        int64s,
        st.none() | texts,
    )
    | st.builds(PullResult, counts, int64s, int64s, int64s)
    | st.builds(QueryMessage, texts, texts, counts, int64s, int64s, st.none() | booleans)
    | st.builds(SendResponse, texts, counts, int64s, st.none() | texts, st.none() | texts)
    | st.builds(SendBack, int64s, texts, int32s, st.none() | texts)
    | st.builds(EndTransaction, texts, int64s, int64s, counts, booleans, texts)
    | sends
)


@given(headers)
def test_a_typed_header_survives(header: PullMessage) -> None:
    assert type(header).take(header.ext()) == header


@given(sends)
def test_a_send_survives_under_both_sets_of_names(send: SendMessage) -> None:
    assert take_send(10, send.ext()) == send
    assert take_send(310, send.ext_v2()) == send
    assert take_send(320, send.ext()) == send


@given(st.dictionaries(st.sampled_from(["topic", "queueId", "sysFlag", "flag", "batch"]), texts))
def test_any_fields_give_a_header_or_an_error(ext: dict[str, str]) -> None:
    for kind in (PullMessage, SendMessage, QueryMessage):
        try:
            kind.take(ext)
        except MalformedError:
            pass


# -- bodies ------------------------------------------------------------------------------------

subscriptions = st.builds(
    Subscription,
    texts,
    texts,
    st.lists(texts, max_size=3).map(tuple),
    st.just(()),
    int64s,
    st.sampled_from(["TAG", "SQL92"]),
    booleans,
)
groups = st.builds(
    ConsumerGroup,
    texts,
    st.lists(subscriptions, max_size=2).map(tuple),
    st.sampled_from(ConsumeType),
    st.sampled_from(ConsumeModel),
    st.sampled_from(ConsumeFrom),
    booleans,
)
heartbeats = st.builds(
    Heartbeat,
    texts,
    st.lists(texts, max_size=2).map(tuple),
    st.lists(groups, max_size=2).map(tuple),
    int64s,
    booleans,
)
routes = st.builds(
    route.TopicRoute,
    st.lists(
        st.builds(
            route.BrokerData, texts, texts, st.dictionaries(counts, texts, max_size=2), booleans
        ),
        max_size=2,
    ).map(tuple),
    st.lists(st.builds(route.QueueData, texts, counts, counts, counts, counts), max_size=2).map(
        tuple
    ),
    st.none() | words,
)
bodies = st.one_of(
    heartbeats,
    routes,
    st.builds(ClientCheck, texts, texts, subscriptions, st.none() | words),
    st.builds(LockRequest, texts, texts, st.lists(message_queues, max_size=3).map(tuple), booleans),
    st.builds(
        RunningInfo,
        st.dictionaries(texts, texts, max_size=2),
        st.lists(subscriptions, max_size=2).map(tuple),
        st.dictionaries(message_queues, st.builds(ProcessQueueInfo, int64s, int64s), max_size=2),
    ),
)


@given(bodies)
def test_a_body_survives(body: Heartbeat) -> None:
    assert type(body).take(body.encode()) == body


@given(queue_offsets)
def test_offsets_survive_in_both_dialects(offsets: dict[MessageQueue, int]) -> None:
    for write in (message_queue.offsets_body, message_queue.offset_list_body):
        assert message_queue.take_offsets("offsetTable", write("offsetTable", offsets)) == offsets


@given(
    st.dictionaries(
        message_queues,
        st.builds(statistics.QueueProgress, int64s, int64s, int64s, int64s),
        max_size=3,
    )
)
def test_progress_survives(progress: dict[MessageQueue, statistics.QueueProgress]) -> None:
    body = statistics.GroupProgress(progress, 1.5).text().encode()

    assert take_consume_stats(body) == (progress, 1.5)


json_trees = st.recursive(
    st.none() | booleans | int64s | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)
TAKERS: list[Callable[[bytes], object]] = [
    Heartbeat.take,
    ClientCheck.take,
    LockRequest.take,
    RunningInfo.take,
    ConsumeDirectlyResult.take,
    route.TopicRoute.take,
    ClusterInfo.take,
    take_topic_list,
    message_queue.take_locked,
    message_queue.take_members,
    lambda body: message_queue.take_offsets("offsetTable", body),
    take_consume_stats,
    take_topic_stats,
    take_connections,
    take_topic_configs,
    take_group_configs,
]
body_names = st.sampled_from(
    [
        "clientID",
        "consumerDataSet",
        "subscriptionDataSet",
        "subscriptionData",
        "producerDataSet",
        "brokerDatas",
        "brokerAddrs",
        "queueDatas",
        "brokerAddrTable",
        "clusterAddrTable",
        "topicList",
        "mqSet",
        "mqTable",
        "offsetTable",
        "lockOKMQSet",
        "consumerIdList",
        "connectionSet",
        "topicConfigTable",
        "subscriptionGroupTable",
        "consumeType",
        "properties",
        "statusTable",
    ]
)
plausible = st.recursive(
    json_trees,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(body_names, inner, max_size=4),
    max_leaves=12,
).map(json_values.json_bytes)


@pytest.mark.parametrize("take", TAKERS)
@given(body=plausible | st.binary(max_size=100))
def test_any_body_gives_a_value_or_an_error(take: Callable[[bytes], object], body: bytes) -> None:
    try:
        take(body)
    except BrokerError as error:
        assert isinstance(error, MalformedError)


@given(json_trees)
def test_the_tolerant_parser_reads_what_the_strict_one_reads(value: object) -> None:
    text = json_values.dumps(value)

    assert json_values._JsonParser(text).whole() == value


@given(st.text(alphabet='{}[]:,"0aé\\ \n-.eE', max_size=60))
@example("[" * 100_000)
@example("{{" * 100_000)
@example("{" + "9" * 5000 + ":" + "9" * 5000 + "}")
def test_any_text_is_json_or_an_error(text: str) -> None:
    try:
        json_values.loads(text)
    except MalformedError:
        pass
