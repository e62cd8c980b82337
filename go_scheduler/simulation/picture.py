"""A simulation as a picture: SVG, made without a library."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from go_scheduler.formatting import safe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from go_scheduler.simulation.simulating import Simulated, Simulation

MOST_ROWS = 40
"""The most rows. The definitions with the most starts are drawn."""
COLUMNS = 720
_LEFT = 190
_ROW = 18
_CHART = 90
_TOP = 34
_TICKS = 7
_LONGEST_LABEL = 26
_STYLE = (
    "text{font:11px sans-serif;fill:#333}.load{fill:#3465a4}.run{fill:#2e7d32}"
    ".change{stroke:#c62828;stroke-dasharray:3 3}.line{stroke:#bbb}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.load{fill:#8ab4f8}"
    ".run{fill:#81c784}.line{stroke:#555}}"
)


def picture(simulation: Simulation) -> str:
    """Draw the load above, and below it a row for each definition.

    Returns:
        An SVG document without scripts, light or dark like the screen of the reader.
    """
    drawn = sorted(simulation.definitions, key=_begun, reverse=True)[:MOST_ROWS]
    height = _TOP + _CHART + _ROW * (len(drawn) + 2)
    title = (
        f"{simulation.fires:,} fires of {len(simulation.definitions):,} definitions,"
        f" {_at(simulation.start)} to {_at(simulation.end)} UTC"
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{_LEFT + COLUMNS}"'
        f' height="{height}" viewBox="0 0 {_LEFT + COLUMNS} {height}"'
        f" aria-label={quoteattr(title)}>",
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<text x="4" y="16">{escape(title)}</text>',
        *_ticks(simulation, height),
        *_load(simulation),
        *(
            line
            for row, each in enumerate(drawn)
            for line in _strip(simulation, each, _TOP + _CHART + _ROW * (row + 1))
        ),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _begun(simulated: Simulated) -> int:
    return len(simulated.starts)


def _column(simulation: Simulation, at: datetime) -> int:
    share = (at - simulation.start) / (simulation.end - simulation.start)
    return min(int(share * COLUMNS), COLUMNS - 1)


def _columns(simulation: Simulation, times: Iterable[datetime]) -> Mapping[int, int]:
    return Counter(_column(simulation, each) for each in times)


def _ticks(simulation: Simulation, height: int) -> Iterator[str]:
    span = simulation.end - simulation.start
    bottom = height - _ROW
    for tick in range(_TICKS):
        x = _LEFT + COLUMNS * tick // _TICKS
        at = simulation.start + span * tick / _TICKS
        yield f'<line class="line" x1="{x}" y1="{_TOP}" x2="{x}" y2="{bottom}"/>'
        yield f'<text x="{x}" y="{height - 5}">{_at(at)}</text>'
    for each in simulation.changes:
        x = _LEFT + _column(simulation, each.at)
        yield (
            f'<line class="change" x1="{x}" y1="{_TOP}" x2="{x}" y2="{bottom}">'
            f"<title>{escape(each.text)}</title></line>"
        )


def _load(simulation: Simulation) -> Iterator[str]:
    starts = [at for each in simulation.definitions for at in each.starts]
    columns = _columns(simulation, starts)
    most = max(columns.values(), default=0)
    yield f'<text x="4" y="{_TOP + 12}">starts, up to {most:,}</text>'
    for column, count in sorted(columns.items()):
        tall = max(1, round(count / most * _CHART))
        yield (
            f'<rect class="load" x="{_LEFT + column}" y="{_TOP + _CHART - tall}"'
            f' width="1" height="{tall}"/>'
        )


def _strip(simulation: Simulation, simulated: Simulated, y: int) -> Iterator[str]:
    definition = simulated.definition
    label = safe(definition.name or str(definition.id)).replace("\n", " ")
    if len(label) > _LONGEST_LABEL:
        label = f"{label[: _LONGEST_LABEL - 1]}…"
    told = f"{definition.id}: {len(simulated.starts):,} of {simulated.fires:,} run"
    yield f'<text x="4" y="{y + 12}">{escape(label)}<title>{told}</title></text>'
    marks = "".join(
        f"M{_LEFT + column} {y + 2}h1v{_ROW - 4}h-1z"
        for column in sorted(_columns(simulation, simulated.starts))
    )
    if marks:
        yield f'<path class="run" d="{marks}"/>'


def _at(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"
