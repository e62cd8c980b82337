"""A SQL store alone, without a scheduler: claims and ends, by the size of a batch."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from benchmarks.experiment import RATE, Call, Experiment, floor, ours
from benchmarks.names import SHARDS, WHERE
from benchmarks.scale import NODE
from benchmarks.seeds import LATEST, SECOND
from go_scheduler import Outcome
from go_scheduler.stores import Claim, RunOutcome, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.sizes import Sizes
    from go_scheduler import Store

_PER_DEFINITION = 100
_FLOOR = "plain statements, a claim and an end, on a connection each"


def store(url: str, *, size: int, count: int) -> dict[str, float]:
    """Claim and end so many batches of so many."""
    with closing(open_store(url)) as opened:
        opened.initialize()
        return rate(lambda: _claim_and_end(opened, size), count)


def rate(batch: Callable[[], int], count: int) -> dict[str, float]:
    """How many instances a second, over some batches; the first connects."""
    batch()
    began = time.perf_counter()
    done = sum(batch() for _ in range(count))
    return {"rate": done / (time.perf_counter() - began)}


def _claim_and_end(opened: Store, size: int) -> int:
    claimed = opened.claim_instances(
        NODE,
        ahead=0 * SECOND,
        lead=0 * SECOND,
        limit=size,
        lapsed=None,
        deadline=LATEST,
    )
    outcomes = [
        RunOutcome(
            claim=Claim.of(each),
            outcome=Outcome.COMPLETED,
            started_at=each.started_at,
        )
        for each in claimed
    ]
    return len(opened.finish_instances(outcomes).done)


def experiments(engine: str, sizes: Sizes) -> Iterator[Experiment]:
    """Those on one kind of store."""
    if engine not in SHARDS:
        return
    for size, count in sizes.batches:
        seeds = Call(
            "seeds:due",
            # Of what is spread over shards a claim may find fewer than it asks for.
            {"instances": 2 * size * count, "per_definition": _PER_DEFINITION},
        )
        some = {"size": size, "count": count}
        yield Experiment(
            title=f"claims and ends {WHERE[engine]}, in batches of {size:,}",
            noun="batches",
            figures=(RATE,),
            variants=(
                ours(
                    Call("batches:store", some),
                    engine,
                    name="the store",
                    prepare=seeds,
                ),
                floor(
                    "statements",
                    Call(
                        "floors.postgresql:batches", some | {"shards": SHARDS[engine]}
                    ),
                    engine,
                    prepare=seeds,
                    settings=_FLOOR,
                ),
            ),
        )
