"""A foreign codec reads the messages; task messages look like Celery's and all have one size."""

from __future__ import annotations

import json
from typing import Any

import pika.frame

from headrace.bench.load import contents


def decoded(content: bytes) -> tuple[Any, bytes]:
    """Its properties and its body."""
    size, header = pika.frame.decode_frame(content)
    body = b""
    while content := content[size:]:
        size, frame = pika.frame.decode_frame(content)
        assert frame.channel_number == 1
        body += frame.fragment
    assert header.body_size == len(body)
    return header.properties, body


def test_a_plain_message_has_its_size_and_mode() -> None:
    for persistent in (False, True):
        properties, body = decoded(contents.plain(300_000, persistent=persistent))

        assert (properties.content_type, properties.delivery_mode) == ("text/plain", 1 + persistent)
        assert body == b"x" * 300_000  # in three frames


def test_task_messages_are_distinct_and_of_one_size() -> None:
    tasks = contents.celery(persistent=False)

    assert len({decoded(task)[0].correlation_id for task in tasks}) == contents.CELERY_DISTINCT
    assert len({(len(task), len(decoded(task)[1])) for task in tasks}) == 1


def test_varied_messages_differ_in_size_and_occupy_the_same_space() -> None:
    found = contents.varied(persistent=False)
    sizes = [len(decoded(message)[1]) for message in found]

    ids = {decoded(message)[0].message_id for message in found}
    assert len(ids) == contents.VARIED_DISTINCT
    assert set(sizes) == set(range(80, 121))
    assert len({len(message) for message in found}) == 1
    assert all(one != other for one, other in zip(sizes, sizes[1:] + sizes[:1], strict=True))


def test_task_messages_have_celerys_properties_and_headers() -> None:
    found, _ = decoded(contents.celery(persistent=True, count=1)[0])

    assert (found.content_type, found.content_encoding) == ("application/json", "utf-8")
    assert (found.delivery_mode, found.priority) == (2, 0)
    assert found.headers["id"] == found.correlation_id
    assert len(found.headers) == 19
    values = {"lang": "py", "shadow": None, "retries": 0, "timelimit": [None, None]}
    values |= {"ignore_result": False, "stamps": {}}
    assert {name: found.headers[name] for name in values} == values


def test_the_body_of_a_task_is_arguments_keywords_and_embed() -> None:
    _, body = decoded(contents.celery(persistent=False, count=1)[0])
    positional, keywords, embed = json.loads(body)

    assert positional[0] == "invoice-000000"
    assert "customer" in keywords
    assert set(embed) == {"callbacks", "errbacks", "chain", "chord"}
