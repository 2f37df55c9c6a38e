"""A small client of the management API for tests: every call says which status it expects."""

from __future__ import annotations

from types import TracebackType
from typing import Any, TypeAlias
from urllib.parse import quote

import httpx

from headrace.testing import RunningBroker

Json: TypeAlias = Any  # whatever JSON can say


def part(text: str) -> str:
    """A name as one part of a path."""
    return quote(text, safe="")


class Api:
    """Logged in with Basic, as guest unless told otherwise."""

    def __init__(self, broker: RunningBroker, user: str = "guest", password: str = "guest") -> None:
        self._client = httpx.Client(
            base_url=str(broker.http_url), auth=(user, password), timeout=30
        )

    def __enter__(self) -> Api:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()

    def call(self, method: str, path: str, body: Json = None, **more: Json) -> httpx.Response:
        return self._client.request(method, path, json=body, **more)

    def get(self, path: str, status: int = 200, **query: Json) -> Json:
        response = self._client.get(path, params=query or None)
        assert response.status_code == status, response.text
        return response.json()

    def _change(self, method: str, path: str, body: Json, status: int | None) -> Json:
        response = self._client.request(method, path, json=body)
        if status is None:
            assert response.is_success, response.text
        else:
            assert response.status_code == status, response.text
        return response.json() if response.content else None

    def put(self, path: str, body: Json = None, status: int | None = None) -> Json:
        return self._change("PUT", path, {} if body is None else body, status)

    def post(self, path: str, body: Json = None, status: int | None = None) -> Json:
        return self._change("POST", path, {} if body is None else body, status)

    def delete(self, path: str, status: int | None = 204) -> Json:
        return self._change("DELETE", path, None, status)

    def publish(self, key: str, payload: str = "hi", exchange: str = "amq.default",
                **properties: Json) -> bool:  # fmt: skip
        answer = self.post(
            f"/api/exchanges/%2F/{part(exchange)}/publish",
            {
                "routing_key": key,
                "payload": payload,
                "payload_encoding": "string",
                "properties": properties,
            },
            200,
        )
        return bool(answer["routed"])

    def take(self, queue: str, count: int = 1, ackmode: str = "ack_requeue_false") -> Json:
        body = {"count": count, "ackmode": ackmode, "encoding": "auto"}
        return self.post(f"/api/queues/%2F/{part(queue)}/get", body, 200)
