"""Topics and groups over HTTP: what there is, how far readers are, and setting them elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace import topics
from headrace.rocketmq import (
    ConcurrentConsumer,
    ConsumeFromWhere,
    ConsumerConfig,
    ConsumeResult,
    Message,
    MessageExt,
    Producer,
    ProducerConfig,
)
from headrace.testing import RunningBroker, wait_for
from support.http_api import Api

Namer = Callable[[str], str]


def test_a_topic_is_made_filled_read_and_deleted(
    managed: RunningBroker, api: Api, name: Namer
) -> None:
    topic = name("topic").replace("-", "_")
    path = f"/api/topics/%2F/{topic}"
    api.put(path, {"queues": 2, "retention_ms": 3_600_000}, 201)
    api.put(path, {"queues": 2, "retention_ms": 3_600_000}, 204)
    with topics.open(f"headrace://guest:guest@127.0.0.1:{managed.native_port}/") as store:
        producer = store.producer(topic, token="appid-1;sid-1")
        for number in range(5):
            producer.append(b"m%d" % number)
        producer.append(b"urgent", priority="high")
        consumer = store.consumer(topic, token="appid-1;sid-c1", group="g1")
        batch = consumer.read(2)
        consumer.commit(batch)

        row = api.get(path)
        assert (row["messages"], row["lanes"]) == (6, {"high": 1, "middle": 5, "low": 0})
        assert row["retention"]["ms"] == 3_600_000
        [group] = row["groups"]
        assert (group["group"], group["messages"]) == ("g1", 4)
        assert group["seconds"] >= 0
        assert topic in [one["name"] for one in api.get("/api/topics")]
        [listed] = [one for one in api.get("/api/groups") if one["topic"] == topic]
        assert listed["name"] == "g1"

        api.post(f"{path}/groups/g1/seek", {"to": "latest"}, 204)
        assert api.get(f"{path}/groups")[0]["messages"] == 0
        api.post(f"{path}/groups/g1/seek", {"to": "earliest"}, 204)
        assert api.get(f"{path}/groups")[0]["messages"] == 6
        api.post(f"{path}/groups/g1/seek", {}, 400)
        api.post(f"{path}/groups/nope/seek", {"to": "latest"}, 404)
        consumer.close()
        api.delete(f"{path}/groups/g1")
        assert api.get(f"{path}/groups") == []
    api.delete(path)
    api.get(path, 404)


def test_a_topic_is_published_to_and_explained_like_any_exchange(api: Api, queue: str) -> None:
    api.put("/api/topics/%2F/bridged", {}, 201)
    api.post(f"/api/bindings/%2F/e/topic.bridged/q/{queue}", {"routing_key": "red"}, 201)
    assert api.publish("red", "both", exchange="topic.bridged")
    assert api.publish("blue", "kept", exchange="topic.bridged")
    assert api.get("/api/topics/%2F/bridged")["messages"] == 2
    wait_for(lambda: api.get(f"/api/queues/%2F/{queue}")["messages"] == 1)

    found = api.post("/api/route", {"exchange": "topic.bridged", "routing_key": "red"}, 200)
    reasons = [step["reason"] for step in found["steps"]]
    assert "whatever comes here is appended to the topic" in reasons
    assert queue in found["queues"]

    moved = api.post(
        f"/api/queues/%2F/{queue}/move", {"destination": {"exchange": "topic.bridged"}}, 200
    )
    assert moved["moved"] == 1
    api.delete("/api/topics/%2F/bridged")


def test_topics_need_the_permissions_of_their_exchange(
    managed: RunningBroker, api: Api, name: Namer
) -> None:
    user = name("u")
    api.put("/api/topics/%2F/secret_topic", {})
    api.put(f"/api/users/{user}", {"password": "p", "tags": "management"})
    patterns = {"configure": r"^topic\.mine", "write": "", "read": ""}
    api.put(f"/api/permissions/%2F/{user}", patterns)
    with Api(managed, user, "p") as limited:
        assert limited.get("/api/topics") == []
        limited.get("/api/topics/%2F/secret_topic", 401)
        limited.delete("/api/topics/%2F/secret_topic", 401)
        limited.put("/api/topics/%2F/mine", {}, 201)
        limited.put("/api/topics/%2F/yours", {}, 401)
    api.delete(f"/api/users/{user}")


def test_groups_of_rocketmq_clients_are_shown_with_members_and_lag(
    managed: RunningBroker, api: Api
) -> None:
    address = managed.namesrv_addr
    got: list[MessageExt] = []

    def listen(messages: list[MessageExt]) -> ConsumeResult:
        got.extend(messages)
        return ConsumeResult.SUCCESS

    def groups() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = api.get("/api/topics/%2F/parcels/groups")
        return found

    consumer = ConcurrentConsumer(ConsumerConfig(
        "packers", address, persist_interval=100,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    ))  # fmt: skip
    consumer.subscribe("parcels")
    consumer.register_message_listener(listen)
    with Producer(ProducerConfig("shop", address)) as producer:
        for number in range(12):
            producer.send(Message("parcels", b"%d" % number))
        with consumer:
            wait_for(lambda: len(got) == 12, timeout=20)
            [group] = wait_for(lambda: [one for one in groups() if not one["messages"]], timeout=10)
            assert (group["group"], len(group["members"])) == ("packers", 1)
        for number in range(5):
            producer.send(Message("parcels", b"%d" % number))

    [group] = groups()
    assert (group["name"], group["messages"], group["members"]) == ("packers", 5, [])
    [priority] = [one for one in group["lanes"] if one["lane"] == "middle"]
    assert (priority["position"], priority["end"] - 1, priority["seconds"] >= 0) == (12, 17, True)
    assert "packers" in [one["name"] for one in api.get("/api/groups")]
    refused = api.post("/api/topics/%2F/parcels/groups/packers/seek", {"to": "latest"}, 400)
    assert "belongs to RocketMQ clients" in refused["reason"]

    api.delete("/api/topics/%2F/parcels/groups/packers")
    assert groups() == []
