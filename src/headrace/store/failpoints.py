"""Named moments at which a test can make the broker die; they do nothing unless asked.

`HEADRACE_FAILPOINT=checkpoint.renamed` kills the process (SIGKILL) at the first passage,
`HEADRACE_FAILPOINT=checkpoint.renamed:3` at the third.
"""

from __future__ import annotations

import os
import signal

NAMES = (
    "segment.create",
    "segment.created",
    "journal.write",
    "journal.written",
    "journal.synced",
    "journal.roll",
    "index.written",
    "checkpoint.write",
    "checkpoint.written",
    "checkpoint.synced",
    "checkpoint.renamed",
    "checkpoint.done",
    "segment.remove",
    "segment.removed",
    "compaction.begin",
    "compaction.copied",
    "compaction.synced",
    "compaction.swapped",
    "recovery.cut",
    "metadata.migrate",
    "metadata.migrated",
    "metadata.commit",
    "metadata.committed",
    "close.synced",
)

_wanted, _, _passage = os.environ.get("HEADRACE_FAILPOINT", "").partition(":")
_left = int(_passage or 1)


def failpoint(name: str) -> None:
    """The program is at the moment ``name``."""
    global _left
    if _wanted == name:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
