"""What foreign clients and servers write, each in its own way."""

from __future__ import annotations

import json
import zlib

import pytest

from headrace.errors import FrameError, MalformedError, PreconditionFailed, Unsupported
from headrace.wire.remoting import compression, json_values, message_ids, names, signature
from headrace.wire.remoting.codes import (
    Language,
    RequestCode,
    ResponseCode,
    delay_seconds,
    retry_level,
)
from headrace.wire.remoting.command import Command, Serialization
from headrace.wire.remoting.frames import Reader, command_bytes
from headrace.wire.remoting.headers.groups import (
    ConsumeFrom,
    ConsumeModel,
    ConsumeType,
    Heartbeat,
)
from headrace.wire.remoting.headers.pull import PullMessage
from headrace.wire.remoting.headers.route import BrokerData, QueueData, TopicRoute
from headrace.wire.remoting.headers.send import SendMessage, SendResponse
from headrace.wire.remoting.message_queue import MessageQueue, take_offsets
from support.remoting_bodies import (
    ClusterInfo,
    RemotingMessage,
    message_bytes,
    route_address,
    take_message,
)


def read_header(header: object) -> Command:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    data = (len(text) + 4).to_bytes(4) + len(text).to_bytes(4) + text
    reader = Reader()
    found = reader.feed(data)
    if reader.fault is not None:
        raise reader.fault
    return found[0]


def test_named_fields_of_any_type_become_text() -> None:
    command = read_header(
        {
            "code": 10,
            "opaque": -3,
            "extFields": {"a": 5, "b": True, "c": False, "d": None, "e": "x", "f": 1.5},
        }
    )

    assert command.ext == {"a": "5", "b": "true", "c": "false", "e": "x", "f": "1.5"}
    assert (command.opaque, command.flag, command.remark) == (-3, 0, None)


def test_an_unknown_language_is_another_one() -> None:
    assert read_header({"code": 1, "language": "COBOL"}).language is Language.OTHER
    assert read_header({"code": 1, "language": 9}).language is Language.GO
    assert read_header({"code": 1}).language is Language.OTHER


@pytest.mark.parametrize(
    "header",
    [[], {"code": None}, {"code": 1, "extFields": 3}, {"code": 1, "extFields": {"a": []}}, {}],
)
def test_what_is_no_header_is_malformed(header: object) -> None:
    with pytest.raises(MalformedError):
        read_header(header)


def test_half_a_character_pair_is_replaced() -> None:
    command = read_header(
        b'{"code":1,"remark":"\\ud83d","extFields":{"a":"\\ud83d\\ude00\\udc00"}}'
    )

    assert command.ext == {"a": "😀�"}
    assert command.remark == "�"
    command_bytes(command)


def test_an_answer_always_has_its_fields_and_the_requests_serialization() -> None:
    request = Command(105, opaque=7, serialization=Serialization.JSON)
    frame = command_bytes(request.answer(ResponseCode.SUCCESS))

    assert json.loads(frame[8:])["extFields"] == {}
    assert json.loads(frame[8:])["opaque"] == 7
    assert b" " not in frame
    binary = Command(105, serialization=Serialization.BINARY).answer(0)
    assert command_bytes(binary)[4] == 1


def test_a_code_above_16_bits_does_not_fit_a_binary_header() -> None:
    command = Command(RequestCode.POP_MESSAGE, serialization=Serialization.BINARY)

    with pytest.raises(MalformedError, match="200050"):
        command_bytes(command)


@pytest.mark.parametrize("word", ["7fffffff00000000", "0000000000000000", "0000000800000008"])
def test_a_wrong_length_is_a_fault_before_anything_is_kept(word: str) -> None:
    reader = Reader()

    assert reader.feed(bytes.fromhex(word)) == []
    assert isinstance(reader.fault, FrameError)


def test_a_tls_hello_is_a_fault() -> None:
    reader = Reader()
    reader.feed(bytes.fromhex("1603010200010001fc0303"))

    assert isinstance(reader.fault, FrameError)


def test_an_unknown_serialization_is_a_fault() -> None:
    reader = Reader()
    reader.feed(bytes.fromhex("0000000402000000"))

    assert isinstance(reader.fault, FrameError)


# -- fields ------------------------------------------------------------------------------------


def test_a_missing_field_is_named() -> None:
    with pytest.raises(MalformedError, match="'topic' is missing"):
        PullMessage.take({"consumerGroup": "g"})


def test_a_field_of_the_wrong_type_is_named() -> None:
    ext = {"producerGroup": "g", "topic": "t", "queueId": "x", "sysFlag": "0"}
    with pytest.raises(MalformedError, match="'queueId'"):
        SendMessage.take(ext)


def test_c_plus_plus_writes_booleans_as_numbers() -> None:
    ext = {
        "producerGroup": "g",
        "topic": "t",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": "1",
        "unitMode": "1",
        "batch": "0",
    }
    send = SendMessage.take(ext)

    assert (send.unit_mode, send.batch) == (True, False)


def test_a_send_result_has_the_spelling_of_the_broker() -> None:
    result = SendResponse("id", 1, 2, "tx", "DefaultRegion", True)

    assert result.ext() == {
        "msgId": "id",
        "queueId": "1",
        "queueOffset": "2",
        "transactionId": "tx",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }


# -- routes ------------------------------------------------------------------------------------

ROUTE = TopicRoute(
    (BrokerData("c", "b", {0: "127.0.0.1:10911", 1: "127.0.0.1:10921"}),),
    (QueueData("b", 4, 2, 6),),
)


def test_unquoted_broker_ids_are_read() -> None:
    body = (
        b'{"brokerDatas":[{"brokerAddrs":{0:"127.0.0.1:10911",1:"127.0.0.1:10921"},'
        b'"brokerName":"b","cluster":"c"}],"filterServerTable":{},"queueDatas":[{"brokerName":"b",'
        b'"perm":6,"readQueueNums":4,"topicSynFlag":0,"writeQueueNums":2}]}'
    )

    assert TopicRoute.take(body) == ROUTE


def test_a_route_has_quoted_ids_and_no_blank() -> None:
    body = ROUTE.encode()

    assert b'{"0":"127.0.0.1:10911","1":"127.0.0.1:10921"}' in body
    assert b" " not in body
    assert b'"topicSynFlag":0' in body


def test_queues_of_a_route() -> None:
    assert [queue.queue_id for queue in ROUTE.write_queues("T")] == [0, 1]
    assert [queue.queue_id for queue in ROUTE.read_queues("T")] == [0, 1, 2, 3]
    assert route_address(ROUTE, "b", 1) == "127.0.0.1:10921"
    assert route_address(ROUTE, "other") is None


def test_queues_are_sorted_by_broker_and_follow_the_permissions() -> None:
    route = TopicRoute(
        (
            BrokerData("c", "b", {0: "x:1"}),
            BrokerData("c", "a", {0: "x:2"}),
            BrokerData("c", "slave", {1: "x:3"}),
        ),
        (QueueData("b", 1, 1), QueueData("a", 1, 1, 2), QueueData("slave", 1, 1)),
    )

    assert [queue.broker_name for queue in route.write_queues("T")] == ["a", "b"]
    assert [queue.broker_name for queue in route.read_queues("T")] == ["b", "slave"]


def test_an_ordered_topic_has_exactly_the_queues_it_is_given() -> None:
    route = TopicRoute((), (), "b:2;a:1")

    assert [str(queue) for queue in route.write_queues("T")] == [
        "MessageQueue [topic=T, brokerName=b, queueId=0]",
        "MessageQueue [topic=T, brokerName=b, queueId=1]",
        "MessageQueue [topic=T, brokerName=a, queueId=0]",
    ]


def test_cluster_info_of_a_real_name_server() -> None:
    body = (
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"h:1"},"brokerName":"broker-a",'
        b'"cluster":"C"}},"clusterAddrTable":{"C":["broker-a"]}}'
    )
    info = ClusterInfo.take(body)

    assert info.brokers["broker-a"].master == "h:1"
    assert info.clusters == {"C": ("broker-a",)}
    assert ClusterInfo.take(info.encode()) == info


# -- bodies ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        '{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:12}}',
        '{"offsetTable":[[{"brokerName":"b","queueId":0,"topic":"T"},12]]}',
        '{"offsetTable":[{"brokerName":"b","queueId":0,"topic":"T","offset":12}]}',
        '{"offsetTable":{"{\\"topic\\":\\"T\\",\\"brokerName\\":\\"b\\",\\"queueId\\":0}":12}}',
        '{ "offsetTable" : { { "brokerName":"b","queueId":0,"topic":"T" } : 12 } }\n',
    ],
)
def test_offsets_are_read_however_they_are_written(body: str) -> None:
    assert take_offsets("offsetTable", body.encode()) == {MessageQueue("T", "b", 0): 12}


def test_a_heartbeat_of_c_plus_plus() -> None:
    body = (
        b'{"clientID":"1-h@i","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,'
        b'"groupName":"g","messageModel":1,"subscriptionDataSet":[{"codeSet":[0,0],"subString":'
        b'"a || b","subVersion":"1700000000000","tagsSet":["a","b"],"topic":"T"}]}]}\n'
    )
    heartbeat = Heartbeat.take(body)
    (group,) = heartbeat.consumer_groups

    assert heartbeat.client_id == "1-h@i"
    assert heartbeat.producer_groups == ()
    assert group.consume_type is ConsumeType.CONSUME_PASSIVELY
    assert group.model is ConsumeModel.CLUSTERING
    assert group.start_from is ConsumeFrom.CONSUME_FROM_LAST_OFFSET
    assert group.subscriptions[0].version == 1700000000000
    assert group.subscriptions[0].codes == ()
    assert group.subscriptions[0].kind == "TAG"


def test_an_unknown_model_is_named() -> None:
    with pytest.raises(MalformedError, match="messageModel"):
        Heartbeat.take(b'{"consumerDataSet":[{"messageModel":"NEW"}]}')


def test_a_wrong_body_is_reported_with_its_position() -> None:
    with pytest.raises(MalformedError, match="place 7"):
        json_values.loads('{"a":{1,}')


# -- messages ----------------------------------------------------------------------------------


def test_a_compressed_body_is_inflated_and_its_bits_are_cleared() -> None:
    body = b"x" * 5000
    small, bits = compression.deflate(body)
    stored = message_bytes(RemotingMessage("T", small, sys_flag=bits | 0x8))

    assert take_message(stored).body == body
    assert take_message(stored).sys_flag == 0x8
    assert take_message(stored, inflated=False).body == small
    assert take_message(stored, inflated=False).sys_flag == bits | 0x8


def test_a_body_cannot_grow_without_limit() -> None:
    bomb = zlib.compress(bytes(1 << 20))

    with pytest.raises(MalformedError, match="more than 1000 bytes"):
        compression.inflate(bomb, 1, 1000)


def test_half_a_compressed_body_is_refused() -> None:
    with pytest.raises(MalformedError, match="too early"):
        compression.inflate(zlib.compress(b"hello")[:-5], 1)


@pytest.mark.parametrize(("bits", "package"), [(0x101, "lz4"), (0x201, "zstandard")])
def test_a_missing_library_is_named(
    bits: int, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(compression, "import_module", missing)

    with pytest.raises(Unsupported, match=rf"{package} is not installed"):
        compression.inflate(b"body", bits)


def test_a_blank_filler_is_skipped() -> None:
    filler = (20).to_bytes(4) + (0xCBD43194).to_bytes(4) + bytes(12)
    message = message_bytes(RemotingMessage("T", b"b"))

    assert take_message(filler + message).topic == "T"


def test_a_long_topic_has_a_length_of_two_bytes() -> None:
    topic = "%RETRY%" + "g" * 200
    stored = message_bytes(RemotingMessage(topic, b""))

    assert stored[4:8].hex() == "daa320ab"
    assert take_message(stored).topic == topic


def test_a_message_without_a_producers_id_is_called_by_its_place() -> None:
    message = RemotingMessage("T", b"", {"KEYS": "a b", "DELAY": "3"}, physical_offset=255)

    assert message.msg_id == "000000000000000000000000000000FF"
    assert message.keys == ["a", "b"]
    assert message.delay_level == 3


def test_hosts_for_clients_which_cannot_read_ipv6() -> None:
    assert message_ids.as_v4(message_ids.HostAddress("::1", 5)) == ("127.0.0.1", 5)
    assert message_ids.as_v4(message_ids.HostAddress("::ffff:10.0.0.1", 5)) == ("10.0.0.1", 5)
    assert message_ids.as_v4(message_ids.HostAddress("fd00::1", 5)) == ("0.0.0.0", 5)
    assert message_ids.as_v4(message_ids.HostAddress("10.0.0.1", 5)) == ("10.0.0.1", 5)
    assert message_ids.as_v4(message_ids.HostAddress("name", 5)) == message_ids.NOWHERE
    assert str(message_ids.HostAddress("::1", 5)) == "[::1]:5"


# -- small rules -------------------------------------------------------------------------------


def test_delay_levels() -> None:
    assert [delay_seconds(level) for level in (-1, 0, 1, 3, 18, 99)] == [0, 0, 1, 10, 7200, 7200]
    assert [retry_level(times) for times in (0, 1, 15, 16)] == [3, 4, 18, 18]


def test_names() -> None:
    assert names.retry_topic("g") == "%RETRY%g"
    assert names.dead_letter_topic("g") == "%DLQ%g"
    names.check_topic("a-b_C%|9")
    names.check_topic("%RETRY%" + "g" * 200)
    for wrong in ("", "a b", "t" * 128, "é", "a\n"):
        with pytest.raises(PreconditionFailed):
            names.check_topic(wrong)
    with pytest.raises(PreconditionFailed, match="120 are allowed"):
        names.check_group("g" * 121)


def test_a_signature_covers_the_values_in_the_order_of_their_names_and_the_body() -> None:
    fields = signature.signed({"topic": "T", "b": "2"}, b"body", "key", "secret")

    # printf '%s' 'key2Tbody' | openssl dgst -sha1 -hmac secret -binary | base64
    assert fields["Signature"] == "doORkg0A6bY3K7zOJpBKbDUeOnU="
    assert signature.is_signed_with(fields, b"body", "secret")
    assert not signature.is_signed_with(fields, b"body", "other")
    assert not signature.is_signed_with(fields, b"other", "secret")
    assert not signature.is_signed_with({**fields, "topic": "U"}, b"body", "secret")
