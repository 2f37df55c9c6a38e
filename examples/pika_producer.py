"""Publish messages to the queue `hello`, each confirmed: `python pika_producer.py [HOW_MANY]`."""

import os
import sys

import pika

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2F")


def main(how_many: int) -> None:
    with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
        channel = connection.channel()
        channel.queue_declare("hello", durable=True)  # the consumer does the same: no one is first
        channel.confirm_delivery()  # from now on basic_publish returns when the broker has it
        for number in range(1, how_many + 1):
            channel.basic_publish(
                exchange="",
                routing_key="hello",
                body=f"message {number}".encode(),
                properties=pika.BasicProperties(delivery_mode=2),
                mandatory=True,
            )
            print(f"published message {number}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
