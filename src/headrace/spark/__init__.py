"""Headrace for Spark: every queue and topic as a table and a stream, results back as messages.

    spark.read.format("headrace").option("queue", "orders").load()

The format is found without registration wherever the package is installed.
"""

try:
    from headrace.spark.foreach_batch import batches_into
    from headrace.spark.jar import jar, use
    from headrace.spark.source import HeadraceSource, register
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"headrace.spark needs {error.name}, which is not installed: pip install 'headrace[spark]'",
        name=error.name,
    ) from None

__all__ = ["HeadraceSource", "batches_into", "jar", "register", "use"]
