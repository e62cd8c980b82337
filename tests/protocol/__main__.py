"""``python -m tests.protocol`` checks every model, and writes what it found down.

The tables of ``docs/proof.md`` are between its comments.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.protocol.checker import check
from tests.protocol.configurations import CONFIGURATIONS, COVERED
from tests.protocol.marks import table

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[2] / "docs/proof.md"


def row_of(name: str, states: int, steps: int) -> str:
    """A line of the table of configurations."""
    return f"| {name} | {states:,} | {steps:,} |"


def checked() -> Iterator[str]:
    """The table of configurations; ends the program if one is broken."""
    yield "| model and size | states | steps between them |"
    yield "|---|---|---|"
    for each in CONFIGURATIONS:
        result = check(each.model())
        if result.broken:
            sys.exit(f"{each.name}: {result}")
        sys.stdout.write(f"{result.seconds:6.1f} s  {each.name}\n")
        yield row_of(each.name, result.states, result.steps)


def covered() -> Iterator[str]:
    """The table of faults and promises: which model has both."""
    promises = list(dict.fromkeys(p for _, all_of in COVERED.values() for p in all_of))
    faults = list(dict.fromkeys(f for all_of, _ in COVERED.values() for f in all_of))
    yield f"| | {' | '.join(promises)} |"
    yield "|---" * (len(promises) + 1) + "|"
    for fault in faults:
        cells = (
            ", ".join(
                name
                for name, (its_faults, its_promises) in COVERED.items()
                if fault in its_faults and promise in its_promises
            )
            for promise in promises
        )
        yield f"| {fault} | {' | '.join(cells)} |"


def written(page: str, name: str, lines: Iterator[str]) -> str:
    """The page with these lines between the comments of this name."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    text = "\n".join([begin, "", *lines, "", end])
    return re.sub(f"{begin}.*?{end}", lambda _: text, page, flags=re.DOTALL)


def main() -> None:
    """Check all, and write the page."""
    page = written(PAGE.read_text(), "covered", covered())
    page = written(page, "marks", table())
    PAGE.write_text(written(page, "states", checked()))


if __name__ == "__main__":
    main()
