"""`headrace sql`: SQL queries over the archive."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.cli.support.broker_options import json_option
from headrace.cli.support.output import DONE, Column, progress_bar, show
from headrace.cli.support.spark_session import (
    SessionSettings,
    ending,
    lake_option,
    open_session,
    spark_options,
    with_session,
)


@click.command(short_help="Query an archive with SQL.")
@click.argument("query", required=False)
@lake_option
@click.option("--limit", type=click.IntRange(min=1), default=1000, show_default=True,
              help="Maximum number of rows.")  # fmt: skip
@json_option
@spark_options
@with_session
def sql(
    query: str | None,
    lake: Path,
    limit: int,
    as_json: bool,
    session: SessionSettings,
) -> int:
    """Run QUERY over the archive in --lake; without QUERY, list the tables.

    Every queue and topic is a table with its name; `messages` has all of them.
    """
    from headrace.spark.archive.sql_tables import offer, sources_of
    from headrace.spark.archive.sql_tables import query as ask
    from headrace.spark.row_output import show_rows

    counts = sources_of(lake)
    if query is None:
        rows = [{"table": name, "messages": count} for name, count in counts.items()]
        columns = [Column("table", "table"), Column("messages", "messages", is_number=True)]
        return show(columns, rows, as_json=as_json, nothing="the archive is empty")
    spark = open_session("sql", session)
    with ending(spark):
        with progress_bar("querying"):
            answer = ask(spark, query, offer(spark, lake))
            found = answer.limit(limit + 1).collect()
        show_rows(answer.columns, found[:limit], more=len(found) > limit, as_json=as_json or None)
    return DONE
