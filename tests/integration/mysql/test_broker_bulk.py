"""Topics of a broker's database engine, read by offset over the native protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from headrace import topics
from headrace.bulk.client import BulkConnection
from headrace.client.errors import HeadraceError
from headrace.client.settings import settings_of
from headrace.testing import RunningBroker, run_broker
from headrace.wire.native.payloads import Op
from support.mariadb import MariaDb


@pytest.fixture
def broker(server: MariaDb, database: str) -> Iterator[RunningBroker]:
    with run_broker(sync=False, engine=(("db", server.url(database)),)) as broker:
        yield broker


@pytest.fixture
def bulk(broker: RunningBroker) -> Iterator[BulkConnection]:
    url = f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"
    with topics.open(url) as store:
        store.create("orders", engine="db")
        store.create("logged")
        store.producer("orders", token="p").append_many(
            [topics.NewMessage(b"%d" % n, ref_key=f"k{n}", source_ip="10.0.0.7") for n in range(5)]
        )
    with BulkConnection(settings_of(url)) as connection:
        yield connection


def fetched(bulk: BulkConnection, start: int, end: int, uuid: str) -> list[dict[str, object]]:
    wanted = {"topic": "orders", "partition": 0, "uuid": uuid}
    pieces = [piece for piece in bulk.fetch(start, end, **wanted) if piece]
    return pa.ipc.open_stream(b"".join(pieces)).read_all().to_pylist() if pieces else []


def test_ranges_rows_and_pins_of_a_topic_in_a_database(
    bulk: BulkConnection, server: MariaDb, database: str
) -> None:
    with server.connect(database) as other, other.cursor() as cursor:
        insert = "INSERT INTO msg_p_orders_middle (body,token,source_ip) VALUES ('x','o',%s)"
        for address in ("3232235521", "nowhere"):
            cursor.execute("BEGIN")
            cursor.execute(insert, ("rolled back",))
            cursor.execute("ROLLBACK")
            cursor.execute(insert, (address,))
            cursor.execute("COMMIT")
    logged, orders = bulk.sources([{"topic": "orders"}, {"topic": "logged"}])
    assert (logged.name, orders.name, orders.gap) == ("logged", "orders", "")
    assert (orders.ranges[0].first, orders.ranges[0].end) == (1, 10)
    assert orders.priorities == {0: "middle", 1: "high", 2: "low"}
    rows = fetched(bulk, 1, 10, orders.uuid)
    assert bulk.is_sparse
    assert [row["offset"] for row in rows] == [1, 2, 3, 4, 5, 7, 9]
    assert [dict(row["properties"]).get("source_ip") for row in rows[4:]] == [
        "10.0.0.7", "192.168.0.1", None,
    ]  # fmt: skip
    assert fetched(bulk, 6, 7, orders.uuid) == []
    for kind in (Op.LOCATE, Op.RECORDS):
        with pytest.raises(HeadraceError, match="the topic is in a database"):
            bulk.call(kind, start=1, end=10, topic="orders", uuid=orders.uuid, seeds=True)
    with pytest.raises(HeadraceError, match="deleted and created again"):
        fetched(bulk, 1, 10, "another")

    bulk.pin("query", "topic", {"orders": (orders.uuid, {0: 4, 1: 1, 2: 1})}, 1 << 20)
    [pin] = bulk.pins()
    assert (pin.query, pin.name, pin.uuid) == ("query", "orders", orders.uuid)
    assert (pin.positions["0"], pin.messages) == (4, 6)
    with pytest.raises(HeadraceError, match="created again"):
        bulk.pin("query", "topic", {"orders": ("another", {0: 4})}, 1 << 20)
    bulk.unpin("query")
    assert bulk.pins() == []


def test_topics_in_memory_have_no_offsets(bulk: BulkConnection, broker: RunningBroker) -> None:
    url = f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"
    with topics.open(url) as store:
        store.create("volatile", engine="memory")
    with pytest.raises(HeadraceError, match="engine 'memory' cannot be read by offset"):
        bulk.sources([{"topic": "volatile"}])
