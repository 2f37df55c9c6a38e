"""Ask for squares and wait for the answers: `python rpc_client.py [NUMBER ...]`.

Answers come by direct reply-to, through no queue. Requests wait until a server is there.
"""
# ruff: noqa: T201

import os
import sys
from typing import Any

import pika

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2F")
REPLY_TO = "amq.rabbitmq.reply-to"


def main(numbers: list[str]) -> None:
    answers: list[bytes] = []

    def arrived(channel: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:  # noqa: ANN401
        answers.append(body)
        print(f"the square of {properties.correlation_id} is {body.decode()}", flush=True)

    with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
        channel = connection.channel()
        channel.queue_declare("squares", durable=True)
        channel.basic_consume(REPLY_TO, arrived, auto_ack=True)  # before the first request
        for number in numbers:
            properties = pika.BasicProperties(reply_to=REPLY_TO, correlation_id=number)
            channel.basic_publish("", "squares", number.encode(), properties)
        while len(answers) < len(numbers):
            connection.process_data_events(time_limit=None)


if __name__ == "__main__":
    main(sys.argv[1:] or ["3", "12"])
