"""How long many that are due on one second take until the last of them has begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.experiment import EARLY, MOST, P50, Experiment
from benchmarks.lateness import variants
from benchmarks.names import WHERE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.sizes import Sizes


def experiments(engine: str, sizes: Sizes) -> Iterator[Experiment]:
    """Those on one kind of store."""
    yield Experiment(
        title=f"{sizes.burst:,} due on one second {WHERE[engine]}",
        noun="burst",
        figures=(MOST, P50, EARLY),
        variants=variants(engine, sizes, count=sizes.burst, rate=None),
    )
