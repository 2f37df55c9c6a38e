"""A web shop as load: orders, payments, e-mail, Celery tasks, dead letters, a topic with a group.

python -m pictures.traffic AMQP_URL NATIVE_URL     runs until SIGTERM
"""

from __future__ import annotations

import json
import math
import random
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator

import pika

from headrace import topics

SHOPS = ("Berlin", "Lagos", "Lima", "Osaka")
# name of the program, routing key, messages a second
PUBLISHERS = (
    ("web-shop", "order.created", 260),
    ("web-shop", "order.paid", 180),
    ("payment-service", "payment.requested", 120),
    ("newsletter", "email.campaign", 45),
    ("newsletter", "email.receipt", 30),
)
# name of the program, queue, prefetch, seconds per message, share that is rejected
CONSUMERS = (
    ("order-worker-1", "orders", 50, 0.0032, 0.0),
    ("order-worker-2", "orders", 50, 0.0036, 0.0),
    ("payment-worker", "payments", 20, 0.005, 0.02),
    ("mailer", "email", 10, 0.016, 0.004),
    ("celery@worker-1", "celery", 4, 0.09, 0.0),
)
TASKS = ("shop.tasks.send_invoice", "shop.tasks.resize_image", "shop.tasks.sync_stock")


def declare(channel: pika.channel.Channel) -> None:
    channel.exchange_declare("shop", "topic", durable=True)
    channel.exchange_declare("shop.dead", "fanout", durable=True)
    channel.queue_declare("dead-letters", durable=True)
    channel.queue_bind("dead-letters", "shop.dead")
    dead = {"x-dead-letter-exchange": "shop.dead"}
    for queue, key in (("orders", "order.*"), ("payments", "payment.#"), ("email", "email.#")):
        channel.queue_declare(queue, durable=True, arguments=dead)
        channel.queue_bind(queue, "shop", key)
    channel.queue_declare("audit", durable=True, arguments={"x-max-length": 5000})
    channel.queue_bind("audit", "shop", "#")
    channel.queue_declare("celery", durable=True)


def connect(url: str, name: str) -> pika.BlockingConnection:
    parameters = pika.URLParameters(url)
    parameters.client_properties = {"connection_name": name}
    return pika.BlockingConnection(parameters)


def order(chance: random.Random, number: int) -> bytes:
    return json.dumps(
        {
            "id": 48_000 + number,
            "customer": {"id": chance.randrange(900), "country": chance.choice(("DE", "NG", "PE"))},
            "shop": chance.choice(SHOPS),
            "amount": chance.randrange(100, 20_000) / 100,
            "items": [{"sku": f"A-{chance.randrange(99):02}", "quantity": 1 + number % 3}],
        }
    ).encode()


def pace(chance: random.Random, rate: float) -> Iterator[int]:
    """How many to send now, ten times a second: a day's waves within minutes, with some noise."""
    while True:
        wave = 1 + 0.35 * math.sin(time.time() / 23) + chance.gauss(0, 0.06)
        yield max(0, round(rate * wave / 10))
        time.sleep(0.1)


def publish(url: str, name: str, key: str, rate: float) -> None:
    chance = random.Random(key)
    channel = connect(url, name).channel()
    if name == "payment-service":
        channel.confirm_delivery()
    durable = pika.BasicProperties(delivery_mode=2, content_type="application/json", app_id=name)
    number = 0
    for count in pace(chance, rate):
        for _ in range(count):
            number += 1
            channel.basic_publish("shop", key, order(chance, number), durable)


def publish_tasks(url: str) -> None:
    chance = random.Random(3)
    channel = connect(url, "shop-api").channel()
    for count in pace(chance, 14):
        for _ in range(count):
            task, name = str(uuid.UUID(int=chance.getrandbits(128))), chance.choice(TASKS)
            arguments = [48_000 + chance.randrange(9000)]
            headers = {"lang": "py", "task": name, "id": task, "retries": chance.choice((0, 0, 1))}
            headers |= {"argsrepr": repr(arguments), "kwargsrepr": "{'notify': True}"}
            headers |= {"eta": None, "expires": None, "root_id": task, "parent_id": None}
            properties = pika.BasicProperties(
                content_type="application/json",
                content_encoding="utf-8",
                correlation_id=task,
                delivery_mode=2,
                headers=headers,
            )
            embed = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
            body = json.dumps([arguments, {"notify": True}, embed]).encode()
            channel.basic_publish("", "celery", body, properties)


def consume(
    url: str, name: str, queue: str, prefetch: int, seconds: float, rejected: float
) -> None:
    chance = random.Random(name)
    channel = connect(url, name).channel()
    channel.basic_qos(prefetch_count=prefetch)
    for method, _, _ in channel.consume(queue, consumer_tag=name):
        time.sleep(chance.expovariate(1 / seconds))
        if chance.random() < rejected:
            channel.basic_nack(method.delivery_tag, requeue=False)
        else:
            channel.basic_ack(method.delivery_tag)


def visits(url: str) -> None:
    """A topic, and a group that is a little behind."""
    with topics.open(url) as store:
        producer = store.producer("visits", token="web-shop")
        readers = [store.consumer("visits", token=f"stats-{n}", group="stats") for n in (1, 2)]
        slow = store.consumer("visits", token="fraud-1", group="fraud-check")
        chance = random.Random(5)
        for round_, count in enumerate(pace(chance, 90)):
            bodies = [json.dumps({"page": f"/item/{chance.randrange(99)}"}) for _ in range(count)]
            producer.append_many(bodies)
            for reader in [*readers, *([slow] if round_ % 12 == 0 else [])]:
                reader.commit(reader.read(60))


def main(amqp: str, native: str) -> None:
    with connect(amqp, "deploy") as connection:
        declare(connection.channel())
    work: list[tuple[Callable[..., None], tuple[object, ...]]] = [
        *((publish, (amqp, *one)) for one in PUBLISHERS),
        *((consume, (amqp, *one)) for one in CONSUMERS),
        (publish_tasks, (amqp,)),
        (visits, (native,)),
    ]
    threads = [threading.Thread(target=one, args=args, daemon=True) for one, args in work]
    for thread in threads:
        thread.start()
    threads[0].join()


if __name__ == "__main__":
    main(*sys.argv[1:])
