"""A report as one HTML file: no script, nothing loaded from elsewhere, lines as SVG. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from html import escape

from headrace.spark.reports.model import Chart, Report, ReportTable
from headrace.spark.row_output import cell

WIDTH, HEIGHT = 760, 240
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 14, 30
# Distinguishable also for colour-blind readers.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#666666")
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


# -- charts ----------------------------------------------------------------------------------------


def svg(chart: Chart, since: datetime, until: datetime) -> str:
    """The picture, to be put into a page."""
    highest = max((value for line in chart.lines.values() for _, value in line), default=0.0)
    top = nice(highest)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(chart.title)}">',
        *_grid(top),
        *_times(since, until),
    ]
    for number, (name, line) in enumerate(chart.lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = [(_x(at, since, until), _y(value, top)) for at, value in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        title = f"<title>{escape(name)}</title>"
        parts.append(f'<polyline points="{path}" stroke="{colour}" fill="none">{title}</polyline>')
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{colour}">'
            f"<title>{escape(name)}: {value:,.2f} {escape(chart.unit)}, {at:%Y-%m-%d %H:%M:%S}"
            "</title></circle>"
            for (x, y), (at, value) in zip(points, line, strict=True)
        ]
    return "".join([*parts, "</svg>"])


def nice(highest: float) -> float:
    """The end of the scale: 1, 2 or 5 times a power of ten, at least the highest value."""
    step = 1e-6
    while True:
        for factor in (1, 2, 5):
            if step * factor >= highest:
                return step * factor
        step *= 10


def _x(at: datetime, since: datetime, until: datetime) -> float:
    period = max((until - since).total_seconds(), 1e-9)
    share = (at.replace(tzinfo=since.tzinfo) - since).total_seconds() / period
    return LEFT + min(max(share, 0.0), 1.0) * (WIDTH - LEFT - RIGHT)


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)


def _grid(top: float) -> Iterator[str]:
    for quarter in range(5):
        value = top * quarter / 4
        y = _y(value, top)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:,.6g}</text>'


def _times(since: datetime, until: datetime) -> Iterator[str]:
    shape = "%H:%M:%S" if (until - since).total_seconds() < 172_800 else "%Y-%m-%d"
    for part in range(5):
        at = since + (until - since) * part / 4
        anchor = "start" if part == 0 else "end" if part == 4 else "middle"
        x = LEFT + (WIDTH - LEFT - RIGHT) * part / 4
        yield f'<text x="{x:.1f}" y="{HEIGHT - 10}" text-anchor="{anchor}">{at:{shape}}</text>'
