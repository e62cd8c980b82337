"""Scans find what was locked, or not settled, soon after it is there to be taken."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import TYPE_CHECKING

import psycopg
import pytest

from go_scheduler.clock import ZERO, SystemClock
from go_scheduler.errors import StoreError
from go_scheduler.stores.filters import Filter
from go_scheduler.stores.messages import Release
from go_scheduler.stores.sql.database import Sweep
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    OTHER_NODE,
    SECOND,
    claim,
    claim_of,
    clean_up,
    definition,
    ended,
    fire,
    ids,
    pending,
    put,
    running,
)
from tests import servers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta
    from uuid import UUID

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

    Make = Callable[[Store], TaskInstance]
    Look = Callable[[Store, TaskInstance], bool]

WINDOW = SECOND
ALL = 10_000 * HOUR
# What was locked for so long may be found so much later.
LOCKED = [
    pytest.param(ZERO, WINDOW, id="a moment"),
    pytest.param(30 * SECOND, 2 * WINDOW, id="half a minute"),
    pytest.param(5 * MINUTE, 40 * WINDOW, id="five minutes"),
]


@pytest.fixture
def engine() -> str:
    """Where rows are locked."""
    return "postgresql"


@pytest.fixture
def store(store: Store, clock: ManualClock) -> Store:
    """A store on the clock, at which nodes have looked for some hours."""
    for _ in range(10):
        clock.advance(HOUR)
        # A vacuum of what tests before have deleted may have a table for a moment.
        with suppress(StoreError):
            claim(store, lapsed=True)
            clean_up(store, older_than=ZERO, limit=1)
    clock.advance(WINDOW)
    return store


@contextmanager
def locked(url: str, *given: TaskInstance) -> Iterator[None]:
    """Let another transaction have the rows of instances."""
    with psycopg.connect(servers.libpq(url)) as user:
        lock = "SELECT FROM task_instances WHERE id = ANY (%s) FOR UPDATE"
        user.execute(lock, [ids(given)])
        yield
        user.rollback()


def claims(store: Store, of: TaskInstance) -> bool:
    return of.id in ids(claim(store))


def takes_over(store: Store, of: TaskInstance) -> bool:
    return of.id in ids(claim(store, OTHER_NODE, lapsed=True))


def deletes(store: Store, of: TaskInstance) -> bool:
    clean_up(store, older_than=ZERO, limit=10)
    return not store.select(Filter(definition_id=of.definition.id))


def claims_it_of_many(store: Store, of: TaskInstance) -> bool:
    [claimed] = claim(store, limit=1)
    return claimed.id == of.id


def first_of_many(store: Store) -> TaskInstance:
    now = store.now()
    read = put(store, definition(now))
    return fire(store, read, *(now + n * SECOND / 2 for n in range(1000)))[0]


FOUND: dict[str, tuple[Make, Look]] = {
    "claimed": (pending, claims),
    "claimed though there is always more": (first_of_many, claims_it_of_many),
    "taken over": (running, takes_over),
    "deleted": (ended, deletes),
}


@pytest.mark.parametrize(("time", "longest"), LOCKED)
@pytest.mark.parametrize("found", FOUND)
def test_what_was_locked_is_found_soon(
    store: Store,
    postgresql_url: str,
    clock: ManualClock,
    found: str,
    time: timedelta,
    longest: timedelta,
) -> None:
    """A node looks once in every window: in vain while it is locked."""
    make, look = FOUND[found]
    instance = make(store)
    clock.advance(LEASE if found == "taken over" else WINDOW)
    until = clock.elapsed() + time
    with locked(postgresql_url, instance):
        while clock.elapsed() <= until:
            assert not look(store, instance)
            clock.advance(WINDOW)
    until = clock.elapsed() + longest
    while not look(store, instance):
        clock.advance(WINDOW)
        assert clock.elapsed() <= until


def test_what_a_claim_has_no_room_for_is_claimed_by_the_next(
    store: Store, clock: ManualClock
) -> None:
    now = store.now()
    read = put(store, definition(now))
    made = fire(store, read, *(now + n * SECOND for n in range(5)))
    clock.advance(HOUR)
    claimed = [each for _ in range(3) for each in claim(store, limit=2)]
    assert ids(claimed) == ids(made)


@pytest.mark.slow
def test_nothing_waits_longer_than_two_windows_in_a_thousand_rounds(
    cockroachdb_url: str,
) -> None:
    elapsed = SystemClock().elapsed
    servers.delete_all_rows(cockroachdb_url)
    with servers.opened(cockroachdb_url, has_tables=True) as store:
        made = {pending(store, definition(store.now())).id for _ in range(5)}
        for _ in range(1000):
            begun = elapsed()
            found: dict[UUID, TaskInstance] = {}
            late = 0
            while found.keys() != made:
                found.update((each.id, each) for each in claim(store, limit=3))
                # A busy machine may have looked once or twice in all that time.
                late += elapsed() - begun >= 2 * WINDOW
                assert late < 5
            given_back = [Release(claim=claim_of(each)) for each in found.values()]
            assert store.release_instances(given_back).done == made


def test_what_a_cleanup_has_found_and_not_deleted_is_deleted_by_the_next(
    store: Store, postgresql_url: str, clock: ManualClock
) -> None:
    for _ in range(4):
        ended(store)
        clock.advance(MINUTE)
    with psycopg.connect(servers.libpq(postgresql_url)) as user:
        # As a new index does: it keeps no reader waiting.
        user.execute("LOCK TABLE task_instances IN SHARE MODE")
        with pytest.raises(StoreError):
            clean_up(store, older_than=ZERO, limit=3)
        user.rollback()
    clean_up(store, older_than=ZERO, limit=10)
    assert not store.select()


# The bound itself.


def settled(clock: ManualClock) -> Sweep:
    """A sweep that has long been at work."""
    sweep = Sweep(clock.elapsed)
    for _ in range(10):
        clock.advance(HOUR)
        assert sweep.back > ALL
        sweep.finish()
    return sweep


def test_a_scan_begins_where_the_one_before_was_and_now_and_then_far_below(
    clock: ManualClock,
) -> None:
    sweep = settled(clock)
    looks = {}
    for _ in range(280):
        clock.advance(SECOND)
        looks[clock.elapsed()] = sweep.back
        sweep.finish()
    for depth in (16 * SECOND, 64 * SECOND, 256 * SECOND):
        found = [at for at, back in looks.items() if back >= depth]
        pauses = [later - at for at, later in pairwise(found)]
        assert max(pauses) <= depth / 16
    assert max(looks.values()) < HOUR
    clock.advance(20 * SECOND)
    assert sweep.back > ALL


def test_all_is_looked_at_again_soon_after_the_start_and_then_seldom(
    clock: ManualClock,
) -> None:
    sweep = Sweep(clock.elapsed)
    whole = []
    for second in range(600):
        if sweep.back > ALL:
            whole.append(second)
        sweep.finish()
        clock.advance(SECOND)
    assert whole == [0, 1, 3, 7, 15, 31, 63, 127, 255, 511]


def test_after_a_failure_all_is_looked_at(clock: ManualClock) -> None:
    sweep = settled(clock)
    sweep.start_over()
    assert sweep.back > ALL
