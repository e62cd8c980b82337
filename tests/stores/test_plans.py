"""Every statement of the loops uses its index, and looks at what it returns.

On tables that were analysed when nothing was claimed, which is when statistics of a
queue mislead most, and at any size.
"""

from __future__ import annotations

import re
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.models import DefinitionState, Outcome, Stage, State, TaskDefinition
from go_scheduler.policies import Overlap
from go_scheduler.stores.base import KEYS_LOOKED_AT, count_unstarted
from go_scheduler.stores.filters import (
    CLAIMABLE,
    CLAIMED,
    DefinitionFilter,
    DefinitionOrder,
    Filter,
    Order,
)
from go_scheduler.stores.messages import Addition, Claim, Firing, Release
from go_scheduler.stores.rules import Declaration
from go_scheduler.stores.sql import views
from go_scheduler.stores.sql.reader import ContentsCache
from go_scheduler.testing import settle
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    SECOND,
    TICK,
    add,
    claim,
    claim_of,
    claimant,
    clean_up,
    end_of,
    firing,
    ids,
    put,
    renewal_of,
    task,
)
from go_scheduler.triggers.simple import (
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    OnDemandTrigger,
)
from tests import servers
from tests.plans import ExplainingCockroachDBStore, ExplainingPostgreSQLStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    import psycopg

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.postgresql.store import PostgreSQLStore
    from go_scheduler.triggers.base import Trigger

BATCH = 200
FIRE_TIMES = 2
NODE = claimant()
LATER = 300 * SECOND
ACTIVE = DefinitionState.ACTIVE

# Of each row of a batch one lookup per table that it concerns, and a few of the heads
# of indexes.
MOST_ROWS = BATCH * FIRE_TIMES + 10

KEY = "task_instances_pkey"
DEFINITION = "task_definitions_pkey"
ID = "task_definitions_id_key"
CONTENTS = "task_contents_pkey"
SLOT = "task_slots_pkey"
TOMBSTONE = "task_tombstones_pkey"
OPEN = "task_instances_open_idx"
FORMER = "task_definitions_former_idx"
FIRES = "task_instances_fire_key"
PUT = {ID, FORMER, CONTENTS, TOMBSTONE}
CLAIM = {"task_instances_claimable_idx", KEY, DEFINITION, CONTENTS}
ADD = {ID, KEY, "task_instances_key_key", CONTENTS}
ALLOWED: Mapping[str, set[str | None]] = {
    # Contents of definitions that there are not are read in any way.
    "put": {*PUT, None},
    "due": {"task_definitions_due_idx", "task_definitions_late_idx", CONTENTS},
    "fire": {ID, OPEN},
    "claim nothing": {*CLAIM},
    "claim": {*CLAIM},
    "claim lapsed": {*CLAIM, "task_instances_lease_idx"},
    "start": {KEY, DEFINITION},
    "renew": {KEY},
    "hand on": {KEY},
    "due queues": {"task_instances_claimable_idx"},
    # Where there are no slots, their table is read as it is.
    "release": {KEY, SLOT, None},
    "finish": {KEY, DEFINITION, SLOT},
    "add": {*ADD},
    "cancel": {KEY, DEFINITION, SLOT, None},
    "put and start": {*PUT},
    "fire and start": {ID},
    "add and start": {*ADD},
    "park": {*CLAIM, SLOT, None},
    # Where an index finds rows in one go, they are read without another.
    "review": {
        *("task_instances_parked_idx", "task_instances_undecided_idx"),
        *(FIRES, OPEN, KEY, DEFINITION, SLOT, None),
    },
    "clean up": {
        *("task_instances_ended_idx", "task_instances_failed_idx"),
        *("task_definitions_completed_idx", "task_definitions_deleted_idx"),
        *("task_tombstones_completed_idx", "task_runs_pkey", "task_stats_pkey"),
        *(FIRES, OPEN, FORMER, CONTENTS, TOMBSTONE, KEY, DEFINITION),
    },
}


class Loaded(NamedTuple):
    """A database with so many definitions, and instances, to come and ended."""

    url: str
    rows: int


@pytest.fixture(scope="module", params=[2_000, 200_000], ids=["small", "large"])
def loaded(request: pytest.FixtureRequest, postgresql_server: str) -> Iterator[Loaded]:
    """A database that was filled and analysed a moment ago."""
    with servers.fresh_database(postgresql_server) as url:
        with servers.opened(url):
            pass
        fill(url, request.param)
        yield Loaded(url, request.param)


def fill(url: str, count: int) -> None:
    """Let the server make rows, and the indexes when all rows are there."""
    with servers.connected(url) as connection:
        indexes = connection.execute(INDEXES).fetchall()
        for name, _ in indexes:
            connection.execute(f"DROP INDEX {name}".encode())
        for table in ("task_definitions", "task_instances", "task_tombstones"):
            connection.execute(f"ALTER TABLE {table} SET UNLOGGED".encode())
        leave_alone(connection)
        make_rows(connection, count)
        for _, statement in indexes:
            connection.execute(statement.encode())
        connection.execute("VACUUM ANALYZE")


def leave_alone(connection: psycopg.Connection) -> None:
    """Let the server look at no table by itself, whenever its turn is."""
    for table in TABLES:
        off = "autovacuum_enabled = false"
        connection.execute(f"ALTER TABLE {table} SET ({off})".encode())


def make_rows(connection: psycopg.Connection, count: int) -> None:
    for statement in ROWS:
        connection.execute(statement, {"count": count, "half": count // 2})


# But for the table of the nodes, of which there are few.
WHOLE = r"table: task_(?!nodes@).*\n.*spans: FULL SCAN"
TABLES = ("task_definitions", "task_contents", "task_instances", "task_tombstones")
INDEXES = """
SELECT indexname, indexdef FROM pg_indexes
 WHERE tablename LIKE 'task_%' AND indexname LIKE '%_idx'
"""
ROWS = (
    """
INSERT INTO task_definitions (key, id, queue, next_fire_time, revision, created_at)
SELECT gen_random_uuid(), gen_random_uuid(),
       CASE WHEN n %% 5 = 0 THEN 'common' ELSE 'default' END,
       now() + interval '1 hour' + n * interval '1 second', 1, now()
  FROM generate_series(1, %(count)s::bigint) AS n
""",
    """
INSERT INTO task_contents
       (key, metadata, metadata_search, trigger_kind, trigger_state, policies)
SELECT key, '{}', '{}', 'once', '{}', '{}' FROM task_definitions
""",
    """
INSERT INTO task_instances
       (id, definition_key, queue, fire_time, execute_at, due_at, claimable_at)
SELECT gen_random_uuid(), key, queue, next_fire_time, next_fire_time,
       next_fire_time, next_fire_time
  FROM task_definitions LIMIT %(half)s::bigint
""",
    """
INSERT INTO task_instances
       (id, definition_key, queue, fire_time, execute_at, due_at, attempt, runs,
        claimed_by, started_at, completed_at, outcome)
SELECT gen_random_uuid(), key, queue, at, at, at, 1, 1, gen_random_uuid(), at, at,
       'completed'
  FROM (SELECT key, queue, now() - interval '1 hour'
                    - row_number() OVER () * interval '10 milliseconds' AS at
          FROM task_definitions LIMIT %(half)s::bigint) AS ended
""",
    """
INSERT INTO task_tombstones (id, trigger_kind, trigger_state, revision, completed_at)
SELECT gen_random_uuid(), 'once', '{}', 1, now() - n * interval '1 second'
  FROM generate_series(1, %(count)s::bigint) AS n
""",
)


@pytest.mark.exhaustive
def test_every_statement_walks_its_index_and_no_further(loaded: Loaded) -> None:
    # Closed also if it fails: what stays open fails whatever is tested next.
    with closing(ExplainingPostgreSQLStore(loaded.url)) as store:
        store.initialize()
        found = Explained(store.scans)
        live_through(store, found)
        create(store, found)
        exclude(store, found)
    assert found.keys() == ALLOWED.keys()
    for name, scans in found.items():
        assert scans, f"{name} reads nothing"
        # Of the nodes of an hour there are few.
        for scan in (each for each in scans if each.table != "task_nodes"):
            assert scan.index in ALLOWED[name], f"{name}: {scan}"
            assert scan.rows <= MOST_ROWS, f"{name}: {scan}"


@pytest.mark.exhaustive
def test_what_pages_show_is_read_from_the_ends_of_indexes(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "LOOKED_AT", BATCH)
    with closing(ExplainingPostgreSQLStore(loaded.url)) as store:
        store.initialize()
        now = store.now()
        [one] = store.select_definitions(limit=1)
        fired = Filter(
            definition_id=one.id, fired_since=now - HOUR, fired_before=now + HOUR
        )
        unfired = Filter(definition_id=one.id, fired=False)
        # As often as it takes for a plan that is for any values.
        for _ in range(6):
            store.list_backlog(BATCH)
            show_to_restricted(store, {})
            store.select(fired, order=Order.FIRE_TIME, limit=BATCH)
            store.count([fired, replace(fired, fired_since=now)], most=BATCH)
            store.select(unfired, descending=True, limit=BATCH, scan_limit=BATCH)
            keyed = Filter(key="order 7")
            store.select(keyed, limit=BATCH, scan_limit=KEYS_LOOKED_AT)
            rare = {"none", "no other"}
            for of in (
                {"queues": {"default"}},
                {"queues": {"common"}},
                {"owners": {"shop"}},
                {"queues": rare},
            ):
                show_to_restricted(store, of)
            named = DefinitionFilter(name_prefix="job", queues=rare)
            store.select_definitions(named, limit=BATCH)
        monkeypatch.setattr(views, "LOOKED_AT", 2_000)
        for some in RESTRICTIONS:
            store.count([Filter(**some)], most=10_000)
    assert {each.table for each in store.scans} >= {"task_instances"}
    # Of a thousand definitions each is asked for the key; a table of a few thousand is
    # read as it is, with what its rows were before.
    most = 10_000 if loaded.rows <= 2_000 else 3_000
    for scan in store.scans:
        assert scan.rows <= most, scan


RESTRICTIONS: Sequence[dict[str, Any]] = (
    {"queues": {"common"}},
    {"owners": {"shop"}},
)


def show_to_restricted(store: Store, of: Mapping[str, Any]) -> None:
    """Read what pages show to a caller who is restricted to some queues or owners."""
    soonest = DefinitionOrder.NEXT_FIRE_TIME
    bounds: dict[str, Any] = {"limit": BATCH}
    active = DefinitionFilter(state=ACTIVE, **of)
    store.select_definitions(active, order=soonest, **bounds)
    if of:
        store.select_definitions(DefinitionFilter(**of), **bounds)
    bounds["scan_limit"] = BATCH
    store.select(replace(CLAIMABLE, **of), order=Order.DUE, **bounds)
    store.select(replace(CLAIMED, **of), order=Order.EXPIRY, **bounds)
    for outcome in Outcome:
        ended = Filter(states=[State(outcome.value)], **of)
        page = partial(store.select, ended, order=Order.END, descending=True, **bounds)
        if (end := page().next) is not None:
            page(after=end)
    store.count([Filter(**of)], most=BATCH)


@pytest.fixture(params=["none", "stale", "fresh"])
def statistics(request: pytest.FixtureRequest) -> str:
    """Of which moment: of none, of when all was empty, of now."""
    return str(request.param)


@pytest.mark.exhaustive
def test_whatever_statistics_say_nothing_reads_a_table(
    postgresql_server: str, statistics: str
) -> None:
    with (
        servers.fresh_database(postgresql_server) as url,
        closing(ExplainingPostgreSQLStore(url)) as store,
    ):
        store.initialize()
        with servers.connected(url) as connection:
            leave_alone(connection)
            fill_with(connection, statistics)
        found = Explained(store.scans)
        live_through(store, found)
        use(store, url, found)
    for name, scans in found.items():
        for scan in (each for each in scans if each.table != "task_nodes"):
            # Of an index, what rows were before is looked at as well.
            assert scan.rows <= 10 * MOST_ROWS, f"{name}: {scan}"


@pytest.mark.exhaustive
def test_whatever_statistics_say_nothing_reads_a_table_on_cockroachdb(
    cockroachdb_url: str, statistics: str
) -> None:
    with (
        none_collected(cockroachdb_url),
        servers.fresh_database(cockroachdb_url) as url,
        closing(ExplainingCockroachDBStore(url)) as store,
    ):
        store.initialize()
        with servers.connected(url) as connection:
            fill_with(connection, statistics)
        explained = found = Explained(store.plans)
        live_through(store, explained)
        use(store, url, explained)
        store.select(Filter(key="a"), limit=BATCH, scan_limit=KEYS_LOOKED_AT)
        explained("search key")
        [one] = store.select_definitions(limit=1)
        store.plans.clear()
        count_unstarted(store, one.id, most=BATCH)
        explained("count waiting")
        unfired = Filter(definition_id=one.id, fired=False)
        store.select(unfired, descending=True, limit=BATCH, scan_limit=BATCH)
        explained("unscheduled")
        for of in RESTRICTIONS:
            store.count([Filter(**of)], most=BATCH)
        explained("counts of some")
    for name, plans in found.items():
        for plan in plans:
            assert not re.search(WHOLE, plan), f"{name}: {plan}"
    # By that of fire times it would read all that a definition ever had.
    assert not any("task_instances_fire_key" in plan for plan in found["add of few"])


@contextmanager
def none_collected(url: str) -> Iterator[None]:
    """Let the server look at no table by itself, not even at new ones."""
    setting = "CLUSTER SETTING sql.stats.automatic_collection.enabled"
    with servers.connected(url) as connection:
        [(before,)] = connection.execute(f"SHOW {setting}".encode()).fetchall()
        connection.execute(f"SET {setting} = false".encode())
        try:
            yield
        finally:
            connection.execute(f"SET {setting} = {before}".encode())


def fill_with(connection: psycopg.Connection, statistics: str) -> None:
    if statistics == "stale":
        analyse(connection)
    make_rows(connection, 50_000)
    if statistics == "fresh":
        analyse(connection)


def analyse(connection: psycopg.Connection) -> None:
    for table in TABLES:
        connection.execute(f"ANALYZE {table}".encode())


def live_through(store: Store, explained: Explained) -> None:
    """Let a batch of definitions live its whole life, and name each of its steps."""
    now = store.now()
    new = definitions(IntervalTrigger(HOUR, anchor=now), now)
    soon = [
        replace(each, next_fire_time=now + number * timedelta(milliseconds=1))
        for number, each in enumerate(new)
    ]
    made = store.put_definitions(soon).definitions
    explained("put")
    due = store.due_definitions(ahead=HOUR / 2, limit=BATCH)
    assert {*ids(due)} == {*ids(made)}
    explained("due")
    firings = [
        firing(each, at, at + LATER, next_fire_time=now + 1000 * HOUR)
        for each in due
        if (at := each.next_fire_time) is not None
    ]
    assert len(store.fire_definitions(firings).done) == BATCH
    explained("fire")
    assert claim(store, queues=["idle"], ahead=LATER, limit=BATCH) == []
    explained("claim nothing")
    instances = claim(store, limit=BATCH, ahead=LATER / 2)
    assert len(instances) == BATCH
    explained("claim")
    assert len(store.start_instances(NODE, claims(instances)).done) == BATCH
    explained("start")
    lapsing = [renewal_of(each, LEASE) for each in instances]
    assert len(store.renew_claims(lapsing).done) == BATCH
    explained("renew")
    accepted = [
        replace(each, handed_on=True, worker="w", stage=Stage.ACCEPTED)
        for each in lapsing
    ]
    assert len(store.renew_claims(accepted).done) == BATCH
    explained("hand on")
    released = [Release(claim=each) for each in claims(instances)]
    assert len(store.release_instances(released).done) == BATCH
    explained("release")
    assert list(store.list_due_queues(apart_from=["default", "mail"])) == []
    assert list(store.list_due_queues(apart_from=["a", "z"])) == ["default"]
    explained("due queues")
    again = claim(store, limit=BATCH, ahead=LATER / 2)
    assert {*ids(again)} == {*ids(instances)}
    explained("claim")
    store.renew_claims([renewal_of(each, TICK) for each in again])
    explained("renew")
    taken = claim(store, limit=BATCH, ahead=-HOUR, lapsed=True)
    assert {*ids(taken)} == {*ids(instances)}
    explained("claim lapsed")
    over = [end_of(each, deletes=True) for each in taken[: BATCH // 2]]
    ends = [*over, *(end_of(each) for each in taken[BATCH // 2 :])]
    assert len(store.finish_instances(ends).done) == BATCH
    explained("finish")
    waiting = claim(store, limit=BATCH, ahead=HOUR / 2)
    explained("claim")
    store.release_instances([Release(claim=each) for each in claims(waiting)])
    explained("release")
    assert len(store.cancel_instances({waiting[0].id: None})) == 1
    explained("cancel")
    # To count how many there are it reads as many as it keeps.
    store.most_remembered = BATCH
    assert clean_up(store, older_than=ZERO, limit=BATCH) == BATCH
    clean_up(store, older_than=1000 * HOUR, limit=BATCH)
    explained("clean up")


def create(store: Store, explained: Explained) -> None:
    """Create what is started by the write that creates it."""
    once = TaskDefinition(
        id=uuid4(), trigger=ExecuteOnceTrigger(store.now()), next_fire_time=store.now()
    )
    step = Firing(definition=once, fire_times=(store.now(),), next_fire_time=None)
    assert store.put_definitions([once], firings=[step], claimant=NODE).started
    explained("put and start")
    stored = store.put_definitions(
        [replace(once, id=uuid4()) for _ in range(BATCH)]
    ).definitions
    explained("put")
    steps = [replace(step, definition=each) for each in stored]
    assert len(store.fire_definitions(steps, claimant=NODE).started) == BATCH
    explained("fire and start")
    on_demand = put(store, task())
    explained("put")
    additions = [Addition() for _ in range(BATCH)]
    added = store.add_instances(on_demand.id, additions, claimant=NODE)
    assert len([each for each in added if each.claimed_by]) == BATCH
    explained("add and start")


def exclude(store: Store, explained: Explained) -> None:
    """Let most of a batch wait for slots, and be decided on, or go on."""
    new = [task(lock="a"), task(overlap=Overlap.SKIP)]
    locked, skipped = store.put_definitions(new).definitions
    explained("put")
    for each in (locked, skipped):
        store.add_instances(each.id, [Addition() for _ in range(BATCH // 2)])
    # What is added is not what is looked at here.
    explained("add")
    started = store.start_instances(
        NODE, claims(claim(store, limit=BATCH, ahead=ZERO))
    ).done
    runs = [each for each in started if each.started_at is not None]
    explained("park")
    settle(store)
    assert len(store.review_parked(limit=BATCH).skipped) == BATCH // 2 - 1
    explained("review")
    store.finish_instances([end_of(each) for each in runs])
    explained("finish")
    settle(store)
    assert len(store.review_parked(limit=BATCH).unparked) == 1
    explained("review")


def use(store: PostgreSQLStore, url: str, explained: Explained) -> None:
    """Do what users do, with definitions that wait, and meet what is locked."""
    now = store.now()
    given = definitions(DelayTrigger(HOUR), now)
    stored = store.put_definitions(given).definitions
    keys = ids(stored)
    explained("put")
    store.put_definitions(
        [replace(each, name="new", queue="new") for each in stored[:5]]
    )
    explained("edit")
    store.pause_definitions(keys[:5])
    store.resume_definitions(keys[:5])
    explained("pause and resume")
    # Of more, PostgreSQL may well find the whole table cheaper at this size.
    [some] = store.select_definitions(DefinitionFilter(ids=keys[:1]))
    assert store.get_definition(keys[0]) == some
    explained("read definitions")
    settle(store)
    read = store.due_definitions(ahead=ZERO, limit=BATCH)
    assert {*ids(read)} == {*keys}
    explained("due")
    firings = [firing(each, now) for each in read]
    with locked(url, "task_definitions", read[0].id, "AND deleted_at IS NULL"):
        fired = store.fire_definitions(firings)
    assert fired.busy == {read[0].id}
    assert len(fired.done) == BATCH - 1
    explained("fire what waits, past a lock")
    [made] = store.select(Filter(definition_id=read[1].id))
    assert store.get_instance(made.id) == made
    explained("read instances")
    mine = TaskDefinition(id=uuid4(), trigger=OnDemandTrigger(), named=True)
    store.declare_definitions(Declaration(owner="app", definitions=[mine]))
    add(store, mine, id=uuid4(), key="a")
    explained("add")
    limited = put(store, replace(task(max_queue=BATCH), id=uuid4()))
    add(store, limited, id=uuid4(), key="a", at=now + HOUR)
    explained("add of few")
    [made] = store.select(Filter(definition_id=mine.id, key="a", owners={"app"}))
    assert [made.definition] == store.select_definitions(
        DefinitionFilter(owners={"app"})
    )
    explained("read by owner or key")
    claimed = claim(store, limit=BATCH, ahead=ZERO)
    held = store.list_claimed(NODE.node, limit=BATCH)
    assert {*ids(held)} == {*ids(claimed)}
    explained("claim")
    # A start and an end must read the contents as well, if they are not known yet.
    store._reader._contents = ContentsCache()
    with locked(url, "task_instances", claimed[0].id):
        started = store.start_instances(NODE, claims(claimed))
        # On a busy machine what writes the others may take too long as well.
        assert claimed[0].id in started.busy
        explained("start past a lock")
        finished = store.finish_instances([end_of(each) for each in claimed])
        assert claimed[0].id in finished.busy
        explained("finish past a lock")
    store.delete_definitions(keys)
    explained("delete")
    again = [replace(each, revision=None) for each in given]
    assert store.put_definitions(again).definitions[0].revision != 1
    explained("put again")


@contextmanager
def locked(url: str, table: str, id: UUID, live: str = "") -> Iterator[None]:
    """A row that a user has locked, found by an index: else others would be as well."""
    with servers.connected(url) as user, user.transaction(force_rollback=True):
        query = f"SELECT 1 FROM {table} WHERE id = %s {live} FOR UPDATE"
        assert user.execute(query.encode(), [id]).fetchone()
        yield


def claims(instances: Sequence[TaskInstance]) -> list[Claim]:
    return [claim_of(each) for each in instances]


def definitions(trigger: Trigger, at: datetime | None) -> list[TaskDefinition]:
    """A batch of them, each with an id of its own."""
    new = TaskDefinition(trigger=trigger, next_fire_time=at)
    return [replace(new, id=uuid4()) for _ in range(BATCH)]


class Explained(dict[str, list[Any]]):
    """What was read by each step, by its name."""

    def __init__(self, read: list[Any]) -> None:
        self._read = read

    def __call__(self, name: str) -> None:
        """Call what has been read since the last step by the name of this one."""
        self.setdefault(name, []).extend(self._read)
        self._read.clear()
