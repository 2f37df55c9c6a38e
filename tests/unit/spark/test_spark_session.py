"""How Spark's Java is started, and what its end is taken for; without one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark import SparkConf
from pyspark.errors import PySparkRuntimeError

from headrace.spark import spark_session
from headrace.spark.class_archive import ClassArchive


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (3, "ran out of memory"),  # the option that ends it
        (52, "ran out of memory"),  # Spark's own handler, where a thread dies of it
        (-9, "was killed"),
        (1, "exited with code 1"),
    ],
)
def test_the_end_of_java_is_explained(
    monkeypatch: pytest.MonkeyPatch, code: int, text: str
) -> None:
    process: Any = SimpleNamespace(wait=lambda patience: code)
    monkeypatch.setattr(spark_session, "_java", lambda: process)
    assert text in spark_session.java_exit_reason()


def test_options_of_the_user_do_not_keep_a_full_heap_from_ending_java() -> None:
    key = "spark.driver.defaultJavaOptions"
    assert spark_session.settings_of(None)[key] == spark_session.JAVA_OPTIONS
    assert (
        spark_session.settings_of(None, {key: "-Dx=1"})[key]
        == f"{spark_session.JAVA_OPTIONS} -Dx=1"
    )


def test_a_java_that_does_not_start_with_an_archive_is_started_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key, tried = "spark.driver.defaultJavaOptions", []

    def launch(settings: SparkConf, more: object) -> None:
        tried.append(settings.get(key))
        if "-XX:" in (tried[-1] or ""):
            raise PySparkRuntimeError("Java gateway process exited before sending its port number.")
        raise KeyboardInterrupt

    monkeypatch.setattr(spark_session, "launch_gateway", launch)
    monkeypatch.setattr(spark_session.SparkContext, "_gateway", None)
    settings = SparkConf(loadDefaults=False).set(key, "-Dx=1")
    with pytest.raises(KeyboardInterrupt):
        spark_session.start_java(settings, ClassArchive("-XX:Archive "))
    assert tried == ["-XX:Archive -Dx=1", "-Dx=1"]
