"""A driver for a cluster: a stream from topic to topic, and who has read it.

python cluster_program.py MASTER URL CHECKPOINT WAY
"""

from __future__ import annotations

import os
import sys

from support.spark_lab.sessions import new_session


def main(master: str, url: str, checkpoint: str, way: str) -> None:
    settings = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
    settings["spark.executor.extraJavaOptions"] = f"-Dheadrace.spark.read={way}"
    spark = new_session(master, **settings)
    reading = spark.read.format("headrace").option("url", url).option("topic", "source")
    rows = reading.option("rowsPerTask", "250").load()

    def executor(parts: object) -> list[str]:
        return [os.getcwd()]  # every executor has a directory of its own

    used = sorted(set(rows.rdd.mapPartitions(executor).collect()))
    stream = (
        spark.readStream.format("headrace")
        .option("url", url)
        .option("topic", "source")
        .option("rowsPerTask", "500")
        .load()
        .selectExpr("body", "key")
        .writeStream.format("headrace")
        .option("url", url)
        .option("topic", "sink")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    stream.awaitTermination()
    sys.stdout.write(" ".join(used) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
