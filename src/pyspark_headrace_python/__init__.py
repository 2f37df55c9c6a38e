"""The Python source under a name of its own: spark.read.format("headrace-python").

The jar takes the name `headrace`, and hands over under this one what it does not read itself.
"""

from headrace.spark.source import PythonSource as DefaultSource

__all__ = ["DefaultSource"]
