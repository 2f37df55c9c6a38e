"""What the Spark side refuses, in one line each."""

from __future__ import annotations


class SparkError(Exception):
    """Base of everything the Spark side raises on purpose."""


class BadOption(SparkError):
    """An option is missing, unknown or cannot be used; nothing was read or written."""


class SourceChanged(SparkError):
    """A queue or topic was deleted, or made again under the same name: the checkpoint speaks of
    messages that are gone."""


class CheckpointLost(SparkError):
    """A query begins anew under a name whose messages are held for an earlier run: its checkpoint
    is gone, and nobody can tell what was read already."""


class DataLost(SparkError):
    """Messages that had to be read were removed by retention or acknowledged without a pin."""


class SparkMissing(SparkError):
    """Java is missing or too old, or Spark did not start; the text says what to install."""


class BadPipeline(SparkError):
    """A pipeline file cannot be used; the text begins with file and line. Nothing was run."""


class PipelineFailed(SparkError):
    """A query of a pipeline ended with an error. What it had committed stays; a restart goes on."""


class SinkRefused(SparkError):
    """A sink cannot take the rows: a table with other columns, or a key that is missing."""


class LakeError(SparkError):
    """A lake is missing, is of another kind, or is written by somebody else at this moment."""
