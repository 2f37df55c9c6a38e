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
            "The page was not built here (make console, with Node.js 18 or newer). What it shows "
            "comes from the API, which needs no building:"
        )
    else:
        output.remark(f"At {broker.page_url} there is a page, for user guest with password guest.")
        missing = [one for one in parts if _get(broker, one).status != 200]
        output.expect(f"it is served with its {len(parts)} files", missing, [])

    with ConnectionFactory(port=broker.native_port).new_connection() as connection:
        channel = connection.create_channel()
        channel.queue_declare(QUEUE, durable=True)
        channel.publish_batch([("", QUEUE, {"delivery_mode": 2}, "too late")] * COUNT)
        row = _api(broker, f"queues/%2F/{QUEUE}")
        output.expect("it counts what was published just now", row["messages"], COUNT)
        held = channel.basic_get(QUEUE)
        row = _api(broker, f"queues/%2F/{QUEUE}")
        counts = (row["messages_ready"], row["messages_unacknowledged"])
        output.expect("and the unacknowledged one", counts, (COUNT - 1, 1))
        if held is not None:
            held.ack()
        clients = [one["client_properties"].get("product") for one in _api(broker, "connections")]
        output.check("it knows who is connected", "headrace-python" in clients, ", ".join(clients))
    topics = {one["name"] for one in _api(broker, "topics")}
    output.check("topics are listed too", {"orders", "jobs"} <= topics, ", ".join(sorted(topics)))
    status = _get(broker, "api/overview", password="wrong").status
    output.expect("a wrong password shows nothing", status, 401)
    metrics = _get(broker, "metrics").text
    samples = [line for line in metrics.splitlines() if line and not line.startswith("#")]
    output.check(
        "Prometheus gets the same as figures", len(samples) > 50, f"{len(samples)} of them"
    )


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
