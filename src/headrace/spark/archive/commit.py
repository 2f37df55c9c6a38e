"""Commit of an archive round to the Delta log, exactly once.

How far each partition is archived is part of the commit that adds its rows: no other record of it
exists that could disagree. A round that is repeated after a crash therefore adds nothing twice,
and files without a commit belong to no table.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltalake import DeltaTable

from headrace.spark.archive.round_plan import ArchivePosition
from headrace.spark.lake.delta import WrittenFile, commit


def archived_offset(table: DeltaTable, uuid: str, partition: int) -> int | None:
    """The offset up to which a partition is archived; None when nothing of it is."""
    return table.transaction_version(_application(uuid, partition))


def commit_round(
    table: DeltaTable,
    files: Sequence[WrittenFile],
    before: Sequence[ArchivePosition],
    after: Sequence[ArchivePosition],
) -> None:
    """Add the files and the new positions in one step; LakeError when another writer was faster."""
    versions = {
        _application(new.source.uuid, new.partition): new.start
        for old, new in zip(before, after, strict=True)
        if new.known != old.known
    }
    commit(table, files, versions)


def _application(uuid: str, partition: int) -> str:
    """The name under which the table keeps how far a partition is archived."""
    return f"headrace-archive:{uuid}:{partition}"
