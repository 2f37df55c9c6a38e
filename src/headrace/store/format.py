"""The `format` file of a data directory: its version, and where the whole seed begins to count.

Version 1 seeds the sums of records with the low half of a segment's base, version 2 with all of
it. A directory that began as version 1 keeps its segments, so the file notes from which position on
segments have the whole seed. The number has a sum: with a wrong one no record could be read.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from zlib import crc32

from headrace.errors import StoreError

NAME = "format"
_VERSION_1 = b"headrace 1"
_VERSION_2 = re.compile(rb"(headrace 2\n(\d{1,20}) )([0-9a-f]{8})\n")
_LATER = re.compile(rb"headrace (\d{1,9})\n?")


class DamagedFormat(StoreError):
    """The file is no format of any version: a repair writes it again."""


def read_format(directory: Path) -> int | None:
    """From which position on segments have the whole seed; None in a directory of version 1.

    Raises StoreError for a format that this version does not know, DamagedFormat for none at all.
    """
    try:
        data = (directory / NAME).read_bytes()
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        data = b""  # a bad sector: a new file takes its place
    if data.strip() == _VERSION_1:
        return None
    found = _VERSION_2.fullmatch(data)
    if found is not None and b"%08x" % crc32(found[1]) == found[3]:
        return int(found[2])
    later = _LATER.fullmatch(data)
    if later is not None and int(later[1]) > 2:
        raise StoreError(
            f"{directory} has format '{data.decode().strip()}'; this version of Headrace knows "
            "'headrace 1' and 'headrace 2'"
        )
    raise DamagedFormat(
        f"{directory / NAME} is damaged; `headrace fsck {directory} --repair` writes the format "
        "again"
    )


def format_bytes(whole_seed_from: int) -> bytes:
    text = b"headrace 2\n%d " % whole_seed_from
    return b"%s%08x\n" % (text, crc32(text))


def write_format(directory: Path, whole_seed_from: int) -> None:
    """All of it or nothing: on a full disk an empty one would be left, of no known format."""
    new = directory / f"{NAME}.new"
    fd = os.open(new, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, format_bytes(whole_seed_from))
        os.fsync(fd)
    except OSError:
        new.unlink()
        raise
    finally:
        os.close(fd)
    new.rename(directory / NAME)
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
