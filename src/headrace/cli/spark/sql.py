"""`headrace sql`: SQL queries over the archive and the running broker."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.cli.support.broker_options import broker_options
from headrace.cli.support.options import flag, number_option
from headrace.cli.support.output import DONE, Column, json_option, progress_bar, show, wants_json
from headrace.cli.support.spark_session import (
    SessionSettings,
    lake_option,
    open_session,
    spark_options,
    url_of,
)
from headrace.client.settings import Settings


@click.command(short_help="Query an archive, and a running broker, with SQL.")
@click.argument("query", required=False)
@lake_option
@flag("--live", "Queues and topics of the running broker too, as live.NAME.")
@number_option("--limit", 1000, 1, "Maximum number of rows.")
@json_option
@spark_options
@broker_options
def sql(
    address: Settings,
    query: str | None,
    lake: Path,
    live: bool,
    limit: int,
    session: SessionSettings,
) -> int:
    """Run QUERY over the archive in --lake; without QUERY, list the tables.

    Every archived queue and topic is a table with its name; `messages` has all of them. With
    --live, those of the broker are tables too, with what they have now.
    """
    from headrace.spark.archive.sql_tables import attach, has_archive, offer, sources_of
    from headrace.spark.archive.sql_tables import query as ask
    from headrace.spark.row_output import show_rows

    is_archived = not live or has_archive(lake)
    counts = sources_of(lake) if is_archived else {}
    if query is None and not live:
        rows = [{"table": name, "messages": count} for name, count in counts.items()]
        columns = [Column("table", "table"), Column("messages", "messages", is_number=True)]
        return show(columns, rows, nothing="the archive is empty")
    with open_session("sql", session, broker=address if live else None) as spark:
        with progress_bar("querying"):
            names = offer(spark, lake) if is_archived else []
            names += attach(spark, url_of(address)) if live else []
            if query is None:
                rows = [{"table": name} for name in names]
                return show([Column("table", "table")], rows, nothing="there are no tables")
            answer = ask(spark, query, names)
            found = answer.limit(limit + 1).collect()
        show_rows(
            answer.columns, found[:limit], more=len(found) > limit, as_json=wants_json() or None
        )
    return DONE
