"""The data source `headrace`, as Spark finds it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from headrace.spark.options import PATIENCE, ReadOptions, ddl, read_options, write_options
from headrace.spark.reader import BatchReader, FilteringReader, StreamReader
from headrace.spark.selection import selection
from headrace.spark.writer import BatchWriter, StreamWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HeadraceSource(DataSource):
    """spark.read.format("headrace"): queues and topics of a broker or a database."""

    @classmethod
    def name(cls) -> str:
        return "headrace"

    def schema(self) -> str:
        return ddl(read_options(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._read_options()
        return FilteringReader(options) if options.push_filters else BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamReader(replace(self._read_options(), is_stream=True))

    def _read_options(self) -> ReadOptions:
        options = read_options(self.options)
        selection(options)  # refuses now what every task would
        return options

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return BatchWriter(write_options(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return StreamWriter(replace(write_options(self.options), patience=PATIENCE), schema)


class PythonSource(HeadraceSource):
    """The same under the name by which the jar hands reads and writes over."""

    @classmethod
    def name(cls) -> str:
        return "headrace-python"


def register(spark: SparkSession) -> None:
    """For sessions whose Python does not find the package by itself."""
    spark.dataSource.register(HeadraceSource)
    spark.dataSource.register(PythonSource)
