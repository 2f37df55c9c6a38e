"""The log's writer without its thread: jobs are done when a test says so."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from unittest import mock

from headrace.store.disk import Disk
from headrace.store.log import commit_log as log_module
from headrace.store.log.commit_log import CommitLog
from headrace.store.log.group_commit import CommitJob, LogWriter

Hook = Callable[[CommitJob], None]


class HandWriter(LogWriter):
    """Does a job in work(), and calls back in call_back(): a test can act in between."""

    jobs: deque[CommitJob]
    done: deque[CommitJob]
    on_submit: Hook = staticmethod(lambda job: None)
    on_done: Hook = staticmethod(lambda job: None)

    def start(self) -> None:
        self.jobs = deque()
        self.done = deque()

    def submit(self, job: CommitJob) -> None:
        self.on_submit(job)
        self.jobs.append(job)

    def stop(self, timeout: float | None = None) -> None:
        self._stopping.set()
        while self.work():
            pass

    def work(self) -> bool:
        """Carry out the next job; False when there is none."""
        if not self.jobs:
            return False
        job = self.jobs[0]
        self.execute(job)
        self.jobs.popleft()
        self.done.append(job)
        return True

    def call_back(self) -> bool:
        """Tell the loop of a finished job; False when there is none."""
        if not self.done:
            return False
        job = self.done.popleft()
        self.on_done(job)
        job.then(job)
        return True


def start(log: CommitLog) -> HandWriter:
    """Start a log with a writer by hand."""
    writers: list[HandWriter] = []

    def make(
        disk: Disk,
        call_soon: Callable[[Callable[[], None]], object],
        on_failure: Callable[[Exception], None],
        on_full: Callable[[bool], None],
    ) -> HandWriter:
        writers.append(HandWriter(disk, call_soon, on_failure, on_full))
        return writers[0]

    def fail(error: Exception) -> None:
        raise error

    with mock.patch.object(log_module, "LogWriter", make):
        log.start(lambda call: call(), on_durable=_ignore, on_failure=fail, on_full=_ignore)
    return writers[0]


def _ignore(*_: object) -> None:
    pass


def settle_down(log: CommitLog, writer: HandWriter) -> None:
    """Commit until there is nothing left to do."""
    log.flush()
    while writer.work() or writer.call_back():
        pass
