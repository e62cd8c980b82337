"""What a scheduler asks of its database while nothing is due."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import psycopg
import redis

from benchmarks.experiment import Call, Experiment, Figure, ours
from benchmarks.names import WHERE
from go_scheduler import (
    ExecuteOnceTrigger,
    Job,
    OnDemandTrigger,
    Scheduler,
    TaskDefinition,
)
from go_scheduler.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.sizes import Sizes

_FIGURES = (
    Figure(name="statements", text="statements", unit="a second"),
    Figure(name="watched", text="looks whether the file has changed", unit="a second"),
    Figure(name="scans", text="scans of a whole table", unit=""),
    Figure(name="core", text="CPU of the process", unit="% of a core"),
)
# By the protocol's names, of what a client sends: a text at once, or in parts.
_SENT = ("\tQuery\t", "\tExecute\t")
_TASK = "wait"
_PER_DEFINITION = 10
# Tables of fewer rows are best read as a whole.
_LARGE = 100


class Counted:
    """Counts the statements of all connections that are made meanwhile.

    What begins or ends a transaction counts like any other, on every engine. To servers
    it reads what libpq notes of what it sends, so that nothing is left out; SQLite
    tells of each. Apart it counts the looks at whether a file has changed, which read
    no page of it: servers tell of that by themselves. A Redis counts its commands, and
    those of scripts among them.

    Args:
        url: Of the store.
    """

    def __init__(self, url: str) -> None:
        self._redis = redis.Redis.from_url(url) if url.startswith("redis:") else None
        self._stack = ExitStack()
        self._in_process = 0
        self.watched = 0

    def __enter__(self) -> Counted:
        self._notes = self._stack.enter_context(tempfile.TemporaryFile("a+"))
        to_server = psycopg.Connection.connect.__func__  # type: ignore[attr-defined]
        to_file = sqlite3.connect

        def noted(kind: Any, *args: Any, **options: Any) -> psycopg.Connection[Any]:
            connection: psycopg.Connection[Any] = to_server(kind, *args, **options)
            connection.pgconn.trace(self._notes.fileno())
            return connection

        def told(*args: Any, **options: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = to_file(*args, **options)
            connection.set_trace_callback(self._count)
            return connection

        self._stack.enter_context(
            patch.object(psycopg.Connection, "connect", classmethod(noted))
        )
        self._stack.enter_context(patch("sqlite3.connect", told))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _count(self, statement: str) -> None:
        if statement == "PRAGMA data_version":
            self.watched += 1
        else:
            self._in_process += 1

    def statements(self) -> int:
        """How many there were."""
        if self._redis is not None:
            return int(self._redis.info("stats")["total_commands_processed"])
        self._notes.seek(0)
        sent = sum(any(mark in line for mark in _SENT) for line in self._notes)
        return sent + self._in_process


def fill(url: str, *, to_come: int) -> None:
    """So many instances that are not due yet, and a tenth as many definitions."""
    at = datetime.now(UTC) + timedelta(days=30)
    once = ExecuteOnceTrigger(at)
    task = TaskDefinition(
        id=TaskDefinition.id_for(f"task {_TASK}"), trigger=OnDemandTrigger()
    )
    with closing(open_store(url)) as store:
        client = Scheduler(None, store)
        client.schedule(task)
        client.enqueue_all(_TASK, [Job(at=at) for _ in range(to_come)])
        client.schedule_all(
            [TaskDefinition(trigger=once) for _ in range(to_come // _PER_DEFINITION)]
        )
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def idle(url: str, *, seconds: float, settled: float) -> dict[str, float]:
    """Let a scheduler wait, with default windows."""
    with (
        Counted(url) as counted,
        closing(open_store(url)) as store,
        Scheduler(lambda _: None, store),
    ):
        time.sleep(settled)
        before, cpu = counted.statements(), time.process_time()
        watched = counted.watched
        scans = scans_of(url)
        time.sleep(seconds)
        spent = time.process_time() - cpu
        sent, watched = counted.statements() - before, counted.watched - watched
    figures = {"statements": sent / seconds, "core": spent / seconds * 100}
    if url.startswith("sqlite:"):
        figures["watched"] = watched / seconds
    if scans is not None:
        # What a connection has done the server counts when that is over.
        figures["scans"] = (scans_of(url) or 0) - scans
    return figures


def scans_of(url: str) -> float | None:
    """How often a large table was read as a whole so far; only PostgreSQL counts."""
    if not url.startswith("postgresql:"):
        return None
    with psycopg.connect(url, autocommit=True) as connection:
        [scans] = connection.execute(
            "SELECT coalesce(sum(seq_scan), 0)::float FROM pg_stat_user_tables"
            " JOIN pg_class ON pg_class.oid = relid WHERE reltuples >= %s",
            [_LARGE],
        ).fetchone() or [0]
    return float(scans)


def experiments(engine: str, sizes: Sizes) -> Iterator[Experiment]:
    """Those on one kind of store."""
    waits = {"seconds": sizes.idle, "settled": sizes.settled * 3}
    filled = None
    if engine == "postgresql":
        # In a small table to read all of it is the best that there is.
        filled = Call("idle:fill", {"to_come": sizes.to_come})
    yield Experiment(
        title=f"an idle scheduler {WHERE[engine]}",
        noun="idle",
        figures=_FIGURES,
        variants=(ours(Call("idle:idle", waits), engine, prepare=filled),),
        most_rounds=3,
    )
