"""Scenarios of the C++ client, in the clothes of its Python package: each prints what it saw."""

from __future__ import annotations

import queue
import sys

from rocketmq.client import Message, Producer, PushConsumer, RecvMessage
from rocketmq.ffi import MessageModel, _CConsumeStatus

PATIENCE = 40


def say(what: object) -> None:
    print(">", what, flush=True)  # noqa: T201


class Client:
    def __init__(self, names: str, topic: str) -> None:
        self.names, self.topic = names, topic
        self.held: list[PushConsumer] = []
        self.producer = Producer(f"P{topic}")
        self.producer.set_namesrv_addr(names)
        self.producer.start()

    def send(self, body: str, tag: str = "a") -> object:
        message = Message(self.topic)
        message.set_body(body)
        message.set_tags(tag)
        return self.producer.send_sync(message)

    def consumer(self, group: str, **options: object) -> PushConsumer:
        consumer = PushConsumer(group + self.topic, **options)
        consumer.set_namesrv_addr(self.names)
        self.held.append(consumer)
        return consumer

    def listen(
        self, group: str, tags: str = "*", topic: str | None = None, **options: object
    ) -> queue.Queue[str]:
        got: queue.Queue[str] = queue.Queue()
        consumer = self.consumer(group, **options)
        consumer.subscribe(topic or self.topic, lambda one: got.put(one.body.decode()), tags)
        consumer.start()
        return got


def take(got: queue.Queue[str], count: int) -> list[str]:
    return [got.get(timeout=PATIENCE) for _ in range(count)]


def everyday(client: Client) -> None:
    say("SEND_" + client.send("first").status.name)
    got = client.listen("C")
    for number in range(5):
        client.send(f"m{number}")
    say(" ".join(sorted(take(got, 6))))


def selectors(client: Client) -> None:
    got = client.listen("C", "a || c")
    for tag in "abc":
        client.send(f"tag-{tag}", tag)
    say(" ".join(sorted(take(got, 2))))


def orderly(client: Client) -> None:
    for number in range(10):
        message = Message(client.topic)
        message.set_body(f"o{number}")
        client.producer.send_orderly(message, 1)
    say(" ".join(take(client.listen("C", orderly=True), 10)))


def retry(client: Client) -> None:
    """The package makes a success of an exception, so its own way to the answer is taken."""
    times: queue.Queue[int] = queue.Queue()

    def later(_: object, handle: object) -> int:
        times.put(RecvMessage(handle).reconsume_times)
        return _CConsumeStatus.RECONSUME_LATER.value

    client.send("bad")
    consumer = client.consumer("C")
    consumer.subscribe(client.topic, lambda one: None)
    consumer._register_callback(later)
    consumer.start()
    say(" ".join(str(times.get(timeout=PATIENCE)) for _ in range(2)))
    say(" ".join(take(client.listen("D", topic=f"%DLQ%C{client.topic}"), 1)))


def member(client: Client, model: MessageModel = MessageModel.CLUSTERING) -> None:
    """Until it is killed."""
    got = client.listen("C", message_model=model)
    while True:
        say(got.get())


def broadcasting(client: Client) -> None:
    member(client, MessageModel.BROADCASTING)


def main() -> None:
    scenario, names, topic = sys.argv[1:]
    client = Client(names, topic)
    {
        "everyday": everyday,
        "selectors": selectors,
        "orderly": orderly,
        "retry": retry,
        "member": member,
        "broadcasting": broadcasting,
    }[scenario](client)
    for consumer in client.held:
        consumer.shutdown()
    client.producer.shutdown()


main()
