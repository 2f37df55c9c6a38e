"""The original producer: declares exchange and queue, publishes one message, prints it."""

from __future__ import annotations

import sys

from headrace.client import ConnectionFactory, ExchangeType

with ConnectionFactory(port=int(sys.argv[1])).new_connection() as connection:
    channel = connection.create_channel()
    channel.exchange_declare("testExchange", ExchangeType.DIRECT, durable=True)
    channel.queue_declare("testQueue", durable=True)
    count = channel.basic_publish("testExchange", "testQueue", None, b"hello")
    sys.stdout.write(f"delivered to {count} queue\n")
