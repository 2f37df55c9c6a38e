"""Pipelines as files: sources, steps in SQL or Python, sinks; run with `headrace pipeline run`."""
