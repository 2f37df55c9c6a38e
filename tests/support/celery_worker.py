"""A real Celery worker process for tests, stopped by its own process id."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

APP = '''
import os
import time
from celery import Celery

app = Celery("{prefix}", broker=os.environ["TASK_BROKER"], backend="rpc://")
app.conf.update(
    task_default_queue="{prefix}",
    task_default_exchange="{prefix}",
    task_default_routing_key="{prefix}",
    control_exchange="{prefix}",
    event_exchange="{prefix}.ev",
    event_queue_prefix="{prefix}.ev",
    result_expires=60,
    task_queue_max_priority=10,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    task_routes={{"tasks.elsewhere": {{"queue": "{prefix}.other"}}}},
)


@app.task
def add(x, y):
    return x + y


@app.task(bind=True, max_retries=3)
def flaky(self, path):
    with open(path, "a") as file:
        file.write("x")
    if os.path.getsize(path) < 3:
        raise self.retry(countdown=0.2)
    return self.request.retries


@app.task
def fail():
    raise ValueError("on purpose")


@app.task(bind=True)
def elsewhere(self):
    return self.request.delivery_info["routing_key"]


@app.task
def note(path, word):
    with open(path, "a") as file:
        file.write(word + "\\n")


@app.task
def hold(path):
    """Announces itself, then waits for its gate file."""
    open(path + ".started", "w").close()
    while not os.path.exists(path + ".gate"):
        time.sleep(0.01)


@app.task(acks_late=True, reject_on_worker_lost=True)
def die_once(path):
    """Announces its process and waits for a kill; the second delivery succeeds."""
    if os.path.exists(path):
        return "second"
    with open(path + ".tmp", "w") as file:
        file.write(str(os.getpid()))
    os.rename(path + ".tmp", path)
    while True:
        time.sleep(0.05)
'''


class CeleryWorker:
    """``python -m celery worker`` on the module ``tasks`` in ``directory``."""

    def __init__(self, directory: Path, url: str, prefix: str, node: str) -> None:
        self.node = f"{node}@test"
        (directory / "tasks.py").write_text(APP.format(prefix=prefix))
        self.log = directory / f"{node}.log"
        command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "-P", "solo", "-E",
                   "-n", self.node, "-Q", f"{prefix},{prefix}.other", "-l", "INFO",
                   "--without-gossip", "--without-mingle"]  # fmt: skip
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                cwd=directory,
                env={**os.environ, "TASK_BROKER": url, "PYTHONPATH": str(directory)},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return " ready." in self.log.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.kill()
