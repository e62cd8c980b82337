"""The floor on SQLite: a loop on the package's tables with plain statements."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from uuid import uuid4

from benchmarks.spread import Countdown

_BATCH = 500
_CLAIM = f"""
UPDATE task_instances
   SET claimed_by = ?, attempt = attempt + 1, runs = runs + 1, claimable_at = NULL,
       started_at = ?, expires_at = ?
 WHERE id IN (
   SELECT id FROM task_instances
    WHERE queue = 'default' AND priority = 1
      AND claimable_at IS NOT NULL AND claimable_at <= ?
    ORDER BY claimable_at, due_at LIMIT {_BATCH})
RETURNING id, definition_key, fire_time, execute_at, due_at, attempt, expires_at"""
_FINISH = """
UPDATE task_instances SET outcome = 'completed', completed_at = ?
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS attempt FROM json_each(?)) AS x
 WHERE task_instances.id = x.id AND task_instances.attempt = x.attempt
   AND completed_at IS NULL AND claimed_by IS NOT NULL"""


def drain(url: str, *, instances: int) -> dict[str, float]:
    """Claim a batch, call, end the batch, on one connection."""
    calls, node = Countdown(instances), uuid4().hex
    path = url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        began, cpu = time.perf_counter(), time.process_time()
        while not calls.is_over():
            now = time.time_ns() // 1000
            claim = [node, now, now + 20_000_000, now]
            rows = connection.execute(_CLAIM, claim).fetchall()
            for each in rows:
                calls(each)
            ended = json.dumps([(each[0], each[5]) for each in rows])
            connection.execute(_FINISH, [time.time_ns() // 1000, ended])
    return calls.rate_since(began) | {"cpu": (calls.cpu - cpu) / instances * 1e6}
