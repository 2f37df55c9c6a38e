"""Print the messages of the queue `hello-queue`, until Ctrl-C: `python consumer.py`."""

import os
from contextlib import suppress
from time import sleep

from headrace.client import BasicProperties, ConnectionFactory, ExchangeType


def received(consumer_tag: str, properties: BasicProperties, body: bytes) -> None:
    print(f"{consumer_tag} got {body.decode()!r}, key {properties.routing_key}", flush=True)


def main() -> None:
    port = int(os.environ.get("HEADRACE_NATIVE_PORT", "9090"))
    factory = ConnectionFactory(host="127.0.0.1", port=port, user="guest", password="guest")
    with suppress(KeyboardInterrupt), factory.new_connection() as connection:
        channel = connection.create_channel()
        channel.exchange_declare("greetings", ExchangeType.DIRECT, durable=True)
        channel.queue_declare("hello-queue", durable=True)
        print("waiting for messages, stop with Ctrl-C", flush=True)
        channel.basic_consume("hello-queue", True, received)  # acknowledged after received()
        while True:  # one wait without end may miss a Ctrl-C that comes as it begins
            sleep(1)


if __name__ == "__main__":
    main()
