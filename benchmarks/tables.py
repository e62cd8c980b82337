"""Tables of what was measured, in Markdown, which a terminal shows as well."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from benchmarks.experiment import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.experiment import Figure
    from benchmarks.results import Contender, Measured


_LEAST = 0.001


def all_tables(all_measured: Sequence[Measured]) -> str:
    """A table of each, the overview, and where others are ahead."""
    parts = [f"{each.title}\n{table(each)}" for each in all_measured]
    parts.append(overview(all_measured))
    parts.append(f"Where others are ahead:\n{losses(all_measured)}")
    return "\n" + "\n\n".join(parts)


def table(measured: Measured) -> str:
    """All figures of all variants: the medians, and the ratios of ours to each."""
    heads = ["", *(head(each) for each in measured.figures)]
    lines = [_row(heads), _row(["---", *(["---:"] * len(measured.figures))])]
    for contender in measured.contenders:
        cells = [_cell(measured, contender, each) for each in measured.figures]
        if (failure := measured.failure(contender)) is not None:
            cells = [f"failed: {failure}"] + [""] * (len(cells) - 1)
        lines.append(_row([contender.name, *cells]))
    return "\n".join(lines)


def head(figure: Figure) -> str:
    """What a figure is, and of what unit."""
    return f"{figure.text}, {figure.unit}" if figure.unit else figure.text


def _cell(measured: Measured, contender: Contender, figure: Figure) -> str:
    values = measured.values(contender, figure)
    if not values:
        return "–"
    shown = number(statistics.median(values))
    if contender == measured.contenders[0]:
        return shown
    ratio = measured.ratio(contender, figure)
    return shown if ratio is None else f"{shown} ({times(ratio)})"


def number(value: float) -> str:
    """With three digits that count."""
    if abs(value) >= 100:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}" if value == 0 or abs(value) >= _LEAST else f"<{_LEAST}"


def times(ratio: float) -> str:
    """A ratio, as in ``1.6 ×``."""
    return f"{number(ratio)} ×"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def overview(all_measured: Sequence[Measured]) -> str:
    """The first figure of each experiment: ours, the floor's, the best of others'."""
    heads = ["", "ours", "floor", "ours / floor", "best of the others", "ours / it"]
    # Where ours are several, they are beside each other, and in a table of their own.
    alone = [each for each in all_measured if len(_of_role(each, Role.OURS)) == 1]
    rows = [list(_line(each)) for each in alone]
    return "\n".join(map(_row, [heads, ["---", *(["---:"] * 5)], *rows]))


def _line(measured: Measured) -> Iterator[str]:
    figure = measured.figures[0]
    ours = measured.contenders[0]
    yield f"{measured.title}: {head(figure)}"
    yield _shown(measured, ours, figure)
    floors = _of_role(measured, Role.FLOOR)
    yield _shown(measured, floors[0], figure) if floors else ""
    yield _ratio(measured, floors[0], figure) if floors else ""
    best = best_peer(measured, figure)
    yield f"{best.name} {_shown(measured, best, figure)}" if best else ""
    yield _ratio(measured, best, figure) if best else ""


def best_peer(measured: Measured, figure: Figure) -> Contender | None:
    """Of the others the one that does best; None: none was measured."""
    peers = [
        each for each in _of_role(measured, Role.PEER) if measured.values(each, figure)
    ]
    if not peers:
        return None
    choose = max if figure.more else min
    return choose(peers, key=lambda p: statistics.median(measured.values(p, figure)))


def _of_role(measured: Measured, role: Role) -> Sequence[Contender]:
    return [each for each in measured.contenders if each.role is role]


def _shown(measured: Measured, contender: Contender, figure: Figure) -> str:
    values = measured.values(contender, figure)
    return number(statistics.median(values)) if values else "–"


def _ratio(measured: Measured, contender: Contender, figure: Figure) -> str:
    ratio = measured.ratio(contender, figure)
    return "–" if ratio is None else times(ratio)


def losses(all_measured: Sequence[Measured]) -> str:
    """In what another one does better, as a list."""
    if not any(_of_role(measured, Role.PEER) for measured in all_measured):
        return "No others were measured (--peers)."
    lines = [
        f"* {peer.name}, {measured.title}: {', '.join(ahead)}"
        for measured in all_measured
        for peer in _of_role(measured, Role.PEER)
        if (ahead := list(_ahead(measured, peer)))
    ]
    return "\n".join(lines) or "* None in this run."


def _ahead(measured: Measured, peer: Contender) -> Iterator[str]:
    for figure in measured.figures:
        if measured.is_ahead(peer, figure):
            theirs = _shown(measured, peer, figure)
            ours = _shown(measured, measured.contenders[0], figure)
            yield f"{figure.text} {theirs} {figure.unit} (ours {ours})"


def settings(all_measured: Sequence[Measured]) -> str:
    """How the others, and the floors, were set up."""
    lines = {
        f"* {contender.name}, {measured.noun.replace('_', ' ')}: {contender.settings}"
        for measured in all_measured
        for contender in measured.contenders
        if contender.settings
    }
    return "\n".join(sorted(lines))
