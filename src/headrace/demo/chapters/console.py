"""The management page and the API under it, asked as a browser asks."""

from __future__ import annotations

import base64
import json
import re
import urllib.error
import urllib.request
from typing import Any, NamedTuple
from urllib.parse import urljoin

from headrace.client import ConnectionFactory
from headrace.demo.broker import DemoBroker
from headrace.demo.output import DemoOutput

QUEUE = "complaints"
COUNT = 7
_SECONDS = 10.0
_PARTS = re.compile(r'(?:src|href)="([^":]+\.(?:js|css|svg|ico|png|webmanifest))"')


class _Answer(NamedTuple):
    status: int
    text: str


def page(output: DemoOutput, broker: DemoBroker) -> None:
    """The management page and the API"""
    found = _get(broker, "")
    parts = _PARTS.findall(found.text)
    if not parts:
        output.remark(
            "The page is not built (make console, with Node.js 18 or newer). The API that it uses "
            "works without it:"
        )
    else:
        output.remark(f"The page is at {broker.page_url} (user guest, password guest).")
        missing = [one for one in parts if _get(broker, one).status != 200]
        output.expect(f"the page and its {len(parts)} files are served", missing, [])

    with ConnectionFactory(port=broker.native_port).new_connection() as connection:
        channel = connection.create_channel()
        channel.queue_declare(QUEUE, durable=True)
        channel.publish_batch([("", QUEUE, {"delivery_mode": 2}, "too late")] * COUNT)
        row = _api(broker, f"queues/%2F/{QUEUE}")
        output.expect(
            "the API counts the messages that were just published", row["messages"], COUNT
        )
        held = channel.basic_get(QUEUE)
        row = _api(broker, f"queues/%2F/{QUEUE}")
        counts = (row["messages_ready"], row["messages_unacknowledged"])
        output.expect("it counts the unacknowledged message", counts, (COUNT - 1, 1))
        if held is not None:
            held.ack()
        clients = [one["client_properties"].get("product") for one in _api(broker, "connections")]
        output.check(
            "it lists the connected clients", "headrace-python" in clients, ", ".join(clients)
        )
    topics = {one["name"] for one in _api(broker, "topics")}
    output.check("it lists the topics", {"orders", "jobs"} <= topics, ", ".join(sorted(topics)))
    status = _get(broker, "api/overview", password="wrong").status
    output.expect("a wrong password is refused with status 401", status, 401)
    metrics = _get(broker, "metrics").text
    samples = [line for line in metrics.splitlines() if line and not line.startswith("#")]
    output.check("Prometheus can scrape the metrics", len(samples) > 50, f"{len(samples)} samples")


def _api(broker: DemoBroker, path: str) -> Any:  # noqa: ANN401 - any JSON
    answer = _get(broker, f"api/{path}")
    return json.loads(answer.text)


def _get(broker: DemoBroker, path: str, password: str = "guest") -> _Answer:
    login = base64.b64encode(f"guest:{password}".encode()).decode()
    request = urllib.request.Request(
        urljoin(broker.page_url, path), headers={"Authorization": f"Basic {login}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as reply:
            return _Answer(reply.status, reply.read().decode(errors="replace"))
    except urllib.error.HTTPError as error:
        with error:
            return _Answer(error.code, error.read().decode(errors="replace"))
