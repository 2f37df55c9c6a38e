"""A worker of the output that takes messages and never acknowledges them, until it is killed.

`python -m headrace.demo.stuck_worker URL QUEUE`
"""

from __future__ import annotations

import sys

from headrace.demo.clients import DemoClient


def main(url: str, queue: str) -> None:
    client = DemoClient(url)
    client.consume(queue)
    client.channel.start_consuming()


if __name__ == "__main__":
    main(*sys.argv[1:3])
