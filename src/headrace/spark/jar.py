"""The jar of the data source for Spark's JVM: where it is, and whether it fits this package.

Its source is in spark-jvm/; HeadraceCatalog.java there is the catalog of SQL tables.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from headrace import __version__
from headrace.spark.errors import SparkMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX = "headrace-spark-"


def jar() -> Path | None:
    """The installed jar, for `spark.jars` of a Spark that is not pip's; None without it.

    SparkMissing when it is of another version than this package.
    """
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        return None
    found = sorted((Path(spark.origin).parent / "jars").glob(f"{_PREFIX}*.jar"))
    for one in found:
        version = one.stem.removeprefix(_PREFIX)
        if version != __version__:
            raise SparkMissing(
                f"the jar in {one.parent} has version {version}, but headrace is {__version__}: "
                f"pip install headrace-spark-jar=={__version__}"
            )
    return found[0] if found else None


def use(spark: SparkSession) -> None:
    """Add the jar to a running session, classic or Spark Connect, that does not have it."""
    path = jar()
    if path is None:
        return  # the Python source is used
    if hasattr(spark, "addArtifacts") and "connect" in type(spark).__module__:
        spark.addArtifacts(str(path))
    else:
        spark.sql(f"ADD JAR '{path}'")
