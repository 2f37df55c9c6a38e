"""Ask for squares: `python rpc_client.py [NUMBER ...]`. Answers come by direct reply-to."""

import os
import sys

import pika

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2F")
REPLY_TO = "amq.rabbitmq.reply-to"


def main(waiting: set[str]) -> None:
    def arrived(_: object, method: object, properties: pika.BasicProperties, body: bytes) -> None:
        print(f"the square of {properties.correlation_id} is {body.decode()}", flush=True)
        waiting.discard(properties.correlation_id)

    with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
        channel = connection.channel()
        channel.queue_declare("squares", durable=True)  # requests wait there for a server
        channel.basic_consume(REPLY_TO, arrived, auto_ack=True)  # before the first request
        for number in sorted(waiting, key=int):
            how = pika.BasicProperties(reply_to=REPLY_TO, correlation_id=number)
            channel.basic_publish("", "squares", number.encode(), how)
        while waiting:
            connection.process_data_events(time_limit=None)


if __name__ == "__main__":
    main(set(sys.argv[1:]) or {"3", "12"})
