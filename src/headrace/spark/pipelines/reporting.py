"""Tells the broker how a pipeline is doing, so that its API and page can show it."""

from __future__ import annotations

import contextlib
import time

from headrace.bulk.client import BulkConnection
from headrace.client.errors import HeadraceError
from headrace.spark.backends.broker import connect
from headrace.spark.errors import SparkError
from headrace.spark.options import DEFAULT_URL
from headrace.spark.pipelines.model import Pipeline
from headrace.spark.pipelines.status import State

EVERY_SECONDS = 2.0


class Reporter:
    """To the broker of the first source; a broker that does not answer is asked again later."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._name = pipeline.name
        urls = [source.options.get("url", DEFAULT_URL) for source in pipeline.sources]
        self._url = next((url for url in urls if url.startswith("headrace")), None)
        self._connection: BulkConnection | None = None
        self._next = 0.0

    def tell(self, state: State, *, now: bool = False) -> None:
        """At most every two seconds, unless it cannot wait."""
        if self._url is None or (not now and time.monotonic() < self._next):
            return
        self._next = time.monotonic() + EVERY_SECONDS
        try:
            if self._connection is None:
                self._connection = connect(self._url)
            self._connection.report_pipeline(self._name, state)
        except (HeadraceError, SparkError, OSError):
            self.close()

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = None
