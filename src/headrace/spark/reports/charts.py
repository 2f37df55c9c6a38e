"""Lines over time as SVG, without a library. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from html import escape

from headrace.spark.reports.model import Chart

WIDTH, HEIGHT = 760, 240
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 14, 30
# Distinguishable also for colour-blind readers.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#666666")


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
