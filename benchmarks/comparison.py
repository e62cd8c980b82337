"""Two checkouts beside each other: figures of this one divided by the other's."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from benchmarks.experiment import Figure, Role
from benchmarks.tables import head, number, times

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.results import Measured

TOLERANCE = 0.03
"""A median that is worse by more than that is listed."""

_ENOUGH = 6
"""Fewer rounds cannot tell a difference from chance."""

_HEADS = ("", "before", "after", "after / before", "95 %", "all rounds", "")


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One figure of both checkouts.

    Attributes:
        name: What it is of, and which it is.
        figure: The figure.
        before: The median of the other checkout.
        after: The median of this one.
        ratios: The second divided by the first within each round, the least first.
    """

    name: str
    figure: Figure
    before: float
    after: float
    ratios: Sequence[float]

    @property
    def ratio(self) -> float:
        """The median of the ratios within a round."""
        return statistics.median(self.ratios)

    @property
    def interval(self) -> tuple[float, float]:
        """The range that has the true median 19 times out of 20, by the sign test.

        Of fewer than six rounds it has all ratios.
        """
        count = len(self.ratios)

        def chance(below: int) -> float:
            """That no more than so many of the ratios are below the true median."""
            cases = sum(math.comb(count, each) for each in range(below + 1))
            return cases / float(2**count)

        few = [each for each in range(count // 2) if chance(each) <= 0.025]
        outside = max(few, default=0)
        return self.ratios[outside], self.ratios[-1 - outside]

    @property
    def verdict(self) -> str:
        """Whether it is better or worse, in words."""
        low, high = self.interval
        if low <= 1 <= high:
            return "within the spread"
        word = "better" if (low > 1) == self.figure.more else "worse"
        return word if len(self.ratios) >= _ENOUGH else f"perhaps {word}"

    @property
    def is_worse(self) -> bool:
        """Whether its median is worse by more than is tolerated."""
        if self.figure.more:
            return self.ratio < 1 - TOLERANCE
        return self.ratio > 1 + TOLERANCE

    def cells(self) -> Sequence[str]:
        """Its row of the table."""
        low, high = self.interval
        return (
            self.name,
            number(self.before),
            number(self.after),
            times(self.ratio),
            f"{number(low)} to {number(high)}",
            f"{number(self.ratios[0])} to {number(self.ratios[-1])}",
            self.verdict,
        )


def comparison(all_measured: Sequence[Measured]) -> str:
    """A table of all figures, and a list of those that are worse or failed."""
    compared = [each for measured in all_measured for each in _compared(measured)]
    failed = [each for measured in all_measured for each in _failed(measured)]
    worse = [
        f"* {each.name}: {times(each.ratio)}, {each.verdict}"
        for each in compared
        if each.is_worse
    ]
    return "\n".join(
        (
            *_aligned([_HEADS, *(each.cells() for each in compared)]),
            "",
            f"Worse than before by more than {TOLERANCE:.0%}:",
            *(failed + worse or ["nothing"]),
        )
    )


def _compared(measured: Measured) -> Iterator[Compared]:
    for after, before in pairwise(measured.contenders):
        if before.role is not Role.BEFORE:
            continue
        several = len(measured.contenders) > 2
        title = f"{measured.title}, {after.name}" if several else measured.title
        for figure in measured.figures:
            pairs = measured.pairs(after, before, figure)
            # Where both are always 0, as what is called early, nothing is to be said.
            if any(map(any, pairs)):
                yield Compared(
                    name=f"{title}: {head(figure)}",
                    figure=figure,
                    before=statistics.median(pair[1] for pair in pairs),
                    after=statistics.median(pair[0] for pair in pairs),
                    ratios=sorted(_ratio(*pair) for pair in pairs),
                )


def _ratio(after: float, before: float) -> float:
    if before:
        return after / before
    return math.inf if after else 1.0


def _failed(measured: Measured) -> Iterator[str]:
    for each in measured.contenders:
        failures = [
            answers[each.name]["failed"]
            for answers in measured.rounds
            if "failed" in answers[each.name]
        ]
        if failures:
            yield (
                f"* {measured.title}, {each.name}: failed in {len(failures)} of"
                f" {len(measured.rounds)} rounds: {failures[0]}"
            )


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table in Markdown, which a terminal shows in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = ["-" * max(3, width) for width in widths]
    for row in (rows[0], rule, *rows[1:]):
        cells = map(str.ljust, row, widths)
        yield f"| {' | '.join(cells)} |"
