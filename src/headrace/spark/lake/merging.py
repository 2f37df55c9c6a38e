"""Rows that replace others of the same key in a Delta table."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction


def merge(table: DeltaTable, rows: pa.Table, keys: Sequence[str], app: str, version: int) -> None:
    """One commit: the last row of each key counts. Meant for results, which are small."""
    if not rows.num_rows:
        return
    same = " AND ".join(
        f"(t.`{key}` = s.`{key}` OR (t.`{key}` IS NULL AND s.`{key}` IS NULL))" for key in keys
    )
    properties = CommitProperties(app_transactions=[Transaction(app, version)])
    merger = table.merge(
        rows, same, source_alias="s", target_alias="t", commit_properties=properties
    )
    merger.when_matched_update_all().when_not_matched_insert_all().execute()
