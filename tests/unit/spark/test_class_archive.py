"""Which options Java gets for its archive of classes, and what becomes of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from headrace.spark.class_archive import ClassArchive, class_archive


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.delenv("HEADRACE_SPARK_CLASSES", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/headrace"


def of_java(version: str = "17", *, may_record: bool = True) -> ClassArchive:
    return class_archive(version, may_record=may_record)


def recorded(version: str = "17") -> Path:
    archive = of_java(version)
    archive.part.write_bytes(b"classes")
    archive.part.chmod(0o444)  # as Java leaves it
    archive.finish(is_whole=True)
    return archive.file


def test_one_command_records_and_all_later_ones_use_it(cache: Path) -> None:
    assert of_java(may_record=False) == ClassArchive()
    assert not cache.exists()
    archive = of_java()
    assert archive.options.startswith(f'-XX:ArchiveClassesAtExit="{archive.part}" ')
    file = recorded()
    assert list(cache.iterdir()) == [file]
    for may_record in (True, False):
        found = of_java(may_record=may_record)
        assert found.options.startswith(f'-XX:SharedArchiveFile="{file}" ')
        found.finish(is_whole=True)
    assert file.read_bytes() == b"classes"


def test_archives_of_another_java_and_parts_of_killed_commands_go(cache: Path) -> None:
    old = recorded("17")
    old.with_suffix(".123").touch()
    new = recorded("21")
    assert old != new
    assert list(cache.iterdir()) == [new]


def test_what_a_failed_run_has_written_is_not_kept(cache: Path) -> None:
    archive = of_java()
    archive.finish(is_whole=True)  # Java could not write any
    archive.part.write_bytes(b"half")
    archive.finish(is_whole=False)
    assert list(cache.iterdir()) == []


def test_another_file_can_be_named_and_an_empty_name_means_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path
) -> None:
    monkeypatch.setenv("HEADRACE_SPARK_CLASSES", str(tmp_path / "spark.jsa"))
    assert recorded() == tmp_path / "spark.jsa"
    assert "SharedArchiveFile" in of_java("21").options
    monkeypatch.setenv("HEADRACE_SPARK_CLASSES", "")
    assert of_java() == ClassArchive()
    assert not cache.exists()


def test_without_a_place_to_write_commands_start_as_usual(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))  # no folder can be made in it
    assert of_java() == ClassArchive()
    of_java().finish(is_whole=True)
