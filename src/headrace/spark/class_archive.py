"""An archive of the classes that Spark loads: Java writes it when it exits, and maps it later."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyspark

VARIABLE = "HEADRACE_SPARK_CLASSES"
_CHECKED = "-XX:+VerifySharedSpaces -Xlog:cds=off -Xlog:cds+dynamic=off "


class ClassArchive(NamedTuple):
    """Java uses the file, or records a part that becomes it, or neither."""

    options: str = ""  # of Java
    file: Path = Path()
    part: Path = Path()

    def finish(self, *, is_whole: bool) -> None:
        """Java has exited. Archives of others go, and parts of commands that were killed."""
        with suppress(OSError):
            if not is_whole:
                self.part.unlink()
                return
            self.part.replace(self.file)
            for other in {*self.file.parent.glob("spark-classes-*")} - {self.file}:
                other.unlink()


def class_archive(java: str, *, may_record: bool) -> ClassArchive:
    """The archive for a Java, known by its version and place; no file without a place for it."""
    chosen, jars = os.environ.get(VARIABLE), Path(pyspark.__file__).parent / "jars"
    with suppress(OSError, RuntimeError):
        key = hashlib.sha256(f"{java} {jars} {jars.stat().st_mtime_ns}".encode()).hexdigest()[:16]
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"
        default = cache / f"spark-classes-{key}.jsa"
        file = default if chosen is None else Path(chosen)
        if file.is_file():
            return ClassArchive(f'-XX:SharedArchiveFile="{file}" {_CHECKED}', file)
        if may_record and chosen != "":
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            part = file.with_suffix(f".{os.getpid()}")
            return ClassArchive(f'-XX:ArchiveClassesAtExit="{part}" {_CHECKED}', file, part)
    return ClassArchive()
