"""Print and acknowledge the messages of queue `hello`, until Ctrl-C: `python pika_consumer.py`."""

import os
from contextlib import suppress
from typing import Any

import pika

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2F")


def work(channel: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
    print(f"received {body.decode()}{' (again)' if method.redelivered else ''}", flush=True)
    channel.basic_ack(method.delivery_tag)  # without this it would go to another consumer


def main() -> None:
    with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
        channel = connection.channel()
        channel.queue_declare("hello", durable=True)
        channel.basic_qos(prefetch_count=10)
        channel.basic_consume("hello", work)
        print("waiting for messages, stop with Ctrl-C", flush=True)
        with suppress(KeyboardInterrupt):
            channel.start_consuming()


if __name__ == "__main__":
    main()
