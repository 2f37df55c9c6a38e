"""Send ten messages to the RocketMQ topic `orders`: `python rocketmq_producer.py`."""

import os

from headrace.rocketmq import Message, Producer, ProducerConfig

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


def main() -> None:
    config = ProducerConfig(producer_group="shop", namesrv_addr=NAMESRV)
    with Producer(config) as producer:
        for number in range(10):
            order = f"order-{number % 3}"
            message = Message("orders", f"step {number}".encode(), tags="new", keys=order)
            result = producer.send_by_key(message, order)  # one queue per order keeps the order
            print(f"{order}: {result.status.value}, queue {result.queue.queue_id}", flush=True)


if __name__ == "__main__":
    main()
