"""Lets Spark find the data source by its name: spark.read.format("headrace")."""

from headrace.spark.source import HeadraceSource as DefaultSource

__all__ = ["DefaultSource"]
