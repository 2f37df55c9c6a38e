"""How Spark's Java is started, and what its end is taken for; without one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from headrace.spark import spark_session


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


def test_classes_come_from_an_archive_that_a_short_command_has_recorded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HEADRACE_SPARK_CLASSES", raising=False)
    assert spark_session.class_archive(may_record=True) == ""
    file = tmp_path / "spark.jsa"
    monkeypatch.setenv("HEADRACE_SPARK_CLASSES", str(file))
    assert spark_session.class_archive(may_record=False) == ""
    found = spark_session.class_archive(may_record=True)
    assert found.startswith(f"-XX:ArchiveClassesAtExit={file} ")
    file.touch()
    for may_record in (True, False):
        found = spark_session.class_archive(may_record=may_record)
        assert found.startswith(f"-XX:SharedArchiveFile={file} ")
