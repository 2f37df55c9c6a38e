"""A bar chart of the ratios as SVG: one bar per case, a line where both brokers are equal."""

from __future__ import annotations

import math
from xml.sax.saxutils import escape

_WIDTH, _LEFT, _RIGHT = 760, 190, 70
_TOP, _ROW, _BAR, _BOTTOM = 74, 26, 16, 40
_FONT = "font-family='system-ui, Helvetica, Arial, sans-serif'"
_INK, _SOFT, _GRID, _FILL, _BEHIND = "#1f2933", "#616e7c", "#e4e7eb", "#2f6f9f", "#c05746"


def bar_chart(title: str, subtitle: str, ratios: list[tuple[str, float]]) -> str:
    """The whole file. Ratios above 1 are in one colour, below 1 in another."""
    height = _TOP + _ROW * len(ratios) + _BOTTOM
    step = tick_step(max([1.0, *(ratio for _, ratio in ratios)]))
    top = step * math.ceil(max([1.0, *(ratio for _, ratio in ratios)]) / step)
    scale = (_WIDTH - _LEFT - _RIGHT) / top
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {height}' "
        f"width='{_WIDTH}' height='{height}' role='img' {_FONT} font-size='13'>",
        f"<title>{escape(title)}</title>",
        f"<rect width='{_WIDTH}' height='{height}' fill='#ffffff'/>",
        _text(16, 28, title, size=17, weight="600"),
        _text(16, 50, subtitle, color=_SOFT, size=12),
        *_grid(step, top, scale, height),
        *(
            part
            for row, (name, ratio) in enumerate(ratios)
            for part in _bar(row, name, ratio, scale)
        ),
        _even_line(scale, height),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def tick_step(largest: float) -> float:
    """A step of 1, 2 or 5 times a power of ten that gives at most eight ticks."""
    power = 10.0 ** math.floor(math.log10(largest / 8)) if largest > 8 else 0.1
    for factor in (1, 2, 5, 10, 20, 50):
        if largest / (power * factor) <= 8:
            return power * factor
    return power * 100


def _grid(step: float, top: float, scale: float, height: int) -> list[str]:
    parts = []
    for number in range(round(top / step) + 1):
        x = _LEFT + number * step * scale
        end = height - _BOTTOM
        parts.append(f"<path d='M{x:.1f} {_TOP - 6}V{end}' stroke='{_GRID}' fill='none'/>")
        parts.append(
            _text(x, end + 18, f"{number * step:g}", color=_SOFT, size=11, anchor="middle")
        )
    return parts


def _bar(row: int, name: str, ratio: float, scale: float) -> list[str]:
    y = _TOP + row * _ROW
    width = max(1.0, ratio * scale)
    color = _FILL if ratio >= 1 else _BEHIND
    middle = y + _BAR - 3
    return [
        _text(_LEFT - 10, middle, name, anchor="end"),
        f"<rect x='{_LEFT}' y='{y}' width='{width:.1f}' height='{_BAR}' rx='2' fill='{color}'/>",
        _text(_LEFT + width + 6, middle, f"{ratio:.1f}x", weight="600"),
    ]


def _even_line(scale: float, height: int) -> str:
    x = _LEFT + scale
    return (
        f"<path d='M{x:.1f} {_TOP - 6}V{height - _BOTTOM}' stroke='{_INK}' stroke-dasharray='4 3'/>"
    )


def _text(
    x: float,
    y: float,
    text: str,
    *,
    color: str = _INK,
    size: int = 13,
    weight: str = "400",
    anchor: str = "start",
) -> str:
    look = f"fill='{color}' font-size='{size}' font-weight='{weight}' text-anchor='{anchor}'"
    return f"<text x='{x:.1f}' y='{y:.1f}' {look}>{escape(text)}</text>"
