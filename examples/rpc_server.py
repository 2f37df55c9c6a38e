"""Answer requests in the queue `squares`, until Ctrl-C: `python rpc_server.py`."""
# ruff: noqa: T201

import os
from contextlib import suppress
from typing import Any

import pika

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2F")


def answer(channel: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:  # noqa: ANN401
    print(f"asked for the square of {int(body)}", flush=True)
    channel.basic_publish(
        exchange="",
        routing_key=properties.reply_to,
        body=str(int(body) ** 2).encode(),
        properties=pika.BasicProperties(correlation_id=properties.correlation_id),
    )
    channel.basic_ack(method.delivery_tag)


def main() -> None:
    with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
        channel = connection.channel()
        channel.queue_declare("squares", durable=True)
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume("squares", answer)
        print("waiting for requests, stop with Ctrl-C", flush=True)
        with suppress(KeyboardInterrupt):
            channel.start_consuming()


if __name__ == "__main__":
    main()
