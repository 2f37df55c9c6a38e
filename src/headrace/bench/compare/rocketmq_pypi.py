"""The PyPI client `rocketmq` (C++ core), run by an interpreter that has it; imports none of ours.

    python rocketmq_peer.py send|consume NAMESRV TOPIC SECONDS COUNT

prints messages per second.
"""
# ruff: noqa: T201

import sys
import threading
import time

from rocketmq.client import Message, Producer, PushConsumer  # type: ignore[import-not-found]


def send(names: str, topic: str, seconds: float, body: str) -> float:
    """One after the other, each confirmed."""
    producer = Producer("bench-peer")
    producer.set_namesrv_addr(names)
    producer.start()
    message = Message(topic)
    message.set_body(body)
    for _ in range(50):
        producer.send_sync(message)
    done, start = 0, time.monotonic()
    while (now := time.monotonic()) < start + seconds:
        producer.send_sync(message)
        done += 1
    producer.shutdown()
    return float(done / (now - start))


def consume(names: str, topic: str, count: int) -> float:
    """From the first message to the last; the start of the client does not count."""
    seen = 0
    first = last = 0.0
    full = threading.Event()
    lock = threading.Lock()

    def take(message: object) -> None:
        nonlocal seen, first, last
        with lock:
            last = time.monotonic()
            first = first or last
            seen += 1
            if seen >= count:
                full.set()

    consumer = PushConsumer(f"peer-{topic}-{int(time.time())}")
    consumer.set_namesrv_addr(names)
    consumer.subscribe(topic, take)
    consumer.start()
    full.wait(120)
    consumer.shutdown()
    return float(seen / (last - first)) if seen > 1 else 0.0


if __name__ == "__main__":
    _, what, namesrv, name, length, messages = sys.argv
    if what == "send":
        print(send(namesrv, name, float(length), "x" * 100))
    else:
        print(consume(namesrv, name, int(messages)))
