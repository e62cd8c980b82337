"""What work costs beside many rows to come and many that are over, on PostgreSQL."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import psycopg

from benchmarks.drain import drain
from benchmarks.experiment import RATE, Call, Experiment, Figure, ours
from benchmarks.scale import KEPT, NODE, median_time
from benchmarks.seeds import HOUR, LATEST, SECOND, due
from go_scheduler.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.sizes import Sizes

_PER_DEFINITION = 10
_PER_STATEMENT = 100_000
_FIGURES = (
    RATE,
    Figure(name="claim", text="a claim that finds nothing", unit="µs"),
    Figure(name="cleanup", text="a cleanup that finds nothing", unit="µs"),
    Figure(
        name="wal", text="WAL for each, from its definition to its end", unit="bytes"
    ),
    Figure(name="bytes", text="an instance's row with its indexes", unit="bytes"),
)

_DEFINITIONS = """
INSERT INTO task_definitions (key, id, queue, next_fire_time, revision, created_at)
SELECT gen_random_uuid(), gen_random_uuid(), 'default',
       now() + interval '1000 hours' + n * interval '1 second', 1, now()
  FROM generate_series(1, {count}) AS n RETURNING key"""
_TO_COME = """
INSERT INTO task_instances
       (id, definition_key, queue, fire_time, execute_at, due_at, claimable_at)
SELECT gen_random_uuid(), key, 'default', at, at, at, at
  FROM (SELECT key, now() + n * interval '1 hour' AS at
          FROM made, generate_series(1, {each}) AS n) AS x"""
_ENDED = """
INSERT INTO task_instances
       (id, definition_key, queue, fire_time, execute_at, due_at, attempt, runs,
        claimed_by, started_at, completed_at, outcome, ended_attempt)
SELECT gen_random_uuid(), key, 'default', at, at, at, 1, 1,
       gen_random_uuid(), at, at, 'completed', 1
  FROM (SELECT key, now() - n * interval '1 hour' AS at
          FROM made, generate_series(1, {each}) AS n) AS x"""


def fill_definitions(url: str, *, count: int) -> dict[str, float]:
    """So many definitions that fire in six weeks."""
    _make_tables(url)
    execute(url, *_in_parts(_DEFINITIONS, count), "VACUUM ANALYZE task_definitions")
    return {}


def fill(url: str, *, to_come: int, ended: int) -> dict[str, float]:
    """So many instances that are not due yet, and so many that are over."""
    _make_tables(url)
    statements = []
    for rows, count in ((_TO_COME, to_come), (_ENDED, ended)):
        made = f"WITH made AS ({_DEFINITIONS}) {rows}"
        made = made.replace("{each}", str(_PER_DEFINITION))
        statements += _in_parts(made, count // _PER_DEFINITION)
    execute(url, *statements, "VACUUM ANALYZE task_definitions, task_instances")
    return {}


def among(url: str, *, instances: int, snapshot: bool) -> dict[str, float]:
    """Drain what is due beside all that is there.

    Args:
        url: Of the database.
        instances: So many are due.
        snapshot: Whether a transaction is open all the while that may still read what
            there was before.
    """
    execute(url, "VACUUM ANALYZE task_definitions, task_instances")
    with ExitStack() as stack:
        if snapshot:
            reader = stack.enter_context(psycopg.connect(url))
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            reader.execute("SELECT count(*) FROM task_nodes")
        figures = _polls(url)
        written = _number(url, _WRITTEN)
        due(url, instances=instances)
        figures |= drain(url, instances=instances)
    figures["wal"] = (_number(url, _WRITTEN) - written) / instances
    return figures | {"bytes": _number(url, _ROW)}


_WRITTEN = "SELECT pg_current_wal_insert_lsn() - '0/0'"
_ROW = """
SELECT pg_total_relation_size('task_instances') / greatest(1, count(*))
  FROM task_instances"""


def _polls(url: str) -> dict[str, float]:
    with closing(open_store(url)) as store:
        store.initialize()
        claim = median_time(
            lambda: store.claim_instances(
                NODE,
                ahead=-100_000 * HOUR,
                lead=0 * SECOND,
                limit=100,
                lapsed=None,
                deadline=LATEST,
            )
        )
        cleanup = median_time(lambda: store.delete_finished(KEPT, limit=500))
    return {"claim": claim * 1e6, "cleanup": cleanup * 1e6}


def _make_tables(url: str) -> None:
    with closing(open_store(url)) as store:
        store.initialize()


def _in_parts(statement: str, count: int) -> list[str]:
    return [
        statement.replace("{count}", str(min(_PER_STATEMENT, count - start)))
        for start in range(0, count, _PER_STATEMENT)
    ]


def execute(url: str, *statements: str) -> None:
    """Execute statements on a PostgreSQL, each by itself."""
    with psycopg.connect(url, autocommit=True) as connection:
        for each in statements:
            connection.execute(each.encode())


def _number(url: str, statement: str) -> float:
    with psycopg.connect(url, autocommit=True) as connection:
        [number] = connection.execute(statement.encode()).fetchone() or [0]
    return float(number)


def experiments(engine: str, sizes: Sizes) -> Iterator[Experiment]:
    """Those on one kind of store."""
    if engine != "postgresql":
        return
    many = Call("large_tables:fill", {"to_come": sizes.to_come, "ended": sizes.ended})
    none = Call("large_tables:fill", {"to_come": 0, "ended": 0})
    large = f"{sizes.to_come:,} to come, {sizes.ended:,} ended"
    yield Experiment(
        title=f"drain of {sizes.drained:,} on PostgreSQL, beside many rows",
        noun="large_tables",
        figures=_FIGURES,
        variants=tuple(
            ours(
                Call(
                    "large_tables:among",
                    {"instances": sizes.drained, "snapshot": snapshot},
                ),
                engine,
                name=name,
                prepare=prepare,
                reused=True,
            )
            for name, prepare, snapshot in (
                ("no others", none, False),
                (large, many, False),
                ("no others, an old snapshot held open", none, True),
                (f"{large}, an old snapshot held open", many, True),
            )
        ),
        most_rounds=2,
    )
