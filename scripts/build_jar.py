"""Build the companion wheel with the jar for Spark into dist/.

    scripts/build_jar.py [--install]

The wheel places one jar into pyspark's folder of jars, where Spark finds it. It needs javac; where
that is missing the wheel has no jar, and Spark reads with the Python source. With CI set that is an
error.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

TOP = Path(__file__).parents[1]
SOURCES = TOP / "spark-jvm" / "src"
SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same sources give the same bytes


def version() -> str:
    text = (TOP / "src" / "headrace" / "__init__.py").read_text()
    found = re.search(r'^__version__ = "(.+)"', text, re.MULTILINE)
    assert found is not None
    return found[1]


def compiled(classes: Path) -> bool:
    """Compile the sources; False without javac or without the jars of pyspark."""
    spark = find_spec("pyspark")
    missing = [
        name
        for name, found in (("javac", shutil.which("javac")), ("pyspark", spark))
        if found is None
    ]
    if missing:
        print(f"jar: no {' and no '.join(missing)}: Spark reads with the Python source")
        if os.environ.get("CI"):
            sys.exit("jar: with CI set the jar must be built: install openjdk-17-jdk-headless")
        return False
    assert spark is not None and spark.origin is not None
    jars = Path(spark.origin).parent / "jars"
    command = [
        "javac",
        "--release",
        "17",
        "-Xlint:all,-processing,-classfile,-serial,-path",
        "-Werror",
    ]
    command += ["-implicit:none", "-proc:none", "-cp", f"{jars}/*", "-d", str(classes)]
    if subprocess.run([*command, *map(str, sorted(SOURCES.rglob("*.java")))]).returncode:
        sys.exit("jar: the sources do not compile, see above")
    return True


def write_zip(path: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in files.items():
            out.writestr(zipfile.ZipInfo(name, EPOCH), data, zipfile.ZIP_DEFLATED)


def jar_of(classes: Path, number: str) -> dict[str, bytes]:
    return {
        "META-INF/MANIFEST.MF": f"Manifest-Version: 1.0\nHeadrace-Version: {number}\n\n".encode(),
        SERVICE: b"headrace.spark.HeadraceProvider\n",
        **{
            str(one.relative_to(classes)): one.read_bytes()
            for one in sorted(classes.rglob("*.class"))
        },
    }


def build() -> Path:
    number = version()
    name = f"headrace_spark_jar-{number}"
    files: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as folder:
        classes = Path(folder) / "classes"
        if compiled(classes):
            jar = Path(folder) / "jar"
            write_zip(jar, jar_of(classes, number))
            files[f"pyspark/jars/headrace-spark-{number}.jar"] = jar.read_bytes()
    metadata = [
        "Metadata-Version: 2.1",
        "Name: headrace-spark-jar",
        f"Version: {number}",
        "Summary: The data source of Headrace for Spark, as a jar in pyspark's folder of jars",
        "License: Apache-2.0",
        "Requires-Python: >=3.11",
        "Requires-Dist: pyspark>=4.2",
    ]
    files[f"{name}.dist-info/METADATA"] = "\n".join([*metadata, ""]).encode()
    files[f"{name}.dist-info/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: headrace\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    record = [f"{path},sha256={_digest(data)},{len(data)}" for path, data in files.items()]
    record.append(f"{name}.dist-info/RECORD,,")
    files[f"{name}.dist-info/RECORD"] = "\n".join([*record, ""]).encode()
    wheel = TOP / "dist" / f"{name}-py3-none-any.whl"
    wheel.parent.mkdir(exist_ok=True)
    write_zip(wheel, files)
    return wheel


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    made = build()
    if "--install" in sys.argv:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", "--force-reinstall", str(made)], check=True)
