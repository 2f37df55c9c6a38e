"""Headrace for Spark: every queue and topic as a table and a stream, results back as messages.

    spark.read.format("headrace").option("queue", "orders").load()

The format is found without registration wherever the package is installed.
"""

from headrace.spark.batches import batches_into
from headrace.spark.source import HeadraceSource, register

__all__ = ["HeadraceSource", "batches_into", "register"]
