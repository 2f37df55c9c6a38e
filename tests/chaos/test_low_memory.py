"""Too little memory, and a consumer that is there no more although its socket is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import headrace
from headrace.testing import wait_for
from headrace.testing.broker_process import BrokerProcess
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.properties import Properties
from support.chaos.connect import Connect

MESSAGE = bytes(1 << 20)

HOLDING_CONSUMER = """
import sys
from headrace.testing.amqp_connection import RawConnection
from headrace.wire.amqp import methods as m
link = RawConnection(int(sys.argv[1]), heartbeat=1)
link.open_channel(1)
link.call(1, m.BasicConsume(queue="q"), m.BasicConsumeOk)
while True:
    for event in link.poll(0.2):
        sys.stdout.write("took one\\n")
        sys.stdout.flush()
    link.beat()
"""


def test_too_much_memory_blocks_publishers_until_there_is_room(
    tmp_path: Path, connect: Connect
) -> None:
    with BrokerProcess(tmp_path, env={"HEADRACE_MEMORY_HIGH_WATERMARK": "70MiB"}) as node:
        publisher, consumer = connect(node.start()), connect(node)
        publisher.call(1, m.QueueDeclare(queue="t"), m.QueueDeclareOk)
        consumer.call(1, m.BasicConsume(queue="t"), m.BasicConsumeOk)
        sent = taken = 0
        while not publisher.blocked and sent < 300:
            publisher.publish(1, "", "t", MESSAGE, Properties())
            sent += 1
            while taken < sent and not publisher.blocked:
                taken += len(consumer.poll(0.01))  # not acknowledged: the broker keeps it
                publisher.poll()
        assert publisher.blocked, f"not blocked after {sent} MiB"

        everything = m.BasicAck(delivery_tag=0, multiple=True)
        consumer.send(1, everything)

        wait_for(lambda: publisher.poll(0.01) is not None and not publisher.blocked)
        publisher.publish(1, "", "t", b"after", Properties())
        while (body := wait_for(lambda: consumer.poll(0.1))[-1].body) != b"after":
            assert body == MESSAGE
            consumer.send(1, everything)
        for link in (publisher, consumer):
            link.close()
        assert node.stop() == 0


def test_messages_of_a_stopped_consumer_go_back_after_the_heartbeat(
    tmp_path: Path, connect: Connect
) -> None:
    with BrokerProcess(tmp_path) as node:
        link = connect(node.start())
        link.call(1, m.QueueDeclare(queue="q", durable=True), m.QueueDeclareOk)
        link.publish(1, "", "q", b"precious", Properties(delivery_mode=2))
        path = {**os.environ, "PYTHONPATH": str(Path(headrace.__file__).parents[1])}
        consumer = subprocess.Popen(
            [sys.executable, "-c", HOLDING_CONSUMER, str(node.port)],
            stdout=subprocess.PIPE,
            env=path,
        )
        try:
            assert consumer.stdout is not None
            assert consumer.stdout.readline() == b"took one\n"

            consumer.send_signal(signal.SIGSTOP)

            link.call(1, m.BasicConsume(queue="q"), m.BasicConsumeOk)
            event = wait_for(lambda: link.poll(0.1), timeout=10)[0]
            assert isinstance(event.method, m.BasicDeliver)
            assert event.method.redelivered
            assert event.body == b"precious"
        finally:
            consumer.kill()
            consumer.communicate()
        link.close()
        assert node.stop() == 0
