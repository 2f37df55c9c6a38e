"""Large answers: encoded and sent in small parts, with a loop turn between them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, cast

from headrace.server.http.api.definitions import _attachment
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.app import SENT_AT_ONCE, _response
from headrace.server.http.listing import SLICE, ListColumns, listed
from headrace.server.http.replies import Reply

MANY = 20 * SLICE


class Turns:
    """Counts the turns of the loop while something else runs."""

    def __init__(self) -> None:
        self.count = 0

    async def __aenter__(self) -> Turns:
        self._task = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._task.cancel()

    async def _tick(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)


class Caller:
    query: dict[str, str] = {}  # noqa: RUF012 - as little of a request as lists look at

    def number(self, name: str) -> None: ...

    def flag(self, name: str) -> bool:
        return False


CALL = cast(ApiRequest, Caller())


def test_a_large_body_is_sent_part_by_part_with_its_length() -> None:
    part = bytes(SENT_AT_ONCE // 4)
    sent: list[tuple[int, dict[str, Any]]] = []

    async def main() -> None:
        async with Turns() as turns:

            async def send(message: Any) -> None:  # noqa: ANN401
                sent.append((turns.count, message))

            async def receive() -> Any:  # noqa: ANN401
                await asyncio.Event().wait()

            response = _response(Reply(200, [part] * 10, "text/plain"), {})
            await response({"type": "http", "asgi": {}}, receive, send)

    asyncio.run(main())

    head, *bodies = sent
    assert (b"content-length", b"%d" % (10 * len(part))) in head[1]["headers"]
    assert max(len(one["body"]) for _, one in bodies) == len(part)
    assert len({turn for turn, one in bodies if one["body"]}) == 10


def test_a_small_body_is_sent_at_once() -> None:
    assert _response(Reply(200, [b"[", b"1", b"]"]), {}).body == b"[1]"


def test_rows_of_a_long_list_are_never_joined() -> None:
    fields: ListColumns[int] = ListColumns({"n": lambda number: number})
    reply = asyncio.run(listed(CALL, range(MANY), fields))

    assert isinstance(reply.body, list)
    assert max(part.count(b"{") for part in reply.body) == SLICE
    assert json.loads(b"".join(reply.body)) == [{"n": number} for number in range(MANY)]


def test_definitions_are_exported_in_slices() -> None:
    made: list[int] = []

    async def main() -> Reply:
        async with Turns() as turns:

            def entries() -> Iterator[dict[str, int]]:
                for number in range(MANY):
                    made.append(turns.count)
                    yield {"n": number}

            return await _attachment(CALL, {"a": "b", "queues": entries(), "users": []})

    reply = asyncio.run(main())

    assert isinstance(reply.body, list)
    assert max(made.count(turn) for turn in set(made)) == SLICE
    found = json.loads(b"".join(reply.body))
    assert found == {"a": "b", "queues": [{"n": number} for number in range(MANY)], "users": []}
