"""How `make test` spreads the tests over worker processes (pytest-xdist)."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

HEAVY = {"browser": 1, "spark": 2}
"""Folders of tests that start a browser or a JVM, in the order in which they run."""


class FileScheduling(LoadFileScheduling):
    """One worker runs all tests of a file, and one worker runs everything that is heavy.

    A browser and a JVM in each of four workers would need more memory than a laptop has. The heavy
    tests take longest, so they start first; their worker runs nothing else afterwards, because the
    threads and sockets that Spark leaves would disturb tests that count those of their process.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "heavy" if file.split("/")[1] in HEAVY else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        if "heavy" in self.workqueue:
            self.workqueue.move_to_end("heavy", last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        if "heavy" in self.assigned_work[node] and len(self.nodes) > 1:
            if not node.shutting_down:
                node.shutdown()  # as soon as it has run what it has
            return
        super()._reschedule(node)
