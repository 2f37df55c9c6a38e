"""A Celery application whose broker is named by the environment; run by its own Python."""

from __future__ import annotations

import os

from celery import Celery

app = Celery("tasks", broker=os.environ["BROKER_URL"])
