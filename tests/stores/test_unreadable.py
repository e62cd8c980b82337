"""What was written by hand into a SQL store and cannot be read costs only itself."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest
from sqlalchemy import make_url

from go_scheduler.clock import ZERO
from go_scheduler.errors import TaskDefinitionNotFoundError
from go_scheduler.models import QueueStats, State
from go_scheduler.stores.messages import Addition, Announcement
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    NODE,
    SECOND,
    claim,
    claimed,
    clean_up,
    definition,
    ended,
    finish,
    fire,
    ids,
    instances,
    pending,
    put,
    release,
    renew,
    running,
    start,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.on_demand import OnDemandTrigger
from go_scheduler.triggers.stored import UnknownTrigger
from tests.conftest import SQL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

    Write = Callable[[str, str, UUID], None]
    """Into a table, what to set, of the row with an id."""

TIMES = {
    "sqlite": ("9223372036854775807", "-9223372036854775808", "'noon'", "1.5"),
    "postgresql": ("'infinity'", "'-infinity'", "'20000-01-01'", "'0044-03-15 BC'"),
}
UNREADABLE = [
    pytest.param(engine, value, id=f"{engine} {value}", marks=pytest.mark.slow)
    for engine, values in TIMES.items()
    for value in values
]


@pytest.fixture(params=SQL[:2])
def engine(request: pytest.FixtureRequest) -> str:
    """The kind of store."""
    kind: str = request.param
    return kind


@pytest.fixture
def write(store_url: str) -> Write:
    """Writes by hand."""

    def write(table: str, change: str, id: UUID) -> None:
        by_hand(store_url, f"UPDATE {table} SET {change} WHERE id = '{{}}'", id)

    return write


def by_hand(store_url: str, statement: str, id: UUID) -> None:
    """Change one row, as somebody might who knows its id or key."""
    url = make_url(store_url)
    if url.drivername == "sqlite":
        with closing(sqlite3.connect(url.database or "")) as file, file:
            assert file.execute(statement.format(id.hex)).rowcount == 1
        return
    libpq = url.set(drivername="postgresql")
    with psycopg.connect(libpq.render_as_string(hide_password=False)) as hand:
        assert hand.execute(statement.format(id).encode()).rowcount == 1


@pytest.mark.parametrize(("engine", "value"), UNREADABLE, indirect=["engine"])
class TestEdits:
    """Definitions that cannot be read are paused, resumed and deleted like others."""

    def test_of_a_definition(self, store: Store, write: Write, value: str) -> None:
        later = START + HOUR
        read = put(store, definition(later))
        fire(store, read, next_fire_time=later + HOUR)
        write("task_definitions", f"next_fire_time = {value}", read.id)
        [paused] = store.pause_definitions([read.id], note="odd")
        assert (paused.paused, paused.note) == (True, "odd")
        # What was removed is served anew, for that can be read.
        assert paused.next_fire_time == later
        [resumed] = store.resume_definitions([read.id])
        assert not resumed.paused
        assert store.delete_definitions([read.id]).keys() == {read.id}

    def test_of_a_definition_without_instances(
        self, store: Store, write: Write, value: str
    ) -> None:
        read = put(store)
        write("task_definitions", f"next_fire_time = {value}", read.id)
        [paused] = store.pause_definitions([read.id])
        assert (paused.paused, paused.next_fire_time) == (True, None)
        assert store.get_definition(read.id).paused
        [resumed] = store.resume_definitions([read.id])
        assert (resumed.paused, resumed.next_fire_time) == (False, None)
        assert store.delete_definitions([read.id]).keys() == {read.id}

    @pytest.mark.parametrize(
        "columns", ["fire_time", "due_at", "execute_at", "claimable_at", "expires_at"]
    )
    def test_of_a_definition_with_an_instance(
        self, store: Store, write: Write, value: str, columns: str
    ) -> None:
        read = put(store)
        bad, good = fire(store, read, START, START + HOUR)
        write("task_instances", f"{columns} = {value}", bad.id)
        [paused] = store.pause_definitions([read.id])
        assert paused.next_fire_time in (START, START + HOUR)
        [resumed] = store.resume_definitions([read.id])
        assert resumed.next_fire_time == paused.next_fire_time
        assert good.id not in ids(instances(store, read))
        new = replace(resumed, name="edited", queue="other", expire_after=MINUTE)
        assert put(store, new).name == "edited"
        assert store.delete_definitions([read.id]).keys() == {read.id}
        with pytest.raises(TaskDefinitionNotFoundError):
            store.get_definition(read.id)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "change", ["completed_at = 'noon'", "trigger_state = 'odd'", "trigger_kind = 'odd'"]
)
def test_an_id_whose_tombstone_cannot_be_read_runs_again(
    store: Store, write: Write, change: str
) -> None:
    new = definition(key=7)
    ended(store, new)
    assert clean_up(store) == 2
    write("task_tombstones", change, new.id)
    assert put(store, new).completed_at is None
    assert store.delete_definitions([new.id]).keys() == {new.id}
    again = put(store, new)
    claimed = fire(store, again)
    assert len(claimed) == 1


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "change",
    [
        "ended = 'odd'",
        "ended = '[]'",
        "lateness = '{\"soon\": 1}'",
        "lateness = '{\"500\": null}'",
        "begins_at = begins_at + 0.5",
    ],
)
def test_counts_that_cannot_be_read_are_left_out(
    store: Store, store_url: str, change: str
) -> None:
    good = QueueStats(at=START, queue="mail", ended={"failed": 1})
    store.note_stats(NODE, [replace(good, queue="odd")])
    set_all = f"UPDATE task_stats SET {change.replace('{', '{{').replace('}', '}}')}"
    by_hand(store_url, f"{set_all} WHERE node = '{{}}'", NODE)
    store.note_stats(NODE, [good])
    found = store.list_stats(since=START, until=START + MINUTE)
    assert found == [good]


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_delete_forgets_a_tombstone_that_could_not_be_read(
    store: Store, write: Write
) -> None:
    new = definition(key=7)
    ended(store, new)
    assert clean_up(store) == 2
    write("task_tombstones", "trigger_state = 'odd'", new.id)
    assert put(store, new).completed_at is None
    assert store.delete_definitions([new.id]).keys() == {new.id}
    with pytest.raises(AssertionError, match="rowcount"):
        write("task_tombstones", "revision = 1", new.id)


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"], indirect=True)
def test_of_a_definition_that_has_no_contents_nothing_is_remembered(
    store: Store, store_url: str
) -> None:
    new = put(store, definition(None, key=7))
    key = "SELECT key FROM task_definitions WHERE id = '{}'"
    by_hand(store_url, f"DELETE FROM task_contents WHERE key = ({key})", new.id)
    assert clean_up(store) == 1
    assert put(store, definition(key=7)).completed_at is None
    assert store.get_definition(new.id).next_fire_time == START


@pytest.mark.parametrize(
    "change",
    [
        "expire_after = -9223372036854775808",
        "expire_after = 9223372036854775807",
        "due_at = 9223372036854775807, claimable_at = -9223372036854775808",
        "due_at = -9223372036854775808, claimable_at = -9223372036854775808",
        "due_at = 9223372036854775807",
        "claimable_at = -9223372036854775808",
        "attempt = 9223372036854775807",
        "runs = 9223372036854775807",
        "due_at = 'noon'",
        "expire_after = 'soon'",
        "expire_after = 1.5",
    ],
)
@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
class TestNumbersOutOfRange:
    """SQLite keeps whatever it is given."""

    def test_no_claim_is_without_an_end(
        self, store: Store, clock: ManualClock, write: Write, change: str
    ) -> None:
        bad, *good = (pending(store) for _ in range(3))
        write("task_instances", change, bad.id)
        taken = [*claim(store, limit=2), *claim(store, limit=2)]
        assert {*ids(good)} <= {*ids(taken)}
        assert_judged(taken)
        clock.advance(HOUR)
        assert_judged(claim(store, lapsed=True))

    def test_no_start_is_without_an_end(
        self, store: Store, write: Write, change: str
    ) -> None:
        bad, *good = (claimed(store, definition(START + SECOND)) for _ in range(3))
        write("task_instances", change, bad.id)
        started = start(store, bad, *good)
        assert {*ids(good)} <= {*ids(started)}
        assert_judged(started)
        assert_judged(store.list_claimed(NODE))

    def test_the_others_are_renewed_given_back_and_recorded(
        self, store: Store, write: Write, change: str
    ) -> None:
        bad, *good = (running(store) for _ in range(3))
        write("task_instances", change, bad.id)
        assert renew(store, bad, *good).keys() >= {*ids(good)}
        for each in (bad, good[0]):
            release(store, each)
        finish(store, good[1])
        states = [store.get_instance(each.id).state for each in good]
        assert states == [State.PENDING, State.COMPLETED]


@pytest.mark.parametrize("engine", SQL[:2], indirect=True)
def test_what_has_an_unreadable_payload_is_not_run(store: Store, write: Write) -> None:
    of = put(store, definition(None, trigger=OnDemandTrigger()))
    [added] = store.add_instances(of.id, [Addition(payload={"n": 1})])
    write("task_instances", "payload = '[1'", added.id)
    [found] = claim(store)
    assert isinstance(found.definition.trigger, UnknownTrigger)
    assert "payload" in found.definition.trigger.reason
    assert found.payload is None


@pytest.mark.parametrize("text", ["[1", "nan", "", "[" * 100_000], ids=len)
@pytest.mark.parametrize("engine", SQL[:2], indirect=True)
def test_of_a_result_that_cannot_be_read_nothing_is_known(
    store: Store, write: Write, text: str
) -> None:
    bad, good = running(store), running(store)
    assert finish(store, bad)
    assert finish(store, good)
    write("task_instances", f"result = '{text}'", bad.id)
    found = store.get_instance(bad.id)
    assert (found.state, found.result) == (State.COMPLETED, None)
    assert isinstance(found.definition.trigger, UnknownTrigger)
    assert found.definition.trigger.reason.endswith("cannot be read: result")
    assert {*store.list_instances()} == {found, store.get_instance(good.id)}


@pytest.mark.parametrize("change", ["outcome = 'lunch'", "ended_at = {}"])
def test_a_run_that_cannot_be_read_is_left_out(
    store: Store, engine: str, store_url: str, change: str
) -> None:
    instance = running(store)
    for _ in range(2):
        assert finish(store, instance, None)
        [instance] = claim(store)
    change = change.format(TIMES[engine][0])
    statement = (
        f"UPDATE task_runs SET {change} WHERE attempt = 1 AND instance_id = '{{}}'"
    )
    by_hand(store_url, statement, instance.id)
    assert [run.attempt for run in store.list_runs(instance.id)] == [2]


@pytest.mark.parametrize("value", ["NULL", "'odd'", "'3'"])
@pytest.mark.parametrize("engine", ["sqlite", "postgresql"], indirect=True)
def test_of_queues_that_cannot_be_read_nobody_knows(
    store: Store, store_url: str, value: str
) -> None:
    store.note_contact(Announcement(node=NODE, queues=("mail",)), unbroken=ZERO)
    change = f"UPDATE task_nodes SET queues = {value} WHERE node = '{{}}'"
    by_hand(store_url, change, NODE)
    [contact] = store.list_contacts(within=HOUR)
    announced = contact.announced
    assert (announced.node, announced.queues) == (NODE, None)


@pytest.mark.parametrize(("engine", "value"), UNREADABLE, indirect=["engine"])
def test_a_claim_whose_end_cannot_be_read_is_not_handed_out(
    store: Store, write: Write, value: str
) -> None:
    bad, good = running(store), running(store)
    write("task_instances", f"expires_at = {value}", bad.id)
    assert ids(start(store, bad, good)) == [good.id]
    assert ids(store.list_claimed(NODE)) == [good.id]
    # Its owner may still give it an end that can be read.
    renew(store, bad)
    assert store.get_instance(bad.id).expires_at == START + LEASE


def assert_judged(given: Sequence[TaskInstance]) -> None:
    """Each has a claim that ends at some time."""
    assert all(each.expires_at is not None for each in given)
