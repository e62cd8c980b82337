"""Floors on PostgreSQL and CockroachDB: plain statements on the package's tables."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
from sqlalchemy import make_url

from benchmarks.batches import rate
from benchmarks.putting_in import THREADS, by_threads, one_by_one
from benchmarks.spread import Countdown
from go_scheduler.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    Row = tuple[Any, ...]

_BATCH = 500
_AHEAD = 2 * _BATCH
_AT_ONCE = 1_000
_THREADS = 8

_CLAIM = """
WITH due AS MATERIALIZED (
  SELECT id FROM task_instances
   WHERE queue = 'default' AND priority = 1{of_shard}
     AND claimable_at IS NOT NULL AND claimable_at <= now()
   ORDER BY claimable_at, due_at LIMIT {limit}
     FOR UPDATE SKIP LOCKED)
UPDATE task_instances AS t
   SET claimed_by = %s, attempt = t.attempt + 1, runs = t.runs + 1, claimable_at = NULL,
       started_at = now(), expires_at = now() + interval '20 seconds'
  FROM due WHERE t.id = due.id AND t.claimed_by IS NULL AND t.completed_at IS NULL
RETURNING t.id, t.definition_key, t.fire_time, t.execute_at, t.due_at, t.attempt,
          t.runs, t.expires_at, t.started_at"""
_FINISH = """
UPDATE task_instances AS t SET outcome = 'completed', completed_at = now()
  FROM unnest(%s::uuid[], %s::bigint[]) AS x (id, attempt)
 WHERE t.id = x.id AND t.attempt = x.attempt AND t.completed_at IS NULL
   AND t.claimed_by IS NOT NULL RETURNING t.id"""
_INSERT_DEFINITIONS = """
WITH given AS (SELECT unnest(%s::uuid[]) AS key),
     made AS (
       INSERT INTO task_definitions
              (key, id, queue, next_fire_time, revision, created_at)
       SELECT key, key, 'default', %s, 1, now() FROM given RETURNING key)
INSERT INTO task_contents (key, metadata, trigger_kind, trigger_state, policies)
SELECT key, '{}', 'once', '{}', '{}' FROM given"""
_INSERT_INSTANCES = """
INSERT INTO task_instances
       (id, definition_key, queue, execute_at, due_at, claimable_at, payload)
SELECT id, %s, 'default', now(), now(), now(), '{"order": 7}'
  FROM unnest(%s::uuid[]) AS id"""


class _Pool:
    """One connection claims, threads call, and another connection records the ends."""

    def __init__(self, url: str, instances: int, shards: int) -> None:
        self._instances = instances
        self._shards = shards
        self._calls = Countdown(instances)
        self._claiming = connect(url, "force_custom_plan")
        self._ending = connect(url, "force_generic_plan")
        self._called: SimpleQueue[Row | None] = SimpleQueue()
        self._ended: SimpleQueue[Row] = SimpleQueue()
        self._room = threading.Condition()
        self._claimed = self._recorded = 0

    def drain(self) -> dict[str, float]:
        threads = [threading.Thread(target=self._call) for _ in range(_THREADS)]
        threads.append(threading.Thread(target=self._record))
        began, cpu = time.perf_counter(), time.process_time()
        for each in threads:
            each.start()
        self._claim()
        for _ in threads:
            self._called.put(None)
        for each in threads:
            each.join()
        self._claiming.close()
        self._ending.close()
        rate = self._calls.rate_since(began)
        return rate | {"cpu": (self._calls.cpu - cpu) / self._instances * 1e6}

    def _claim(self) -> None:
        shard, node = 0, uuid4()
        while self._claimed < self._instances:
            with self._room:
                self._room.wait_for(lambda: self._claimed - self._recorded < _AHEAD)
            claim = _claim(shard, self._shards, limit=_BATCH)
            rows = self._claiming.execute(claim, [node]).fetchall()
            self._claimed += len(rows)
            for each in rows:
                self._called.put(each)
            if len(rows) < _BATCH:
                shard = (shard + 1) % self._shards

    def _call(self) -> None:
        while (row := self._called.get()) is not None:
            self._calls(row)
            self._ended.put(row)

    def _record(self) -> None:
        while self._recorded < self._instances:
            rows = sorted(self._some())
            ends = [[each[0] for each in rows], [each[5] for each in rows]]
            recorded = len(self._ending.execute(_FINISH, ends).fetchall())
            with self._room:
                self._recorded += recorded
                self._room.notify()

    def _some(self) -> list[Row]:
        rows = [self._ended.get()]
        with suppress(Empty):
            while len(rows) < _BATCH:
                rows.append(self._ended.get_nowait())
        return rows


def _claim(shard: int, shards: int, *, limit: int) -> bytes:
    of_shard = f" AND shard = {shard}" if shards > 1 else ""
    return _CLAIM.format(of_shard=of_shard, limit=limit).encode()


def drain(url: str, *, instances: int, shards: int) -> dict[str, float]:
    """Claim, call and record all that is due."""
    return _Pool(url, instances, shards).drain()


def batches(url: str, *, size: int, count: int, shards: int) -> dict[str, float]:
    """Claim and end so many batches of so many, without anything between."""
    node, shard = uuid4(), 0
    with (
        closing(connect(url, "force_custom_plan")) as claiming,
        closing(connect(url, "force_generic_plan")) as ending,
    ):

        def batch() -> int:
            nonlocal shard
            rows: list[Row] = []
            while len(rows) < size:
                claim = _claim(shard, shards, limit=size - len(rows))
                rows += claiming.execute(claim, [node]).fetchall()
                if len(rows) < size:
                    shard = (shard + 1) % shards
            rows.sort()
            ends = [[each[0] for each in rows], [each[5] for each in rows]]
            return len(ending.execute(_FINISH, ends).fetchall())

        return rate(batch, count)


def connect(url: str, plans: str | None = None) -> psycopg.Connection[Row]:
    """A connection that commits each statement, with plans of one kind."""
    libpq = make_url(url).set(drivername="postgresql")
    connection = psycopg.connect(
        libpq.render_as_string(hide_password=False),
        autocommit=True,
        prepare_threshold=0,
    )
    if plans is not None:
        connection.execute(f"SET plan_cache_mode = {plans}".encode())
        if not url.startswith("cockroachdb"):
            connection.execute("SET enable_seqscan = off")
            connection.execute("SET enable_mergejoin = off")
    return connection


def insert_definitions(url: str, *, calls: int) -> dict[str, float]:
    """The two rows of a definition, one definition after the other."""
    with closing(_connected(url)) as connection:
        return one_by_one(lambda: _insert_definitions(connection, 1), calls)


def insert_definitions_by_threads(url: str, *, calls: int) -> dict[str, float]:
    """The same, by threads with a connection each."""
    _connected(url).close()
    with ExitStack() as stack:
        inserts = [
            partial(_insert_definitions, stack.enter_context(closing(connect(url))), 1)
            for _ in range(THREADS)
        ]
        return by_threads(inserts, calls)


def insert_many_definitions(url: str, *, count: int) -> dict[str, float]:
    """The two rows of many definitions."""
    with closing(_connected(url)) as connection:
        return _in_bulk(lambda size: _insert_definitions(connection, size), count)


def insert_instances(url: str, *, calls: int) -> dict[str, float]:
    """The row of an instance, one after the other."""
    with closing(_connected(url)) as connection:
        return one_by_one(lambda: _insert_instances(connection, 1), calls)


def insert_many_instances(url: str, *, count: int) -> dict[str, float]:
    """The rows of many instances."""
    with closing(_connected(url)) as connection:
        return _in_bulk(lambda size: _insert_instances(connection, size), count)


def _connected(url: str) -> psycopg.Connection[Row]:
    with closing(open_store(url)) as store:
        store.initialize()
    return connect(url)


def _insert_definitions(connection: psycopg.Connection[Row], count: int) -> None:
    at = datetime.now(UTC) + timedelta(days=1)
    connection.execute(_INSERT_DEFINITIONS, [[uuid4() for _ in range(count)], at])


def _insert_instances(connection: psycopg.Connection[Row], count: int) -> None:
    connection.execute(_INSERT_INSTANCES, [uuid4(), [uuid4() for _ in range(count)]])


def _in_bulk(insert: Callable[[int], None], count: int) -> dict[str, float]:
    began = time.perf_counter()
    for start in range(0, count, _AT_ONCE):
        insert(min(_AT_ONCE, count - start))
    return {"rate": count / (time.perf_counter() - began)}
