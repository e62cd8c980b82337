"""The pages that show what was measured: their tables and plots are made from the JSON.

``python -m benchmarks.page`` writes into ``docs/`` what ``benchmarks/results/*.json``
have, between the marks of each part; what else is on a page stays as it is.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import capacity, plots, tables
from benchmarks.results import Report

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.results import Measured

_ROOT = Path(__file__).parents[1]
_RESULTS = _ROOT / "benchmarks/results"
_DOCS = _ROOT / "docs"
PAGES = (
    "benchmarks.md",
    "benchmark-throughput.md",
    "benchmark-lateness.md",
    "benchmark-setup.md",
    "how-far-it-goes.md",
)


def main() -> None:
    """Write all of it."""
    for path, text in made(reports()).items():
        path.write_text(text)


def made(runs: Sequence[Report]) -> Mapping[Path, str]:
    """What the pages and the plots are to be, each by its path."""
    measured = [each for report in runs for each in report.measured]
    parts = dict(_parts(runs, measured))
    found = {_DOCS / name: _filled((_DOCS / name).read_text(), parts) for name in PAGES}
    found[_DOCS / "images/lateness.svg"] = plots.lateness(measured)
    found[_DOCS / "images/scale.svg"] = plots.scale(measured)
    return found


def reports() -> Sequence[Report]:
    """The runs that are kept."""
    return [Report.read(each) for each in sorted(_RESULTS.glob("*.json"))]


def _parts(
    runs: Sequence[Report], measured: Sequence[Measured]
) -> Iterator[tuple[str, str]]:
    yield "runs", "\n\n".join(_run(each) for each in runs)
    yield "overview", tables.overview(measured)
    yield "losses", tables.losses(measured)
    yield "settings", tables.settings(measured)
    for noun in {each.noun: None for each in measured}:
        some = [each for each in measured if each.noun == noun]
        yield noun, "\n\n".join(f"**{_title(e)}**\n\n{tables.table(e)}" for e in some)
    yield from capacity.parts(measured)


def _title(measured: Measured) -> str:
    rounds = len(measured.rounds)
    title = measured.title[0].upper() + measured.title[1:]
    return f"{title} ({rounds} round{'s' if rounds > 1 else ''})"


def _run(report: Report) -> str:
    run = report.run
    return (
        f"```console\n$ {run['command']}\n```\n\n"
        f"{run['date']}, {run['machine']}, load {run['load']} before it, Python"
        f" {run['python']}, {run['packages']}."
    )


def _filled(page: str, parts: Mapping[str, str]) -> str:
    def fill(found: re.Match[str]) -> str:
        name = found["name"]
        text = parts.get(name, "Not measured in these runs.")
        return f"<!-- {name} -->\n\n{text}\n\n<!-- end of {name} -->"

    return re.sub(
        r"<!-- (?P<name>\w+) -->\n.*?<!-- end of (?P=name) -->",
        fill,
        page,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    main()
