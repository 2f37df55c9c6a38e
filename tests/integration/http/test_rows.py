"""GET /api/rows: messages as an Arrow stream, for those who may read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from headrace.bulk.client import BulkConnection
from headrace.client.settings import Settings
from headrace.testing import RunningBroker, run_broker
from headrace.wire.native.payloads import Op

SECRET = b"secret of B"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """Vhosts A and B with the same names; anna may read some of A."""
    with run_broker(data_dir=tmp_path_factory.mktemp("data")) as broker:
        with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=60) as api:
            everything = {"configure": ".*", "write": ".*", "read": ".*"}
            for vhost in "AB":
                api.put(f"/api/vhosts/{vhost}").raise_for_status()
                api.put(f"/api/permissions/{vhost}/guest", json=everything).raise_for_status()
            user = {"password": "a", "tags": "management"}
            api.put("/api/users/anna", json=user).raise_for_status()
            only = {"configure": "", "write": "", "read": r"^(own|both|topic\.both|topic\.t)$"}
            api.put("/api/permissions/A/anna", json=only).raise_for_status()
        for vhost in "AB":
            with BulkConnection(Settings(port=broker.native_port, vhost=vhost)) as bulk:
                bulk.call(Op.QUEUE_DECLARE, name="passing")
                for topic in ("t", "both", "empty", "hidden"):
                    bulk.call(Op.TOPIC_DECLARE, name=topic, queues=2)
                for queue in ("own", "both", "hidden"):
                    bulk.call(Op.QUEUE_DECLARE, name=queue, durable=True)
                    bulk.call(Op.BIND, source="amq.fanout", queue=queue, key="")
                text = SECRET if vhost == "B" else b"own"
                for n in range(50):
                    bodies = [{"body": text + b" %d" % n, "priority": "high"}, {"body": text}]
                    bulk.call(Op.APPEND, topic="t", batch=bodies)
                    bulk.call(Op.PUBLISH, batch=[
                        {"exchange": "amq.fanout", "key": "k", "body": text + b" %d" % n,
                         "properties": {"delivery_mode": 2, "headers": {"n": n}}}])  # fmt: skip
        yield broker


@pytest.fixture
def anna(broker: RunningBroker) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=broker.http_url, auth=("anna", "a"), timeout=60) as api:
        yield api


def rows(api: httpx.Client, path: str, **query: object) -> pa.Table:
    answer = api.get(f"/api/rows/{path}", params={key: str(one) for key, one in query.items()})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/vnd.apache.arrow.stream"
    return pa.ipc.open_stream(answer.content).read_all()


def test_a_queue_is_one_stream(anna: httpx.Client) -> None:
    found = rows(anna, "A/own")
    assert found.num_rows == 50
    assert found.column_names[:3] == ["source", "partition", "offset"]
    assert found["body"].to_pylist() == [b"own %d" % n for n in range(50)]
    assert dict(found["properties"].to_pylist()[7])["n"] == "7"
    assert found["offset"].to_pylist() == list(range(50))


def test_all_partitions_of_a_topic_are_in_one_stream(anna: httpx.Client) -> None:
    found = rows(anna, "A/t", columns="partition,priority,body")
    assert found.column_names == ["partition", "priority", "body"]
    assert found.num_rows == 100
    assert found["priority"].to_pylist().count("high") == 50
    assert len(set(found["partition"].to_pylist())) > 1
    one = rows(anna, "A/t", partition=0)
    assert set(one["partition"].to_pylist()) == {0}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"start": 10, "end": 12}, [10, 11]),
        ({"start": 48}, [48, 49]),
        ({"limit": 3}, [0, 1, 2]),
        ({"start": 47, "limit": 999_999_999_999}, [47, 48, 49]),
        ({"start": 12, "end": 10}, []),
        ({"start": 999_999_999_999}, []),
        ({"end": 0}, []),
        ({"start": 49, "end": 999_999_999_999}, [49]),
    ],
    ids=str,
)
def test_ranges_and_limits(anna: httpx.Client, query: dict[str, int], expected: list[int]) -> None:
    assert rows(anna, "A/own", **query)["offset"].to_pylist() == expected


def test_limits_hold_over_partitions(anna: httpx.Client) -> None:
    assert rows(anna, "A/t", limit=60).num_rows == 60
    assert rows(anna, "A/t", limit=100).num_rows == 100


def test_nothing_is_a_stream_too(broker: RunningBroker) -> None:
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=60) as api:
        found = rows(api, "A/empty", columns="body")
        assert (found.num_rows, found.column_names) == (0, ["body"])


def test_head_has_no_body(anna: httpx.Client) -> None:
    answer = anna.head("/api/rows/A/own")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["x-headrace-offsets"] == "50"


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("B/own", {}, 401),
        ("B/t", {}, 401),
        ("A/hidden", {"kind": "queue"}, 401),
        ("A/hidden", {"kind": "topic"}, 401),
        ("A/hidden?kind=queue&name=own", {}, 401),
        ("A/own%2F..%2F..%2FB%2Fown", {}, 404),
        ("A/own/../../B/own", {}, 401),
        ("B%2Fown", {}, 404),
        ("%2F/own", {}, 401),
        ("C/own", {}, 404),
        ("A/", {}, 404),
        ("A", {}, 404),
        ("A/nothing", {}, 404),
        ("A/nothing", {"kind": "queue"}, 401),
        ("A/own", {"kind": "topic"}, 401),
        ("A/both", {}, 400),
        ("A/own", {"kind": "exchange"}, 400),
        ("A/own", {"start": -1}, 400),
        ("A/own", {"end": "ten"}, 400),
        ("A/own", {"start": 1.5}, 400),
        ("A/own", {"limit": 0}, 400),
        ("A/own", {"limit": -1}, 400),
        ("A/own", {"limit": 10**40}, 400),
        ("A/own", {"start": "\u0661"}, 400),
        ("A/own", {"partition": 1}, 404),
        ("A/own", {"partition": "x"}, 400),
        ("A/own", {"columns": "body,secret"}, 400),
        ("A/own", {"columns": ","}, 400),
        ("A/%00", {}, 404),
        ("A/%FF", {}, 404),
        ("A/" + "x" * 300, {}, 404),
    ],
    ids=str,
)
def test_everything_else_is_refused(
    anna: httpx.Client, path: str, query: dict[str, Any], status: int
) -> None:
    answer = anna.get(f"/api/rows/{path}", params=query or None)
    assert answer.status_code == status, answer.text
    assert answer.json()["reason"]
    assert SECRET not in answer.content


def test_users_without_a_login_or_a_tag_get_nothing(broker: RunningBroker) -> None:
    path = f"{broker.http_url}/api/rows/B/own"
    assert httpx.get(path).status_code == 401
    assert httpx.get(path, auth=("guest", "wrong")).status_code == 401


def test_other_methods_are_refused(anna: httpx.Client) -> None:
    assert anna.post("/api/rows/A/own", json={}).status_code == 405


def test_a_queue_that_is_not_durable_has_no_rows(broker: RunningBroker) -> None:
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=60) as api:
        answer = api.get("/api/rows/A/passing")
        assert (answer.status_code, "not durable" in answer.text) == (400, True)


def test_a_permission_that_is_lost_ends_the_stream(tmp_path: Path) -> None:
    """And the connection with it: the reader must not take the rest for the end."""
    with run_broker(data_dir=tmp_path) as broker:
        with BulkConnection(Settings(port=broker.native_port)) as bulk:
            bulk.call(Op.TOPIC_DECLARE, name="large", queues=1)
            for _ in range(40):
                bulk.call(Op.APPEND, topic="large", batch=[{"body": bytes(1 << 20)}])
        with (
            httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=60) as api,
            api.stream("GET", "/api/rows/%2F/large") as answer,
        ):
            parts = answer.iter_raw()
            next(parts)
            api.delete("/api/topics/%2F/large").raise_for_status()
            seen = 0
            try:
                seen = sum(map(len, parts))
            except httpx.RemoteProtocolError:
                return
            assert seen > 39 << 20, "all, or an error"


def test_a_reader_that_hangs_up_ends_its_fetch(tmp_path: Path) -> None:
    with run_broker(data_dir=tmp_path) as broker:
        with BulkConnection(Settings(port=broker.native_port)) as bulk:
            bulk.call(Op.TOPIC_DECLARE, name="large", queues=1)
            for _ in range(30):
                bulk.call(Op.APPEND, topic="large", batch=[{"body": bytes(1 << 20)}])
        for _ in range(40):  # more than there may be at once
            with httpx.stream(
                "GET", f"{broker.http_url}/api/rows/%2F/large", auth=("guest", "guest"), timeout=60
            ) as answer:
                assert answer.status_code == 200
                next(answer.iter_raw())
        with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=60) as api:
            assert rows(api, "%2F/large", limit=1).num_rows == 1
