"""Space set aside beside the segments: what acknowledgements have left when the disk is full.

Without it a full disk stays full: segments are freed by acknowledgements, and those have to be
written first.
"""

from __future__ import annotations

import logging

from headrace.store.disk import FULL, NO_DESCRIPTOR, Disk

logger = logging.getLogger(__name__)

NAME = "reserve"


class DiskReserve:
    """One file of ``size`` bytes, there in good times and removed in bad ones."""

    def __init__(self, disk: Disk, size: int) -> None:
        self._disk = disk
        self._size = size

    def set_aside(self) -> bool:
        """See that the space is set aside; False when the disk has too little."""
        try:
            if NAME not in self._disk.names():
                self._disk.create(NAME, self._size).close()
        except OSError as error:
            if error.errno not in (*FULL, *NO_DESCRIPTOR):
                raise
            return False
        return True

    def free(self) -> bool:
        """Free the space; False when there is none any more."""
        try:
            self._disk.remove(NAME)
        except FileNotFoundError:
            return False
        except OSError as error:
            logger.warning("%s cannot be removed: %s", NAME, error)
            return False
        return True
