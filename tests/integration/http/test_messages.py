"""Messages over HTTP: published, taken, looked at, moved; and where they would go."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from support.http_api import Api, part

Namer = Callable[[str], str]


def test_a_message_goes_in_and_comes_out_with_its_properties(api: Api, queue: str) -> None:
    assert api.publish(queue, "héllo", headers={"n": 1}, delivery_mode=2, message_id="m1")

    [message] = api.take(queue)
    assert message["payload"] == "héllo"
    assert message["payload_encoding"] == "string"
    assert message["properties"] == {
        "headers": {"n": 1}, "delivery_mode": 2, "message_id": "m1",
    }  # fmt: skip
    assert (message["redelivered"], message["message_count"]) == (False, 0)
    assert api.take(queue) == []


def test_no_properties_are_an_empty_list_as_in_rabbitmq(api: Api, queue: str) -> None:
    api.publish(queue)
    assert api.take(queue)[0]["properties"] == []


def test_an_unroutable_message_is_reported(api: Api, name: Namer) -> None:
    assert not api.publish(name("nowhere"))


def test_binary_payloads_travel_as_base64(api: Api, queue: str) -> None:
    body = {"routing_key": queue, "payload": base64.b64encode(b"\xff\x00").decode(),
            "payload_encoding": "base64", "properties": {}}  # fmt: skip
    api.post("/api/exchanges/%2F/amq.default/publish", body, 200)
    [message] = api.take(queue)
    assert message["payload_encoding"] == "base64"
    assert base64.b64decode(message["payload"]) == b"\xff\x00"
    api.post("/api/exchanges/%2F/amq.default/publish", body | {"payload": "h!!"}, 400)


def test_requeued_messages_come_again_marked(api: Api, queue: str) -> None:
    api.publish(queue, "a")
    api.publish(queue, "b")
    first = api.take(queue, 2, "ack_requeue_true")
    assert [(one["payload"], one["redelivered"], one["message_count"]) for one in first] == [
        ("a", False, 1), ("b", False, 0),
    ]  # fmt: skip
    again = api.take(queue, 2, "reject_requeue_true")
    assert [one["redelivered"] for one in again] == [True, True]
    assert len(api.take(queue, 5)) == 2


def test_rejected_messages_are_dead_lettered(api: Api, name: Namer) -> None:
    source, grave = name("q"), name("dlq")
    api.put(f"/api/queues/%2F/{grave}", {}, 201)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave}
    api.put(f"/api/queues/%2F/{source}", {"arguments": arguments}, 201)
    api.publish(source, "bad")
    api.take(source, ackmode="reject_requeue_false")

    groups = api.get("/api/deadletters")["groups"]
    [group] = [one for one in groups if one["queue"] == grave]
    assert (group["died_in"], group["reason"], group["count"]) == (source, "rejected", 1)

    moved = api.post(
        f"/api/queues/%2F/{grave}/move",
        {"destination": {"origin": True}, "drop_history": True, "count": 1},
        200,
    )
    assert moved == {"moved": 1, "left": 0, "stopped": None}
    [message] = api.take(source)
    assert (message["payload"], message["properties"]) == ("bad", [])


def test_dead_letters_of_one_cause_are_moved_and_the_others_keep_their_order(
    api: Api, name: Namer
) -> None:
    first, second, grave = name("q"), name("q"), name("dlq")
    api.put(f"/api/queues/%2F/{grave}", {}, 201)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave}
    for number in range(6):
        source = (first, second)[number % 2]
        api.put(f"/api/queues/%2F/{source}", {"arguments": arguments})
        api.publish(source, str(number))
        api.take(source, ackmode="reject_requeue_false")

    moved = api.post(
        f"/api/queues/%2F/{grave}/move",
        {"destination": {"origin": True}, "cause": {"died_in": second, "reason": "rejected"}},
        200,
    )

    assert moved == {"moved": 3, "left": 3, "stopped": None}
    assert [one["payload"] for one in api.take(grave, 9)] == ["0", "2", "4"]
    assert [one["payload"] for one in api.take(second, 9)] == ["1", "3", "5"]


@pytest.mark.parametrize("cause", [{"colour": "red"}, {"reason": 7}, "rejected"])
def test_a_cause_that_cannot_be_is_refused(api: Api, queue: str, cause: object) -> None:
    body = {"destination": {"queue": "nowhere"}, "cause": cause}
    api.put("/api/queues/%2F/nowhere")
    assert api.call("POST", f"/api/queues/%2F/{queue}/move", body).status_code == 400


def test_a_queue_with_a_delivery_limit_is_not_moved_by_cause(api: Api, name: Namer) -> None:
    limited = name("q")
    arguments = {"x-queue-type": "quorum", "x-delivery-limit": 2}
    api.put(f"/api/queues/%2F/{limited}", {"durable": True, "arguments": arguments}, 201)
    body = {"destination": {"origin": True}, "cause": {"reason": "rejected"}}
    answer = api.call("POST", f"/api/queues/%2F/{limited}/move", body)
    assert (answer.status_code, "delivery limit" in answer.text) == (400, True)


def test_a_missing_ackmode_is_refused(api: Api, queue: str) -> None:
    answer = api.post(f"/api/queues/%2F/{queue}/get", {"count": 1, "encoding": "auto"}, 400)
    assert answer["reason"] == "[{key_missing,ackmode}]"


def test_browsing_changes_nothing(api: Api, queue: str) -> None:
    for number in range(5):
        api.publish(queue, f"m{number}", delivery_mode=2)
    path = f"/api/queues/%2F/{queue}/browse"
    page = api.get(path, count=2)
    assert [one["payload"] for one in page["items"]] == ["m0", "m1"]
    page = api.get(path, count=10, offset=page["next_offset"])
    assert [one["payload"] for one in page["items"]] == ["m2", "m3", "m4"]
    assert page["next_offset"] is None
    assert [one["redelivered"] for one in api.take(queue, 5)] == [False] * 5


def test_browsing_goes_on_where_the_memory_ends(
    api: Api, queue: str, channel: BlockingChannel
) -> None:
    body = b"x" * 100_000
    channel.confirm_delivery()
    for _ in range(150):  # 15 MB: more than a queue keeps in memory
        channel.basic_publish("", queue, body, _persistent())
    row = api.get(f"/api/queues/%2F/{queue}")
    assert row["messages_paged_out"] > 0

    page = api.get(f"/api/queues/%2F/{queue}/browse", count=200, truncate=1)
    assert [one["offset"] for one in page["items"]] == list(range(150))
    later = api.get(f"/api/queues/%2F/{queue}/browse", count=3, truncate=1, offset=140)
    assert [one["offset"] for one in later["items"]] == [140, 141, 142]
    api.delete(f"/api/queues/%2F/{queue}")


def _persistent() -> object:
    import pika

    return pika.BasicProperties(delivery_mode=2)


def test_a_priority_queue_is_browsed_by_offset(api: Api, name: Namer) -> None:
    queue = name("prio")
    api.put(f"/api/queues/%2F/{queue}", {"arguments": {"x-max-priority": 5}}, 201)
    for number, priority in enumerate([1, 5, 3]):
        api.publish(queue, f"m{number}", priority=priority)
    page = api.get(f"/api/queues/%2F/{queue}/browse")
    assert [one["payload"] for one in page["items"]] == ["m0", "m1", "m2"]


def test_moving_stops_at_a_message_that_the_target_refuses(
    api: Api, queue: str, name: Namer
) -> None:
    full = name("full")
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    api.put(f"/api/queues/%2F/{full}", {"arguments": arguments}, 201)
    for number in range(3):
        api.publish(queue, f"m{number}")
    moved = api.post(f"/api/queues/%2F/{queue}/move", {"destination": {"queue": full}}, 200)
    assert (moved["moved"], moved["left"]) == (1, 2)
    assert "stays where it is" in moved["stopped"]
    assert [one["payload"] for one in api.take(queue, 5)] == ["m1", "m2"]


def test_an_edit_applies_to_the_message_that_was_seen(api: Api, queue: str, name: Namer) -> None:
    target = name("t")
    api.put(f"/api/queues/%2F/{target}", {}, 201)
    api.publish(queue, "wrong", headers={"a": 1})
    edit = {"payload": "right", "payload_encoding": "string"}
    body = {"destination": {"queue": target}, "count": 1, "edit": edit, "first_offset": 7}
    assert api.post(f"/api/queues/%2F/{queue}/move", body, 409)["error"] == "changed"

    api.post(f"/api/queues/%2F/{queue}/move", body | {"first_offset": 0}, 200)
    [message] = api.take(target)
    assert (message["payload"], message["properties"]) == ("right", {"headers": {"a": 1}})


@pytest.mark.parametrize(
    "destination", [{}, {"queue": 7}, {"queue": "no-such"}, {"vhost": "nope", "queue": "q"}]
)
def test_a_bad_destination_moves_nothing(api: Api, queue: str, destination: object) -> None:
    api.publish(queue)
    answer = api.call("POST", f"/api/queues/%2F/{queue}/move", {"destination": destination})
    assert answer.status_code in (400, 404)
    assert len(api.take(queue, 5)) == 1


def test_where_a_message_would_go_is_explained(api: Api, queue: str, name: Namer) -> None:
    first, second = name("first"), name("second")
    api.put(f"/api/exchanges/%2F/{first}", {"type": "topic"}, 201)
    api.put(f"/api/exchanges/%2F/{second}", {"type": "fanout"}, 201)
    api.post(f"/api/bindings/%2F/e/{first}/e/{second}", {"routing_key": "a.*"}, 201)
    api.post(f"/api/bindings/%2F/e/{second}/q/{queue}", {}, 201)

    found = api.post("/api/route", {"exchange": first, "routing_key": "a.b"}, 200)
    assert (found["routed"], found["queues"]) == (True, [queue])
    assert [step["reason"] for step in found["steps"]] == [
        "the key 'a.b' matches the pattern 'a.*'",
        "a fanout exchange passes everything on",
    ]
    lost = api.post("/api/route", {"exchange": first, "routing_key": "b"}, 200)
    assert (lost["routed"], lost["steps"][0]["reason"]) == (False, "no binding matches")
    assert api.take(queue) == []


def test_a_message_above_the_limit_is_refused(api: Api, queue: str) -> None:
    body = {"routing_key": queue, "payload": "x" * (17 << 20), "payload_encoding": "string",
            "properties": {}}  # fmt: skip
    refusal = api.post(f"/api/exchanges/%2F/{part('amq.default')}/publish", body, 400)
    assert "larger than configured max size" in refusal["reason"]


def test_a_move_that_cannot_be_done_leaves_the_message_where_it_was(
    api: Api, queue: str, name: Namer
) -> None:
    """Neither unacknowledged for ever nor gone."""
    other = name("q")
    api.put(f"/api/queues/%2F/{other}", {}, 201)
    api.publish(queue, "kept", user_id="guest")
    for edit in ({"payload": "x"}, {"properties": 7}, {"properties": {"user_id": "somebody"}}):
        body = {"destination": {"queue": other}, "count": 1, "edit": edit}
        api.post(f"/api/queues/%2F/{queue}/move", body, 400)
    api.post(f"/api/queues/%2F/{queue}/move", {"destination": {"vhost": [], "queue": "x"}}, 400)

    row = api.get(f"/api/queues/%2F/{queue}")
    assert (row["messages_ready"], row["messages_unacknowledged"]) == (1, 0)
    [message] = api.take(queue)
    assert (message["payload"], message["properties"]) == ("kept", {"user_id": "guest"})
