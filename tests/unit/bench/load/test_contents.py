"""Task messages look like Celery's and all have one size."""

from __future__ import annotations

import json
import struct

import pika.frame

from headrace.bench.load import contents, frames


def test_task_messages_are_distinct_and_of_one_size() -> None:
    tasks = contents.celery(persistent=False)

    assert len({task.properties for task in tasks}) == contents.CELERY_DISTINCT
    assert len({(len(task.properties), len(task.body)) for task in tasks}) == 1


def test_varied_messages_differ_in_size_and_occupy_the_same_space() -> None:
    found = contents.varied(persistent=False)

    assert len({message.properties for message in found}) == contents.VARIED_DISTINCT
    assert {len(message.body) for message in found} == set(range(80, 121))
    assert len({len(message.properties) + len(message.body) for message in found}) == 1
    neighbours = zip(found, found[1:] + found[:1], strict=True)
    assert all(len(one.body) != len(other.body) for one, other in neighbours)


def test_task_messages_have_celerys_properties_and_headers() -> None:
    task = contents.celery(persistent=True, count=1)[0]
    payload = struct.pack(">HHQ", 60, 0, len(task.body)) + task.properties

    _, header = pika.frame.decode_frame(frames.frame(frames.HEADER, 1, payload))

    found = header.properties
    assert (found.content_type, found.content_encoding) == ("application/json", "utf-8")
    assert (found.delivery_mode, found.priority) == (2, 0)
    assert found.headers["id"] == found.correlation_id
    assert found.headers["timelimit"] == [None, None]
    assert len(found.headers) == 19


def test_the_body_of_a_task_is_arguments_keywords_and_embed() -> None:
    positional, keywords, embed = json.loads(contents.celery(persistent=False, count=1)[0].body)

    assert positional[0] == "invoice-000000"
    assert "customer" in keywords
    assert set(embed) == {"callbacks", "errbacks", "chain", "chord"}
