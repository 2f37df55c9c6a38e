"""`headrace report`: throughput, latency, lag, retries, dead letters, routing keys."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from headrace.cli.support.broker_options import PASSWORD_VARIABLE, broker_options
from headrace.cli.support.http_api import URL_VARIABLE, ManagementClient
from headrace.cli.support.output import (
    DONE,
    escaped,
    json_option,
    print_json,
    progress_bar,
    wants_json,
)
from headrace.cli.support.spark_session import SessionSettings, open_session, spark_options, url_of
from headrace.client.settings import Settings
from headrace.errors import ConfigError
from headrace.urls import hosts_of

if TYPE_CHECKING:
    from headrace.spark.reports.model import Report


@click.command(short_help="Throughput, latency, lag, retries, dead letters.")
@click.option("--lake", metavar="DIR", type=click.Path(path_type=Path, file_okay=False),
              help="Read from the archive in DIR. [the messages the broker still has]")  # fmt: skip
@click.option("--from", "since", metavar="TIME", help="Start of the period. [a day before the end]")
@click.option("--to", "until", metavar="TIME", help="End of the period. [now]")
@click.option("--window", metavar="TIME", help="Width of a step, '5 minutes'. [fits the period]")
@click.option("--html", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
              help="Write a page with tables and charts.")  # fmt: skip
@click.option("--keep-as", metavar="NAME",
              help="Store it in the broker as NAME, for the management page.")  # fmt: skip
@click.option("--http-url", metavar="URL",
              help=f"HTTP API for --keep-as. [{URL_VARIABLE}, or port 15672 there]")  # fmt: skip
@json_option
@spark_options
@broker_options
def report(
    address: Settings,
    lake: Path | None,
    since: str | None,
    until: str | None,
    window: str | None,
    html: Path | None,
    keep_as: str | None,
    http_url: str | None,
    session: SessionSettings,
) -> int:
    """Report on what went through the broker: per queue, topic and group, and over time.

    The archive has the most data: a queue removes acknowledged messages. Waiting times, retries and
    dead letters need a broker that runs with --events.
    """
    from headrace.spark.replay.request import moment
    from headrace.spark.reports.report import make

    end = moment(until, "--to") if until is not None else datetime.now(UTC)
    begin = moment(since, "--from") if since is not None else end - timedelta(days=1)
    if begin >= end:
        raise ConfigError("--from must be before --to")
    needed = address if lake is None else None
    with open_session("report", session, broker=needed) as spark, progress_bar("calculating"):
        made = make(spark, url_of(address), begin, end, window, lake)
    if wants_json():
        print_json(_as_json(made))
    else:
        _draw(made)
    if keep_as is not None:
        client = management_of(address, http_url, os.environ)
        client.request("PUT", ("reports", address.vhost, keep_as), kept_form(made))
        click.echo(f"kept as {escaped(keep_as)}: it is on the page of {client.where}", err=True)
    if html is not None:
        from headrace.spark.reports.html import page

        html.write_text(page(made), "utf-8")
        click.echo(f"wrote {escaped(str(html))}", err=True)
    return DONE


def management_of(
    address: Settings, url: str | None, environ: Mapping[str, str]
) -> ManagementClient:
    """By default the HTTP API of the same broker, with the same login."""
    [(name, _), *_] = hosts_of(address.host, address.port)
    host = f"[{name}]" if ":" in name else name
    chosen = url or environ.get(URL_VARIABLE)
    if chosen is not None:
        return ManagementClient(chosen, environ.get(PASSWORD_VARIABLE))
    return ManagementClient(f"http://{quote(str(address.user), safe='')}@{host}", address.password)


def _head(made: Report) -> dict[str, object]:
    since, until = made.since.isoformat(), made.until.isoformat()
    return {"from": since, "to": until, "window": made.window, "notes": list(made.notes)}


def kept_form(made: Report) -> dict[str, object]:
    """Body of `PUT /api/reports`."""
    from headrace.spark.row_output import plain

    return {
        **_head(made),
        "tables": [
            {
                "title": table.title,
                "note": table.note,
                "columns": list(table.columns),
                "rows": [[plain(value) for value in row] for row in table.rows],
            }
            for table in made.tables
        ],
        "charts": [
            {
                "title": chart.title,
                "unit": chart.unit,
                "lines": {
                    # Spark's times have no zone; they are in that of the period.
                    name: [[_zoned(at, made.since).isoformat(), float(one)] for at, one in line]
                    for name, line in chart.lines.items()
                },
            }
            for chart in made.charts
        ],
    }


def _zoned(at: datetime, like: datetime) -> datetime:
    return at if at.tzinfo is not None else at.replace(tzinfo=like.tzinfo)


def _draw(made: Report) -> None:
    from headrace.spark.row_output import draw

    click.echo(f"{made.since:%Y-%m-%d %H:%M:%S} to {made.until:%Y-%m-%d %H:%M:%S} UTC")
    for note in made.notes:
        click.echo(note)
    for table in made.tables:
        note = table.note if table.rows else "no messages in this period"
        draw(table.columns, table.rows, title=table.title, note=note or None)


def _as_json(made: Report) -> dict[str, object]:
    from headrace.spark.row_output import plain

    return {
        **_head(made),
        "tables": {
            table.title: [
                dict(zip(table.columns, map(plain, row), strict=True)) for row in table.rows
            ]
            for table in made.tables
        },
        "charts": {
            chart.title: {
                name: [[at.isoformat(), value] for at, value in line]
                for name, line in chart.lines.items()
            }
            for chart in made.charts
        },
    }
