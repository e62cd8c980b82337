"""What a node does often costs no more beside many ended rows: counted, never timed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from go_scheduler import Job, RetryPolicy, State
from go_scheduler.client import Client
from go_scheduler.testing import ManualClock
from tests.behaviour.store_house import HOUR, MINUTE, NOW, SECOND, House, opened, task
from tests.servers import fresh_database, libpq

if TYPE_CHECKING:
    from pathlib import Path

    from go_scheduler import Store
    from tests.redis_servers import RedisServer

pytestmark = pytest.mark.slow
FEW, MANY = 100, 3000


def fill(store: Store, count: int) -> None:
    """Have so many instances, of which half have ended and half are to come."""
    client = Client(store)
    client.schedule(task("ended", max_queue=1, when_full="drop"))
    client.enqueue("ended", delay=1000 * HOUR)
    jobs = [Job(key=str(n)) for n in range(count // 2)]
    made = client.enqueue_all("ended", jobs)
    assert {each.state for each in made} == {State.SKIPPED}
    client.schedule(task("to come"))
    later = [Job(delay=1000 * HOUR) for _ in range(count // 2)]
    client.enqueue_all("to come", later)


def live(house: House) -> None:
    """What nodes do all the time, and those who put things in and look at lists."""
    client = house.scheduler
    house.answer = lambda _: None
    with client:
        for n in range(3):
            house.once(lock="l" if n else None)
            house.task(retry=RetryPolicy(delay=NOW, max_attempts=2))
            house.scheduler.enqueue("send", key=f"k{n}")
            house.clock.advance(SECOND)
        client.list_waiting(limit=5)
        client.list_claims(limit=5)
        client.list_definitions(limit=5)
        client.backlog(50)
    assert len(house.called) == 6


def test_on_sqlite_by_the_steps_of_its_machine(
    tmp_path: Path, sqlite_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    connect = sqlite3.connect

    def count() -> None:
        nonlocal steps
        steps += 1

    def connected(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)
        connection.set_progress_handler(count, 20)
        return connection

    found = []
    for number in (FEW, MANY):
        path = tmp_path / f"{number}.db"
        path.write_bytes(sqlite_file.read_bytes())
        clock = ManualClock()
        with opened(f"sqlite:///{path}", clock, durable=False) as store:
            fill(store, number)
            store.close()
            steps = 0
            with monkeypatch.context() as patched:
                for module in ("sqlite3", "sqlite3.dbapi2"):
                    patched.setattr(f"{module}.connect", connected)
                live(House(store, clock))
                store.close()
            found.append(steps)
    few, many = found
    assert few > 100
    assert many < 2 * few, found


def rows_read(url: str) -> int:
    """How many rows of its tables a database has read since it was made."""
    with psycopg.connect(libpq(url), autocommit=True) as connection:
        busy = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        # What each has counted is there by the time it has ended.
        while connection.execute(busy).fetchall() != [(0,)]:
            pass
        rows = connection.execute(
            "SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::bigint"
            " FROM pg_stat_user_tables WHERE relname LIKE 'task_%'"
        ).fetchall()
    return int(rows[0][0])


def test_on_postgresql_by_the_rows_it_has_read(postgresql_server: str) -> None:
    found = []
    for number in (FEW, MANY):
        with fresh_database(postgresql_server) as url:
            clock = ManualClock()
            with opened(url, clock) as store:
                fill(store, number)
                with psycopg.connect(libpq(url), autocommit=True) as connection:
                    connection.execute("VACUUM ANALYZE")
                store.close()
                before = rows_read(url)
                live(House(store, clock))
                store.close()
                found.append(rows_read(url) - before)
    few, many = found
    # A table of few rows is read as it is; one of many is not.
    assert many < few + MANY / 2, found


def test_on_redis_by_the_commands_it_has_executed(redis_server: RedisServer) -> None:
    def executed(by_hand: Any) -> int:
        stats = by_hand.info("commandstats")
        return sum(each["calls"] for each in stats.values())

    found = []
    with closing(redis_server.client()) as by_hand:
        for number in (FEW, MANY):
            by_hand.flushdb()
            clock = ManualClock()
            with opened(redis_server.url, clock) as store:
                fill(store, number)
                before = executed(by_hand)
                live(House(store, clock))
                found.append(executed(by_hand) - before)
        by_hand.flushdb()
    few, many = found
    assert many < 1.5 * few, found


@pytest.mark.parametrize("engine", ["sqlite", "postgresql", "redis"])
def test_cleanup_of_many_goes_on_until_nothing_is_left(
    store: Store, clock: ManualClock
) -> None:
    fill(store, 600)
    house = House(store, clock, retention=MINUTE)
    with house.scheduler:
        house.rest(2 * MINUTE)
        counts = house.scheduler.counts()
    assert counts[State.SKIPPED] == 0
    assert counts[State.PENDING] == 301
