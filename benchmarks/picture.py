"""The table as one picture: for each workload a bar of each contestant, as speed against the limit.

A bar is as long as limit / time, so 1 is the machine's limit; where there is no limit to speak of,
the fastest is 1, and the name has a star. It is SVG text, written here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from .frameworks import FRAMEWORKS, OURS, framework_of
from .table import KEYS

COLOURS = {
    OURS: "#c0392b",
    "torch": "#e59866",
    "numpy": "#5d8aa8",
    "jax": "#7d6b9e",
    "tinygrad": "#8a9a5b",
}
BAR, GAP = 9, 8  # heights
NAMES, WIDTH, NUMBERS = 170, 620, 130  # of the columns
MOST = 1.2  # where the axis ends: caches can make a bar pass the limit
TOP, BOTTOM = 64, 16
TEXT = 'font-family="sans-serif" font-size="11"'


class Bar(NamedTuple):
    contestant: str
    length: float  # 1 is the limit
    label: str


def bars(made: Mapping[str, Any], clock: str = "wall") -> list[Bar]:
    """Of one row of the table, ours first."""
    names = sorted(
        (c for c in made if framework_of(c) in FRAMEWORKS),
        key=lambda c: list(FRAMEWORKS).index(framework_of(c)),
    )
    times = {c: float(made[c][KEYS[clock]]) for c in names}
    unit = made.get("limit_ms") or min(times.values(), default=0.0)
    return [Bar(c, unit / t, f"{c.replace('_', ' ')} {_shown(t)} ms") for c, t in times.items()]


def _shown(number: float) -> str:
    return f"{number:.3g}" if number < 1000 else f"{number:.0f}"


def picture(rows: Mapping[str, Mapping[str, Any]], title: str, clock: str = "wall") -> str:
    """An SVG document of all rows that have a time."""
    groups = {
        name if "limit_ms" in made else f"{name} *": some
        for name, made in rows.items()
        if (some := bars(made, clock))
    }
    shown = list(dict.fromkeys(framework_of(b.contestant) for g in groups.values() for b in g))
    height = TOP + BOTTOM + sum(len(g) * BAR + GAP for g in groups.values())
    width = NAMES + WIDTH + NUMBERS
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="8" y="18" {TEXT} font-weight="bold">{escape(title)}</text>',
        *_legend(shown),
        *_axis(height),
    ]
    y = TOP
    for name, group in groups.items():
        parts += _group(name, group, y)
        y += len(group) * BAR + GAP
    return "\n".join((*parts, "</svg>\n"))


def _place(length: float) -> float:
    return NAMES + WIDTH * min(length, MOST) / MOST


def _legend(names: Sequence[str]) -> list[str]:
    parts = []
    for i, name in enumerate(names):
        x = 8 + 90 * i
        parts.append(f'<rect x="{x}" y="27" width="10" height="10" fill="{COLOURS[name]}"/>')
        parts.append(f'<text x="{x + 15}" y="36" {TEXT}>{escape(name)}</text>')
    return parts


def _axis(height: int) -> list[str]:
    parts = []
    for percent in (0, 25, 50, 75, 100):
        x = _place(percent / 100)
        dash = "" if percent == 100 else ' stroke-dasharray="2 3"'
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{height - BOTTOM}" '
            f'stroke="#999"{dash}/>'
        )
        label = "limit" if percent == 100 else f"{percent} %"
        parts.append(f'<text x="{x:.1f}" y="{TOP - 10}" {TEXT} text-anchor="middle">{label}</text>')
    return parts


def _group(name: str, group: Sequence[Bar], y: int) -> list[str]:
    middle = y + len(group) * BAR / 2 + 4
    parts = [f'<text x="{NAMES - 8}" y="{middle}" {TEXT} text-anchor="end">{escape(name)}</text>']
    for i, bar in enumerate(group):
        top, end = y + i * BAR, _place(bar.length)
        colour = COLOURS[framework_of(bar.contestant)]
        parts.append(
            f'<rect x="{NAMES}" y="{top}" width="{end - NAMES:.1f}" height="{BAR - 1}" '
            f'fill="{colour}"><title>{escape(f"{name}: {bar.label}")}</title></rect>'
        )
        parts.append(
            f'<text x="{end + 4:.1f}" y="{top + BAR - 2}" font-family="sans-serif" '
            f'font-size="8" fill="#444">{escape(bar.label)}</text>'
        )
    return parts
