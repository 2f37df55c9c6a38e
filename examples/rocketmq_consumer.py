"""Print messages of the RocketMQ topic `orders`, until Ctrl-C: `python rocketmq_consumer.py`."""

import os
from contextlib import suppress
from time import sleep

from headrace.rocketmq import ConsumerConfig, ConsumeResult, MessageExt, OrderlyConsumer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


def received(messages: list[MessageExt]) -> ConsumeResult:
    for message in messages:
        print(f"{message.keys[0]}: {message.body.decode()}", flush=True)
    return ConsumeResult.SUCCESS


def main() -> None:
    consumer = OrderlyConsumer(ConsumerConfig("printers", NAMESRV))
    consumer.subscribe("orders", "new || changed")
    consumer.register_message_listener(received)
    print("waiting for messages, stop with Ctrl-C", flush=True)
    with suppress(KeyboardInterrupt), consumer:
        while True:  # one wait without end may miss a Ctrl-C that comes as it begins
            sleep(1)


if __name__ == "__main__":
    main()
