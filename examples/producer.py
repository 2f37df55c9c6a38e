"""Publish greetings through the exchange `greetings`: `python producer.py [HOW_MANY]`."""

import os
import sys

from headrace.client import BasicProperties, ConnectionFactory, ExchangeType

PORT = int(os.environ.get("HEADRACE_NATIVE_PORT", "9090"))


def main(how_many: int) -> None:
    factory = ConnectionFactory(host="127.0.0.1", port=PORT, user="guest", password="guest")
    with factory.new_connection() as connection, connection.create_channel() as channel:
        # The consumer declares the same, so either program can start first.
        channel.exchange_declare("greetings", ExchangeType.DIRECT, durable=True)
        channel.queue_declare("hello-queue", durable=True)
        for number in range(1, how_many + 1):
            properties = BasicProperties(delivery_mode=2)  # kept over a restart of the broker
            body = f"hello {number}".encode()
            # A direct exchange leads to the queue that the key names. Returns when it is on disk.
            queues = channel.basic_publish("greetings", "hello-queue", properties, body)
            print(f"published hello {number}, reached {queues} queue")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
