"""A streaming query as a program of its own, to be killed: source -> sink, exactly once.

    python driver.py '{"master": ..., "url": ..., "kind": "queue", "source": ..., "sink": ...}'

``form`` of the sink: topic, or delta.  ``shape``: copy, or counts (a running count per last digit
of the body).  ``mode``: run, or finish.  ``rows_per_task`` decides how many partitions there are.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from support.spark_lab.sessions import new_session

SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    # On a cluster a task that takes a little longer than others is started twice.
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "10ms",
}
COUNTS = "to_json(struct(digit, n)) AS body"


def shaped(rows: Any, shape: str) -> Any:  # noqa: ANN401 - data frames
    if shape == "copy":
        return rows.selectExpr("body", "message_id")
    digits = rows.selectExpr("right(cast(body AS string), 1) AS digit")
    return digits.groupBy("digit").count().withColumnRenamed("count", "n").selectExpr(COUNTS)


def attached(rows: Any, form: str, shape: str, url: str, sink: str) -> Any:  # noqa: ANN401
    if form == "delta":
        from headrace.spark.foreach_batch import into
        from headrace.spark.pipelines.sinks import DeltaSink

        return rows.writeStream.foreachBatch(into(DeltaSink(sink)))
    if shape != "copy":  # Spark lets sinks in Python take appended rows only
        from headrace.spark import batches_into

        return rows.writeStream.foreachBatch(batches_into(url=url, topic=sink))
    return rows.writeStream.format("headrace").option("url", url).option("topic", sink)


def main(told: dict[str, str]) -> None:
    spark = new_session(told["master"], **SETTINGS)
    rows = (
        spark.readStream.format("headrace")
        .option("url", told["url"])
        .option(told["kind"], told["source"])
        .option("maxRowsPerTrigger", "700")
        .option("rowsPerTask", told["rows_per_task"])
        .load()
    )
    copies = told["shape"] == "copy"
    query = (
        attached(
            shaped(rows, told["shape"]), told["form"], told["shape"], told["url"], told["sink"]
        )
        .outputMode("append" if copies else "update")
        .option("checkpointLocation", told["checkpoint"])
        .trigger(
            **(
                {"availableNow": True}
                if told["mode"] == "finish"
                else {"processingTime": "0 seconds"}
            )
        )
        .start()
    )
    sys.stdout.write("started\n")
    sys.stdout.flush()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
