"""How much of everything is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Counts, and seconds.

    Attributes:
        drained: Instances that are due, on a database.
        drained_slowly: The same, for what takes more than a hundred microseconds each.
        drained_in_memory: The same, in memory.
        put_in: Calls that put in one thing each.
        put_in_bulk: Things that are put in by one call.
        due_now: Things that are scheduled while a scheduler waits.
        seconds: How long things fall due, so many a second.
        head: How long before the first of them is due they are stored.
        rate: So many fall due a second.
        high_rate: The same, where what is high is asked for.
        burst: So many are due at once.
        idle: For how many seconds a scheduler does nothing.
        settled: How many seconds it has had before that, or before something is due.
        definitions: How many there are, from few to many.
        due: How many of them are due.
        to_come: Rows of instances in a large table that are not due yet.
        ended: Rows in it that are over.
        batches: Sizes of batches, and how many there are of each.
    """

    drained: int = 20_000
    drained_slowly: int = 2_000
    drained_in_memory: int = 50_000
    put_in: int = 500
    put_in_bulk: int = 20_000
    due_now: int = 60
    seconds: float = 3
    head: float = 2
    rate: int = 1_000
    high_rate: int = 5_000
    burst: int = 1_000
    idle: float = 20
    settled: float = 3
    definitions: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    due: int = 1_000
    to_come: int = 100_000
    ended: int = 1_000_000
    batches: tuple[tuple[int, int], ...] = ((1, 100), (10, 50), (100, 20), (1_000, 4))


FULL = Sizes()
QUICK = Sizes(
    drained=5_000,
    drained_slowly=500,
    drained_in_memory=20_000,
    put_in=200,
    put_in_bulk=5_000,
    due_now=15,
    seconds=1,
    head=1,
    idle=4,
    settled=0.5,
    definitions=(1_000, 10_000, 100_000),
    to_come=10_000,
    ended=100_000,
    batches=((1, 30), (10, 20), (100, 10), (1_000, 2)),
)
TINY = Sizes(
    drained=20,
    drained_slowly=5,
    drained_in_memory=20,
    put_in=4,
    put_in_bulk=20,
    due_now=2,
    seconds=0.1,
    head=0.3,
    rate=100,
    high_rate=200,
    burst=10,
    idle=0.1,
    settled=0,
    definitions=(10, 20, 40),
    due=10,
    to_come=100,
    ended=100,
    batches=((2, 2),),
)
