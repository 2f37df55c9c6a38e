"""What goes wrong in Spark is reported in one line that says what to do."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from headrace.spark.errors import reason_in


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("org.apache.spark.SparkException: Python worker failed to connect back.\n\tat x",
         "set PYSPARK_PYTHON (or spark.pyspark.python) to the Python that has headrace"),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: headrace. SQLSTATE: 42K02",
         "without headrace: set PYSPARK_PYTHON"),
        ("pyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has "
         "different version: 3.11 than that in driver: 3.12", "on every machine"),
        ("Job aborted due to stage failure: java.lang.OutOfMemoryError: Java heap space\n\tat x",
         "--conf spark.driver.memory=4g"),
        ("java.io.IOException: No space left on device", "set SPARK_LOCAL_DIRS"),
        ("java.net.BindException: Cannot assign requested address: Service 'sparkDriver' failed "
         "after 16 retries", "set SPARK_LOCAL_IP=127.0.0.1"),
        ("org.apache.spark.SparkException: All masters are unresponsive! Giving up.",
         "no Spark master answers"),
        ("java.lang.UnsupportedClassVersionError: org/apache/spark/X", "older than 17"),
    ],
)  # fmt: skip
def test_known_troubles_of_spark_are_one_line_of_advice(text: str, advice: str) -> None:
    found = reason_in(text)
    assert advice in found
    assert "\n" not in found


def test_other_reasons_are_kept() -> None:
    ours = "headrace.spark.errors.DataLost: offsets 1 to 2 are gone"
    assert reason_in(f"{ours}\nNo space left on device") == "offsets 1 to 2 are gone"
    assert reason_in("[TABLE_OR_VIEW_NOT_FOUND] no `x`. SQLSTATE: 42P01") == "no `x`."
