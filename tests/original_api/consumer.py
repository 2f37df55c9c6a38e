"""The original consumer: declares the same, prints every message, runs until it is stopped."""

from __future__ import annotations

import signal
import sys

from headrace.client import BasicProperties, ConnectionFactory, ExchangeType


def show(consumer_tag: str, properties: BasicProperties, body: bytes) -> None:
    text = f"consumer tag: {consumer_tag}\nproperties: {properties}\nbody: {body.decode()}\n"
    sys.stdout.write(text)
    sys.stdout.flush()


with ConnectionFactory(port=int(sys.argv[1])).new_connection() as connection:
    channel = connection.create_channel()
    channel.exchange_declare("testExchange", ExchangeType.DIRECT, durable=True)
    channel.queue_declare("testQueue", durable=True)
    channel.basic_consume("testQueue", True, show)
    sys.stdout.write("waiting\n")
    sys.stdout.flush()
    signal.pause()
