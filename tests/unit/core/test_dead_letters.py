"""What is given up goes to the dead-letter exchange, with its history."""

from __future__ import annotations

from headrace.core.queues.queue import Queue
from headrace.wire.amqp.content import properties_of
from headrace.wire.amqp.properties import Properties
from support.fake_loop import Inbox, Stage, message, ready


def buried(queue: Queue) -> Properties:
    (run,) = queue.backlog.runs()
    return properties_of(run.contents[0])


def deaths(properties: Properties) -> list[dict[str, object]]:
    assert properties.headers is not None
    history = properties.headers.get("x-death")
    assert isinstance(history, list)
    return history


def test_a_rejected_message_has_an_x_death_header(stage: Stage) -> None:
    queue = stage.queue(dead_letter_exchange="amq.fanout")
    dead = stage.queue("dead")
    stage.vhost.bind("amq.fanout", dead, "")
    stage.vhost.bind("amq.direct", queue, "key")
    inbox = Inbox()
    inbox.consume(queue)
    stage.publish("a", exchange="amq.direct", to="key")

    inbox.reject(1)

    (death,) = deaths(buried(dead))
    assert isinstance(death.pop("time"), int)
    assert death == {
        "count": 1,
        "reason": "rejected",
        "queue": "q",
        "exchange": "amq.direct",
        "routing-keys": ["key"],
    }
    (run,) = dead.backlog.runs()
    assert (run.route.exchange, run.route.key) == ("amq.fanout", "key")


def test_an_expired_message_loses_its_expiration_and_notes_it(stage: Stage) -> None:
    stage.queue(dead_letter_exchange="", dead_letter_routing_key="dead")
    dead = stage.queue("dead")
    stage.publish_contents([message("a", expiration="10", message_id="m")], ttl_ms=10)

    stage.advance(10)

    properties = buried(dead)
    assert (properties.expiration, properties.message_id) == (None, "m")
    assert deaths(properties)[0]["original-expiration"] == "10"
    assert deaths(properties)[0]["reason"] == "expired"


def test_carbon_copies_keep_their_keys_unless_the_queue_gives_one(stage: Stage) -> None:
    own = stage.queue("own", dead_letter_exchange="amq.direct")
    given = stage.queue(
        "given", dead_letter_exchange="amq.direct", dead_letter_routing_key="given-dead"
    )
    targets = [stage.queue(name) for name in ("own-dead", "copy-dead", "given-dead")]
    for target, key in zip(targets, ("own", "copy", "given-dead"), strict=True):
        stage.vhost.bind("amq.direct", target, key)
    for queue in (own, given):
        inbox = Inbox()
        inbox.consume(queue)
        stage.publish(queue.name, to=queue.name, headers={"CC": ["copy"]})
        inbox.reject(1)

    assert [ready(target) for target in targets] == [["own"], ["own"], ["given"]]
    headers = buried(targets[2]).headers
    assert headers is not None
    assert "CC" not in headers


def test_a_missing_dead_letter_exchange_drops(stage: Stage) -> None:
    queue = stage.queue(dead_letter_exchange="nowhere")
    inbox = Inbox()
    inbox.consume(queue)
    stage.publish("a")

    inbox.reject(1)

    assert (queue.backlog.count, queue.unacked) == (0, 0)


def test_a_circle_by_expiry_ends_after_one_round(stage: Stage) -> None:
    one = stage.queue("one", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="two")
    two = stage.queue("two", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="one")
    stage.publish("a", to="one")
    stage.advance(10)
    assert (ready(one), ready(two)) == ([], ["a"])

    stage.advance(10)

    assert (ready(one), ready(two)) == ([], [])


def test_a_circle_with_a_rejection_goes_on_and_counts(stage: Stage) -> None:
    work = stage.queue("work", dead_letter_exchange="", dead_letter_routing_key="retry")
    stage.queue("retry", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="work")
    inbox = Inbox()
    inbox.consume(work)
    stage.publish("a", to="work")

    for tag in (1, 2, 3):
        inbox.reject(tag)
        stage.advance(10)

    assert inbox.seen == ["a"] * 4
    last = properties_of(inbox.runs[-1].contents[0])
    told = [(death["queue"], death["reason"], death["count"]) for death in deaths(last)]
    assert told == [("retry", "expired", 3), ("work", "rejected", 3)]


def test_a_retry_through_a_delayed_exchange_named_like_the_queue_is_no_circle(stage: Stage) -> None:
    stage.vhost.declare_exchange("q", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    stage.queue(message_ttl=10, dead_letter_exchange="q")
    dead = stage.queue("dead")
    stage.vhost.bind("q", dead, "")
    stage.publish("a")

    stage.advance(10)

    assert ready(dead) == ["a"]


def test_a_history_that_makes_no_sense_is_survived(stage: Stage) -> None:
    queue = stage.queue(dead_letter_exchange="", dead_letter_routing_key="dead")
    dead = stage.queue("dead")
    inbox = Inbox()
    inbox.consume(queue)
    for number, history in enumerate(("text", [1, "x"], [{"queue": 5, "count": "many"}], {}), 1):
        stage.publish("a", headers={"x-death": history})
        inbox.reject(number)
        assert len(deaths(buried(dead))) == 1
        dead.purge()
