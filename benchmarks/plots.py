"""Drawings of what was measured: SVG, made of a few lines."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from benchmarks.experiment import P50, P99, Role
from benchmarks.tables import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.experiment import Figure
    from benchmarks.results import Contender, Measured

_WIDTH = 760
_LEFT = 330
_RIGHT = 60
_LINE = 22
_COLOURS = {
    Role.OURS: "#3f51b5",
    Role.BEFORE: "#9fa8da",
    Role.FLOOR: "#9e9e9e",
    Role.PEER: "#ef6c00",
}


@dataclass(frozen=True, kw_only=True)
class Span:
    """A line of a plot: from one number to a larger one, both in one unit."""

    name: str
    role: Role
    low: float
    high: float


class Even:
    """An axis from zero on, on which equal differences take the same space."""

    def __init__(self, spans: Sequence[Span]) -> None:
        most = max(each.high for each in spans)
        self._step = 10.0 ** math.floor(math.log10(most))
        self._end = math.ceil(most / self._step) * self._step

    def at(self, value: float) -> float:
        """Where a value is, as a share of the axis."""
        return value / self._end

    def marks(self) -> Sequence[float]:
        """The values that are written below it."""
        return [n * self._step for n in range(round(self._end / self._step) + 1)]


class Powers:
    """An axis on which each power of ten takes the same space."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._low = math.floor(min(math.log10(each.low) for each in spans))
        self._high = math.ceil(max(math.log10(each.high) for each in spans))

    def at(self, value: float) -> float:
        """Where a value is, as a share of the axis."""
        return (math.log10(value) - self._low) / max(1, self._high - self._low)

    def marks(self) -> Sequence[float]:
        """The values that are written below it."""
        return [10.0**power for power in range(self._low, self._high + 1)]


def lateness(all_measured: Sequence[Measured]) -> str:
    """How late handlers are called: from the median to the 99th percentile."""
    spans = [
        Span(
            name=f"{each.name} {measured.title.removeprefix('lateness ')}",
            role=each.role,
            low=_median(measured, each, P50),
            high=_median(measured, each, P99),
        )
        for measured in all_measured
        if measured.noun == "lateness" and P99 in measured.figures
        for each in measured.contenders
        if measured.values(each, P99)
    ]
    if not spans:
        return ""
    return _drawn(spans, Powers(spans), "Lateness from p50 to p99, in ms")


def scale(all_measured: Sequence[Measured]) -> str:
    """What a due definition costs among few and among many."""
    spans = [
        Span(
            name=f"{each.name} {_where(measured)}",
            role=each.role,
            low=0,
            high=_median(measured, each, measured.figures[0]),
        )
        for measured in all_measured
        if measured.noun == "scale"
        for each in measured.contenders
        if measured.values(each, measured.figures[0])
    ]
    if not spans:
        return ""
    title = "Time for each definition that is due, in µs"
    return _drawn(spans, Even(spans), title)


def _where(measured: Measured) -> str:
    return measured.title.removeprefix("many definitions ").partition(",")[0]


def _median(measured: Measured, contender: Contender, figure: Figure) -> float:
    return statistics.median(measured.values(contender, figure))


def _drawn(spans: Sequence[Span], axis: Even | Powers, title: str) -> str:
    height = _LINE * (len(spans) + 3)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="8" y="{_LINE - 6}" font-weight="bold">{escape(title)}</text>',
        *(_mark(axis, value, height) for value in axis.marks()),
        *(_bar(axis, each, row) for row, each in enumerate(spans, start=1)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _mark(axis: Even | Powers, value: float, height: int) -> str:
    x = _x(axis, value)
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_LINE}" y2="{height - _LINE}"'
        f' stroke="#ddd"/><text x="{x:.1f}" y="{height - 7}"'
        f' text-anchor="middle">{value:g}</text>'
    )


def _bar(axis: Even | Powers, span: Span, row: int) -> str:
    top, left = _LINE * row + 8, _x(axis, span.low)
    width = max(2.0, _x(axis, span.high) - left)
    return (
        f'<text x="{_LEFT - 8}" y="{top + 11}" text-anchor="end">{escape(span.name)}'
        f'</text><rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="14"'
        f' fill="{_COLOURS[span.role]}"/><text x="{left + width + 5:.1f}"'
        f' y="{top + 11}" font-size="10">{number(span.high)}</text>'
    )


def _x(axis: Even | Powers, value: float) -> float:
    return _LEFT + axis.at(value) * (_WIDTH - _LEFT - _RIGHT)
