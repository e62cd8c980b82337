"""How fast it is on Redis, beside what people have there instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.drain import FIGURES
from benchmarks.experiment import (
    EARLY,
    MOST,
    P50,
    P99,
    Call,
    Experiment,
    floor,
    ours,
    peer,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.experiment import Variant
    from benchmarks.sizes import Sizes

# With which each of them did best.
_OTHERS = {
    "sorted_set": (
        "sorted set and list",
        "as goscheds does it, in Python: one thread moves what is due from the set to"
        " the list, one by one, and one takes it from there, each under a lock",
    ),
    "rq": ("rq", "SimpleWorker, which forks for no job, one"),
    "dramatiq": ("dramatiq", "8 threads"),
    "celery": ("Celery", "one thread (solo), no results, prefetches 1,000"),
}


def experiments(engine: str, sizes: Sizes) -> Iterator[Experiment]:
    """Those on one kind of store."""
    if engine == "redis":
        yield _drain(sizes)
        yield _lateness(sizes)


def _drain(sizes: Sizes) -> Experiment:
    count = sizes.drained
    some = {"instances": count}
    return Experiment(
        title=f"drain on Redis, {count:,} one-off definitions",
        noun="redis",
        figures=FIGURES,
        variants=(
            ours(Call("drain:drain", some), "redis", prepare=Call("seeds:due", some)),
            floor(
                "raw loop",
                Call("floors.redis:drain", some),
                "redis",
                settings="two sorted sets and a hash for each, batches of 500",
            ),
            *_peers("drain", some),
        ),
    )


def _lateness(sizes: Sizes) -> Experiment:
    count = round(sizes.rate * sizes.seconds)
    asked: dict[str, object] = {
        "count": count,
        "rate": sizes.rate,
        "head": sizes.head + count / 1_000,
    }
    return Experiment(
        title=f"lateness on Redis, {sizes.rate:,} a second",
        noun="redis",
        figures=(P50, P99, MOST, EARLY),
        variants=(
            ours(Call("lateness:lateness", asked), "redis"),
            floor(
                "timer",
                Call("floors.memory:lateness", asked),
                settings="a heap, a condition and 8 threads; no store",
            ),
            *_peers("lateness", asked),
        ),
    )


def _peers(what: str, arguments: Mapping[str, object]) -> Iterator[Variant]:
    for module, (name, settings) in _OTHERS.items():
        yield peer(
            name,
            Call(f"peers.{module}:{what}", arguments),
            "redis",
            settings=settings,
        )
