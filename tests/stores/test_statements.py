"""Each statement of the loops, as each engine is sent it."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest

from go_scheduler.stores.cockroachdb import CockroachDBDialect
from go_scheduler.stores.sql.__main__ import ENGINES, texts
from go_scheduler.stores.sql.statement import Statement
from go_scheduler.stores.sql.tables import definitions
from go_scheduler.stores.sqlite.executing import steps_of
from go_scheduler.stores.sqlite.store import SQLiteStore
from tests import servers

if TYPE_CHECKING:
    from pathlib import Path

NAMES = {
    *("start", "start_in_slots", "renew", "release", "finish", "finish_in_full"),
    *("cancel", "claim", "claim_lapsed", "heads", "due", "fire", "fire_and_start"),
    *("insert_new", "insert_and_start", "add", "add_and_start", "find_ended"),
    "delete_successes",
}


@pytest.mark.parametrize("of", ENGINES)
def test_all_are_printed(of: str) -> None:
    named = dict(texts(of))
    assert named.keys() >= NAMES
    for text in named.values():
        # What only this package knows has been replaced.
        assert not re.search(r"\bbatch AS|is_sound|on_sqlite|notified|as_jsonb", text)


def test_those_whose_names_begin_so_are_printed_by_a_command() -> None:
    command = [sys.executable, "-m", "go_scheduler.stores.sql", "sqlite", "finish"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"^-- (\w+)$", shown, re.MULTILINE) == [
        *("finish", "finish_current", "finish_free", "finish_in_full"),
        "finish_with_results",
    ]


def test_sqlite_can_prepare_every_step(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    with closing(SQLiteStore(f"sqlite:///{file}")) as store:
        store.initialize()
    with closing(sqlite3.connect(file)) as connection:
        for name, text in texts("sqlite"):
            if name.endswith(("_current", "_free")):
                # Nothing is ever locked in a file.
                continue
            for step in text.split(";\n\n"):
                values = dict.fromkeys(re.findall(r":(\w+)", step), "[]")
                assert connection.execute(f"EXPLAIN {step}", values).fetchall()


def test_postgresql_can_prepare_every_one(postgresql_url: str) -> None:
    with psycopg.connect(servers.libpq(postgresql_url)) as connection:
        for name, text in texts("postgresql"):
            sql = re.sub(r"LIMIT %\(limit\)s", "LIMIT 1", text)
            sql = re.sub(r"%\(\w+\)s", "NULL", sql).replace("%%", "%")
            assert connection.execute(f"EXPLAIN {sql}".encode()).fetchall(), name


def test_a_part_that_one_statement_reads_stands_within_it() -> None:
    read_once = Statement("""
WITH old AS (SELECT id FROM a),
gone AS (DELETE FROM b AS b USING old AS o WHERE b.id = o.id RETURNING b.id)
SELECT id FROM gone
""")
    deleted, answer = steps_of(read_once)
    assert deleted.sql is not None
    assert deleted.sql.startswith("WITH old AS MATERIALIZED (SELECT id FROM a)")
    assert (answer.sql, answer.joined, answer.places) == (None, "gone", (0,))


def test_a_part_that_several_read_is_read_before_they_change_it() -> None:
    read_twice = Statement("""
WITH old AS (SELECT id, at FROM a),
gone AS (DELETE FROM a AS a USING old AS o WHERE a.id = o.id RETURNING a.id),
kept AS (INSERT INTO b (id, at) SELECT o.id, o.at FROM old AS o JOIN gone AS g
         ON g.id = o.id WHERE true RETURNING id)
SELECT id FROM gone
""")
    old, gone, kept, answer = steps_of(read_twice)
    assert old.columns == ["id", "at"]
    assert gone.passed == {"old": (0,)}
    assert kept.passed == {"old": (0, 1), "gone": (0,)}
    assert answer.joined == "gone"


def test_rows_that_a_condition_leaves_out_are_not_passed() -> None:
    filtered = Statement("""
WITH ended AS (
  UPDATE a AS a SET at = now() FROM batch AS x (id uuid, slot text)
   WHERE a.id = x.id RETURNING a.id, x.slot),
freed AS (DELETE FROM s AS s USING ended AS e
           WHERE e.slot IS NOT NULL AND s.name = e.slot RETURNING s.name)
SELECT id FROM ended
""")
    _, freed, _ = steps_of(filtered)
    assert freed.filters["ended"](("id", "slot"))
    assert not freed.filters["ended"](("id", None))
    assert freed.columns == ()


def test_an_index_that_begins_with_shards_is_read_part_by_part() -> None:
    dialect = CockroachDBDialect(None, follower_reads=False)
    parts = [str(each) for each in dialect.parts(definitions.c.shard)]
    assert len(parts) == 16
    assert set(parts) == {"task_definitions.shard = :shard_1"}
