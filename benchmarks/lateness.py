"""How late what was stored before is called: spread evenly, or all at once."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

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
from benchmarks.names import WHERE
from benchmarks.peers import on_redis
from benchmarks.seeds import put_once
from benchmarks.spread import Lateness, evenly
from go_scheduler import Scheduler
from go_scheduler.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.experiment import Variant
    from benchmarks.sizes import Sizes
    from go_scheduler import TaskInstance

_TIMER = "a heap, a condition and 8 threads; no store"
# Of what is stored before, so many may take a second; 5,000 on other stores.
_STORED = {"memory": 20_000, "cockroachdb": 500, "redis": 1_000}


def lateness(
    url: str, *, count: int, rate: int | None, head: float
) -> dict[str, float]:
    """So many one-off definitions, from storing them to the call of the last handler.

    Args:
        url: Of the store.
        count: So many.
        rate: So many a second; None: all on one second.
        head: How many seconds before the first is due they begin to be stored.
    """
    late = Lateness(count)

    def handler(instance: TaskInstance) -> None:
        late.add(instance.execute_at.timestamp())

    with closing(open_store(url)) as store:
        store.initialize()
        with closing(open_store(url)) as other:
            # What this node has put is nothing that it knows already.
            put_once(store if url == "memory://" else other, evenly(count, rate, head))
        with Scheduler(handler, store):
            return late.spread()


def experiments(engine: str, sizes: Sizes) -> Iterator[Experiment]:
    """Those on one kind of store."""
    for rate in (sizes.rate, *((sizes.high_rate,) if engine == "memory" else ())):
        count = round(rate * sizes.seconds)
        yield Experiment(
            title=f"lateness {WHERE[engine]}, {rate:,} a second",
            noun="lateness",
            figures=(P50, P99, MOST, EARLY),
            variants=variants(engine, sizes, count=count, rate=rate),
        )


def variants(
    engine: str, sizes: Sizes, *, count: int, rate: int | None
) -> Sequence[Variant]:
    """Ours, a timer, and others, of so many that fall due; see ``lateness``."""
    head = sizes.head + count / _STORED.get(engine, 5_000)
    asked = {"count": count, "rate": rate, "head": head}
    return (
        ours(Call("lateness:lateness", asked), engine),
        floor("timer", Call("floors.memory:lateness", asked), settings=_TIMER),
        *_peers(engine, asked),
    )


def _peers(engine: str, asked: Mapping[str, object]) -> Sequence[Variant]:
    if engine == "redis":
        return on_redis("lateness", asked)
    if engine == "cockroachdb":
        return ()
    store = "memory" if engine == "memory" else "SQLAlchemy"
    found = [
        peer(
            "APScheduler 3",
            Call("peers.apscheduler3:lateness", asked),
            engine,
            settings=f"{store} job store, 20 threads, no grace time",
        )
    ]
    if engine == "postgresql":
        call = Call("peers.pgqueuer:lateness", asked)
        settings = "asyncpg, batches of 100, dequeue timeout 0.1 s"
        found.append(peer("pgqueuer", call, engine, settings=settings))
    return found
