"""A RocketMQ consumer as a process of its own, to be killed: one line per message it has done.

    python rocketmq_worker.py KIND NAMESRV GROUP TOPIC FILE

All workers append to the same file; a line is there before the message counts as consumed.
"""

from __future__ import annotations

import os
import sys
from threading import Event

from headrace.rocketmq import (
    ConcurrentConsumer,
    ConsumerConfig,
    ConsumeResult,
    MessageExt,
    OrderlyConsumer,
)


def main(kind: str, namesrv: str, group: str, topic: str, file: str) -> None:
    out = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    me = os.getpid()

    def listener(messages: list[MessageExt]) -> ConsumeResult:
        lines = [
            f"{me} {one.queue_id} {one.queue_offset} {one.body.decode()}\n" for one in messages
        ]
        os.write(out, "".join(lines).encode())  # one write: it is whole, or not there
        return ConsumeResult.SUCCESS

    config = ConsumerConfig(
        consumer_group=group,
        namesrv_addr=namesrv,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",  # type: ignore[arg-type]
        consume_message_batch_max_size=32,
        heartbeat_interval=1000,
        rebalance_interval=1000,
        poll_route_interval=1000,
        lock_interval=1000,
        persist_interval=200,
        pull_suspend_timeout=1000,
        request_timeout=2000,
    )
    consumer = {"orderly": OrderlyConsumer, "concurrent": ConcurrentConsumer}[kind](config)
    consumer.subscribe(topic, "*")
    consumer.register_message_listener(listener)
    with consumer:
        Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
