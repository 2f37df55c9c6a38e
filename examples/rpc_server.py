"""Answer requests in the queue `squares`, until Ctrl-C: `python rpc_server.py`."""

import os
from contextlib import suppress
from typing import Any

import pika

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2F")


def answer(channel: Any, method: Any, asked: pika.BasicProperties, body: bytes) -> None:
    properties = pika.BasicProperties(correlation_id=asked.correlation_id)
    channel.basic_publish("", asked.reply_to, str(int(body) ** 2).encode(), properties)
    channel.basic_ack(method.delivery_tag)


def main() -> None:
    with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
        channel = connection.channel()
        channel.queue_declare("squares", durable=True)
        channel.basic_consume("squares", answer)
        print("waiting for requests, stop with Ctrl-C", flush=True)
        with suppress(KeyboardInterrupt):
            channel.start_consuming()


if __name__ == "__main__":
    main()
