"""A RocketMQ topic as a table and a stream. The broker is ours; Spark sees a RocketMQ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.rocketmq import Message, Producer, ProducerConfig
from headrace.testing import RunningBroker, run_broker

TOPIC = "orders"


def fill(broker: RunningBroker, start: int, count: int) -> None:
    assert broker.namesrv_addr is not None
    config = ProducerConfig(producer_group="p", namesrv_addr=broker.namesrv_addr)
    with Producer(config) as producer:
        messages = [
            Message(TOPIC, b"%d" % n, keys=f"k{n}", tags="AB"[n % 2], properties={"n": str(n)})
            for n in range(start, start + count)
        ]
        for at in range(0, count, 50):
            producer.send_batch(messages[at : at + 50])


def test_a_stream_from_a_rocketmq_topic_has_every_message_once(
    spark: Any,  # noqa: ANN401
    tmp_path: Path,
) -> None:
    with run_broker(sync=False) as broker:
        fill(broker, 0, 300)
        url = f"rocketmq://{broker.namesrv_addr}"
        given = {"url": url, "topic": TOPIC}
        rows = spark.read.format("headrace").options(**given, selector="n >= 290").load().collect()
        assert sorted(int(row.body) for row in rows) == list(range(290, 300))
        assert {(row.key, row.tags) for row in rows if row.body == b"291"} == {("k291", "B")}

        def run() -> None:
            stream = spark.readStream.format("headrace").options(**given, maxRowsPerTrigger="120")
            query = (
                stream.load()
                .selectExpr("source", "partition", "offset", "CAST(body AS STRING) AS body")
                .writeStream.format("parquet")
                .option("path", str(tmp_path / "rows"))
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()

        run()
        fill(broker, 300, 100)
        run()
        found = spark.read.parquet(str(tmp_path / "rows")).collect()
        assert sorted(int(row.body) for row in found) == list(range(400))
        assert len({(row.source, row.partition, row.offset) for row in found}) == 400
        assert {row.source for row in found} == {f"{TOPIC}@headrace"}
