"""A report as one HTML file: no script, nothing loaded from elsewhere. Pure."""

from __future__ import annotations

from decimal import Decimal
from html import escape

from headrace.spark.reports.charts import COLOURS, svg
from headrace.spark.reports.model import Chart, Report, ReportTable
from headrace.spark.row_output import cell

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 860px; margin: 2rem auto; padding: 0 1rem; }
h2 { margin: 2rem 0 .3rem; font-size: 1.15rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid #8884; }
th { font-weight: 600; } td.n, th.n { text-align: right; }
p { margin: .3rem 0; } .note { opacity: .75; font-size: .9rem; }
svg { width: 100%; height: auto; } svg text { font-size: 11px; fill: currentColor; opacity: .8; }
svg .grid { stroke: currentColor; opacity: .15; } svg polyline { stroke-width: 1.8; }
.key span { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 .9em; }
"""


def page(report: Report) -> str:
    """The whole file."""
    period = f"{report.since:%Y-%m-%d %H:%M:%S} to {report.until:%Y-%m-%d %H:%M:%S} UTC"
    body = [
        f"<p>{period}, in steps of {escape(report.window)}.</p>",
        *(f'<p class="note">{escape(note)}</p>' for note in report.notes),
        *(_chart(chart, report) for chart in report.charts if chart.lines),
        *map(_table, report.tables),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Headrace report</title><style>{_STYLE}</style></head>"
        f"<body><h1>Headrace report</h1>\n{chr(10).join(body)}\n</body></html>\n"
    )


def _chart(chart: Chart, report: Report) -> str:
    names = "".join(
        f'<span style="background:{COLOURS[number % len(COLOURS)]}"></span>{escape(name)}'
        for number, name in enumerate(chart.lines)
    )
    picture = svg(chart, report.since, report.until)
    title = escape(f"{chart.title} ({chart.unit})")
    return f'<h2>{title}</h2>\n<p class="key">{names}</p>\n{picture}'


def _table(table: ReportTable) -> str:
    numeric = [
        any(isinstance(row[number], int | float | Decimal) for row in table.rows)
        for number in range(len(table.columns))
    ]
    head = "".join(
        _cell("th", name, is_n) for name, is_n in zip(table.columns, numeric, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(_cell("td", value, is_n) for value, is_n in zip(row, numeric, strict=True))
        + "</tr>\n"
        for row in table.rows
    )
    note = f'<p class="note">{escape(table.note)}</p>\n' if table.note else ""
    empty = "" if table.rows else '<p class="note">Nothing in this period.</p>'
    return f"<h2>{escape(table.title)}</h2>\n{note}<table><tr>{head}</tr>\n{rows}</table>{empty}"


def _cell(tag: str, value: object, is_number: bool) -> str:
    kind = ' class="n"' if is_number else ""
    return f"<{tag}{kind}>{escape(cell(value))}</{tag}>"
