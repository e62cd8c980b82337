"""What the checker of traces finds: stores that keep their rules, and others."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from go_scheduler.models import Outcome
from go_scheduler.stores.messages import Answer, Release
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.sql import claims, runs
from go_scheduler.stores.sql import firing as fires
from go_scheduler.stores.sql.statement import Write
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    OTHER_NODE,
    SECOND,
    TICK,
    cancel,
    claim,
    claimed,
    definition,
    ended,
    finish,
    firing,
    put,
    release,
    renew,
    running,
    start,
)
from go_scheduler.testing.clock import START
from tests.conftest import SQL
from tests.faults import failing_statements
from tests.traces import (
    Row,
    Step,
    check_traces,
    is_possible,
    of_instance,
    recorded,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Set
    from datetime import timedelta
    from pathlib import Path
    from uuid import UUID

    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


FINISHES = ["_FINISH", "_FINISH_WITH_RESULTS", "_FINISH_IN_FULL"]


@contextmanager
def written(store: Store, clock: ManualClock, folder: Path) -> Iterator[None]:
    """Have what a store is asked written; no two calls are at the same moment."""
    ticks = count()

    def elapsed(_: Store) -> timedelta:
        return clock.elapsed() + next(ticks) * TICK

    with recorded(type(store), folder / "here.calls", elapsed=elapsed):
        yield


def story(store: Store, clock: ManualClock) -> None:
    """Claims that lapse, ends that come late, retries, edits, firings that lose."""
    first = running(store)
    claim(store, OTHER_NODE, lapsed=True)
    clock.advance(LEASE)
    [second] = claim(store, OTHER_NODE, lapsed=True)
    clock.advance(SECOND)
    renew(store, first)
    start(store, first)
    # A node may have both.
    start(store, first, second)
    finish(store, first, Outcome.FAILED)
    release(store, first)
    finish(store, second, None)
    [third] = claim(store)
    # The first success counts, of whichever run; and no later one does.
    finish(store, first)
    finish(store, third, result="1")
    finish(store, third)
    failed = ended(store, definition(clock.now()), Outcome.FAILED)
    store.reopen_instances([failed.id])
    cancel(store, failed)
    mine = claimed(store, definition(clock.now() + SECOND))
    put(store, replace(mine.definition, queue="other"))
    start(store, mine)
    read = put(store, definition(clock.now()))
    edited = put(store, replace(read, name="b"))
    for each in (read, edited, edited):
        store.fire_definitions([firing(each, next_fire_time=START + HOUR)])
    store.pause_definitions([read.id])
    store.resume_definitions([read.id])
    store.fire_definitions([firing(edited)])


def test_what_a_store_does_by_its_rules_is_possible(
    store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    with written(store, clock, tmp_path):
        story(store, clock)
    assert check_traces(tmp_path) > 25


@pytest.mark.parametrize("engine", SQL[1:2])
def test_what_was_repeated_may_have_been_done_before(
    store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    assert isinstance(store, PostgreSQLStore)
    unknown = psycopg.errors.StatementCompletionUnknown
    with written(store, clock, tmp_path):
        mine = claimed(store)
        with failing_statements(store, share=1, error=unknown, when="after", most=1):
            assert not release(store, mine)
        assert claim(store, OTHER_NODE, ahead=SECOND)
    check_traces(tmp_path)


def test_what_is_refused_and_was_not_repeated_has_not_been_done(
    store: Store,
    clock: ManualClock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = type(store).release_instances

    def refuse(self: Store, releases: Sequence[Release]) -> Answer[Set[UUID]]:
        done(self, releases)
        return Answer(done=frozenset())

    monkeypatch.setattr(type(store), "release_instances", refuse)
    with written(store, clock, tmp_path):
        assert not release(store, claimed(store))
    with pytest.raises(AssertionError, match="no order explains"):
        check_traces(tmp_path)


def test_a_start_without_an_answer_may_have_parked() -> None:
    first, again = (
        Step(kind="claim", of="a", attempt=each, ok=True, lease=20, begin=at, end=at)
        for each, at in ((1, 1), (2, 3))
    )
    start = Step(kind="start", of="a", attempt=1, lease=20, begin=2)
    assert is_possible(Row(), of_instance, [first, start, again])
    assert not is_possible(Row(), of_instance, [first, again])


# A condition, by what it is replaced, and in which statements.
GUARDS = {
    "start: owned": ("t.attempt = x.attempt", "true", runs, ["_START"]),
    "renew: owned": ("t.attempt = x.attempt", "true", runs, ["_RENEW"]),
    "release: owned": ("t.attempt = x.attempt", "true", runs, ["_RELEASE"]),
    "finish: owned": ("(t.attempt = x.attempt", "(true", runs, FINISHES),
    "finish: first": ("OR t.outcome = 'failed'", "OR true", runs, FINISHES),
    "claim: lapsed": (
        "t.expires_at <= now()",
        "true OR now() <= now()",
        claims,
        ["claim_lapsed", "_LOOK"],
    ),
    "claim: attempt": (
        "attempt = t.attempt + 1",
        "attempt = t.attempt",
        claims,
        ["claim_lapsed"],
    ),
    "fire: read": (
        "d.next_fire_time IS NOT DISTINCT FROM x.expected",
        "true",
        fires,
        ["_FIRE"],
    ),
    "fire: revision": ("d.revision = x.revision", "true", fires, ["_FIRE"]),
}


@pytest.mark.parametrize("engine", SQL[:2])
@pytest.mark.parametrize("guard", GUARDS)
def test_a_statement_without_one_of_its_conditions_is_found(
    store: Store,
    clock: ManualClock,
    tmp_path: Path,
    guard: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    condition, other, module, names = GUARDS[guard]
    for name in names:
        broken = without(getattr(module, name), condition, other)
        monkeypatch.setattr(module, name, broken)
    # Whatever it answers then.
    with written(store, clock, tmp_path), suppress(AssertionError, ValueError):
        story(store, clock)
    with pytest.raises(AssertionError, match="no order explains"):
        check_traces(tmp_path)


def without(given: Any, condition: str, other: str) -> Any:
    """A statement that has another condition."""
    if callable(given):
        return lambda *which: without(given(*which), condition, other)
    if isinstance(given, Write):
        return replace(given, statement=without(given.statement, condition, other))
    sql = given.sql.replace(condition, other)
    assert sql != given.sql, "the statement has not got this condition"
    return replace(given, sql=sql)
