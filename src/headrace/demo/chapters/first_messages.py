"""First chapter: orders come in with pika, with our own client and from a shell."""

from __future__ import annotations

import shlex
import subprocess
import sys
from importlib.util import find_spec

from headrace.client import ConnectionFactory, ExchangeType
from headrace.demo.broker import DemoBroker
from headrace.demo.output import DemoOutput
from headrace.testing.broker_process import own_environment

EXCHANGE, QUEUE = "counter", "desk"
BATCH = 1000
_SECONDS = 30


def has_pika() -> bool:
    return find_spec("pika") is not None


def three_ways(output: DemoOutput, broker: DemoBroker) -> None:
    """Publish with pika, with the native client and from a shell"""
    output.remark(
        "Three programs publish to the exchange counter: one uses pika, one the native client, and "
        "one is a shell command. Keys that begin with order. are routed to the queue desk."
    )
    wanted = []
    with ConnectionFactory(port=broker.native_port).new_connection() as connection:
        channel = connection.create_channel()
        channel.exchange_declare(EXCHANGE, ExchangeType.TOPIC, durable=True)
        channel.queue_declare(QUEUE, durable=True)
        channel.queue_bind(QUEUE, EXCHANGE, "order.#")

        if has_pika():
            _order_with_pika(broker)
            wanted.append("a book")
        else:
            output.remark("pika is not installed (pip install pika): its message is skipped.")

        persistent = {"delivery_mode": 2}
        reached = channel.basic_publish(EXCHANGE, "order.native", persistent, "two cups")
        wanted.append("two cups")
        output.expect("the native client's message was stored on disk, in one queue", reached, 1)

        sent = shell(
            *(output, broker, "publish", "-e", EXCHANGE, "-k", "order.shell"),
            *("--persistent", "three candles"),
        )
        wanted.append("three candles")
        output.expect("the shell command exited with status 0", sent.returncode, 0)

        taken = shell(output, broker, "consume", QUEUE, "--lines")
        output.expect("every message was delivered, in order", taken.stdout.splitlines(), wanted)

        batch = [(EXCHANGE, "order.native", persistent, f"cup {n}") for n in range(BATCH)]
        queues = channel.publish_batch(batch)
        output.expect(
            f"{BATCH:,} more were published in one batch, each confirmed", queues, [1] * BATCH
        )
        bodies = []
        for delivery in channel.deliveries(QUEUE):
            bodies.append(delivery.body.decode())
            delivery.ack()
            if len(bodies) == BATCH:
                break
        output.expect(
            f"all {BATCH:,} were consumed in the same order", bodies, [one[3] for one in batch]
        )
        missing = shell(output, broker, "get", "dusk")
        output.check(
            "a misspelt queue name gets a helpful error message",
            "no queue 'dusk'" in missing.stderr,
        )


def shell(output: DemoOutput, broker: DemoBroker, *args: str) -> subprocess.CompletedProcess[str]:
    """Run one of our commands as a user would, and show it with its output."""
    output.say(f"$ headrace {shlex.join(args)}")
    done = subprocess.run(
        [sys.executable, "-m", "headrace", *args],
        env={**own_environment(), "HEADRACE_URL": broker.native_url},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )
    for line in (done.stdout + done.stderr).splitlines():
        output.remark(line)
    return done


def _order_with_pika(broker: DemoBroker) -> None:
    from headrace.demo.clients import Clients

    with Clients(broker.url) as clients:
        shop = clients.connect()
        shop.channel.confirm_delivery()
        shop.publish("order.pika", "a book", exchange=EXCHANGE, delivery_mode=2)
