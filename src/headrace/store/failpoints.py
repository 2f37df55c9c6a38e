"""Named moments at which a test can make the broker die; they do nothing unless asked.

`HEADRACE_FAILPOINT=checkpoint.renamed` kills the process (SIGKILL) at the first passage,
`HEADRACE_FAILPOINT=checkpoint.renamed:3` at the third, and `...:3:STOP` stops it there (SIGSTOP).
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
    "shared.updated",
    "shared.commit",
)

_wanted, *_more = os.environ.get("HEADRACE_FAILPOINT", "").split(":")
_left = int(_more[0]) if _more else 1
_signal = signal.Signals[f"SIG{_more[1]}"] if len(_more) > 1 else signal.SIGKILL


def failpoint(name: str) -> None:
    """The program is at the moment ``name``."""
    global _left
    if _wanted == name:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), _signal)
