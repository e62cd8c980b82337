"""Store suite: what pages show is read, listed and counted, with times and traces.

A store may keep no trace, of definitions and of instances: then it has none of any.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.errors import TaskInstanceNotFoundError
from go_scheduler.models import Counted, Outcome, Skipped, State
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Addition, Firing, Position
from go_scheduler.stores.rules import Declaration, by_end
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    NOBODY,
    SECOND,
    TICK,
    WAITING,
    claim,
    claimant,
    claimed,
    clean_up,
    definition,
    ended,
    finish,
    fire,
    firing,
    ids,
    pending,
    put,
    running,
    start,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.on_demand import OnDemandTrigger

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


def one_of_each_state(store: Store) -> dict[State, TaskInstance]:
    """An instance in each state, each of its own definition."""
    made = {State(each.value): ended(store, outcome=each) for each in Outcome}
    made[State.RUNNING] = running(store)
    asked = running(store)
    store.cancel_instances({asked.id: None})
    made[State.CANCELLING] = store.get_instance(asked.id)
    made[State.CLAIMED] = claimed(store)
    made[State.PENDING] = pending(store)
    return made


def ids_in_pages(store: Store, limit: int, **conditions: Any) -> list[UUID]:
    """The ids of the instances that meet conditions, read page by page."""
    read: list[UUID] = []
    after = None
    while page := store.list_instances(after=after, limit=limit, **conditions):
        assert len(page) <= limit, "a page has more instances than its limit"
        read += ids(page)
        after = Position.of_instance(page[-1])
    return read


class InstanceListTests:
    """``list_instances``, ``get_instance`` and ``counts``."""

    def test_many_instances_are_found_by_their_ids(self, store: Store) -> None:
        known = one_of_each_state(store).values()
        found = store.find_instances([NOBODY, *(each.id for each in known)])
        assert found == {each.id: store.get_instance(each.id) for each in known}
        assert store.find_instances([]) == {}
        with pytest.raises(TaskInstanceNotFoundError) as caught:
            store.get_instance(NOBODY)
        assert caught.value.instance_id == NOBODY

    def test_pages_of_instances_follow_each_other(self, store: Store) -> None:
        fire_times = (START + HOUR, START, START - TICK, START + SECOND)
        for _ in range(3):
            new = put(store)
            made = fire(store, new, *fire_times)
        everything = store.list_instances()
        order = [(each.execute_at, each.id) for each in everything]
        assert len(order) == 12
        assert order == sorted(order)
        assert made == [each for each in everything if each.definition == new]
        for newest_first in (False, True):
            step = -1 if newest_first else 1
            for of, since in product((None, new.id), (None, START)):
                expected = [
                    each.id
                    for each in everything[::step]
                    if of in (None, each.definition.id)
                    and (since is None or each.execute_at >= since)
                ]
                for limit in (1, 2, 5):
                    found = ids_in_pages(
                        store,
                        limit,
                        definition_id=of,
                        since=since,
                        newest_first=newest_first,
                    )
                    assert found == expected, f"of {of} since {since} by {limit}"

    def test_newest_first_is_the_same_backwards(self, store: Store) -> None:
        retried = waiting_for_retry(store, retry_in=HOUR)
        later = pending(store, definition(START + SECOND))
        # A retry keeps its place.
        assert ids(store.list_instances()) == [retried.id, later.id]
        assert ids(store.list_instances(newest_first=True)) == [later.id, retried.id]

    def test_a_page_follows_an_instance_that_is_gone(self, store: Store) -> None:
        gone = pending(store)
        kept = pending(store, definition(START + SECOND))
        store.delete_definitions([gone.definition.id])
        end = Position.of_instance(gone)
        assert ids(store.list_instances(after=end)) == [kept.id]

    def test_a_page_has_100_instances_by_default(self, store: Store) -> None:
        fire(store, put(store), *(START + number * TICK for number in range(101)))
        assert len(store.list_instances()) == 100

    def test_by_definition(self, store: Store) -> None:
        mine = running(store, definition(metadata={"a": 1}))
        pending(store)
        assert store.list_instances(definition_id=mine.definition.id) == [mine]
        assert store.list_instances(definition_id=NOBODY) == []

    def test_by_state(self, store: Store, clock: ManualClock) -> None:
        made = one_of_each_state(store)
        fire(store, put(store), *(START + number * SECOND for number in range(3)))
        # A claim that has lapsed still counts as claimed.
        clock.advance(HOUR)
        for state, each in made.items():
            of = each.definition.id
            if state is not State.PENDING:
                assert ids(store.list_instances(state=state)) == [each.id], state
            assert ids(store.list_instances(state=state, definition_id=of)) == [each.id]
            other = State.FAILED if state is State.PENDING else State.PENDING
            assert store.list_instances(state=other, definition_id=of) == [], state
        assert len(store.list_instances(state=State.PENDING, limit=3)) == 3

    def test_by_the_name_of_their_definition(self, store: Store) -> None:
        left = ended(store, definition(name="a"))
        mine = pending(store, definition(name="a"))
        pending(store, definition(name="b"))
        pending(store)
        assert {*ids(store.list_instances(name="a"))} == {left.id, mine.id}
        store.delete_definitions([left.definition.id, mine.definition.id])
        assert ids(store.list_instances(name="a")) == [left.id]

    def test_by_their_key(self, store: Store) -> None:
        new, other = put(store), put(store)
        for each in (new, other):
            store.add_instances(each.id, [Addition(key="a")])
            fire(store, each)
        assert len(store.list_instances(key="a")) == 2
        [found] = store.list_instances(key="a", definition_id=new.id)
        assert (found.key, found.definition.id) == ("a", new.id)
        for of, state in ((new.id, State.COMPLETED), (NOBODY, None)):
            assert store.list_instances(key="a", definition_id=of, state=state) == []
        assert store.list_instances(key="b", definition_id=new.id) == []

    def test_by_the_fire_time_whenever_they_are_to_run(self, store: Store) -> None:
        new, other = put(store), put(store)
        times = (START, START + SECOND, START + HOUR)
        later = tuple(each + 2 * HOUR for each in times)
        step = replace(firing(new, *times), execute_times=later)
        assert store.fire_definitions([step]).done == {new.id}
        fire(store, other, START)
        store.add_instances(new.id, [Addition(id=NOBODY, at=START)])
        for since, before, expected in (
            (START, START + SECOND, [START]),
            (START + SECOND, None, [*times[1:]]),
            (None, START + HOUR, [*times[:2]]),
            (START + TICK, START + SECOND, []),
            (None, None, [None, *times]),
        ):
            found = store.list_instances(
                definition_id=new.id, fired_since=since, fired_before=before
            )
            assert [each.fire_time for each in found] == expected

    def test_every_state_has_a_count(self, store: Store) -> None:
        assert store.counts() == dict.fromkeys(State, 0)
        made = one_of_each_state(store)
        pending(store, definition(START + SECOND))
        assert store.counts() == {**dict.fromkeys(State, 1), State.PENDING: 2}
        store.delete_definitions([each.definition.id for each in made.values()])
        clean_up(store)
        assert store.counts() == dict.fromkeys(State, 0) | {State.PENDING: 1}


class ViewTests:
    """``counts_up_to``, ``list_backlog`` and the lists of ``ViewStore``."""

    def test_counts_are_exact_up_to_a_bound(self, store: Store) -> None:
        for outcome in (Outcome.COMPLETED, Outcome.FAILED) * 2:
            ended(store, outcome=outcome)
        one_of_each_state(store)
        for _ in range(3):
            pending(store)
        exact = dict.fromkeys(State, 1) | {State.COMPLETED: 3, State.FAILED: 3}
        exact[State.PENDING] = 4
        counts = store.counts_up_to(10)
        assert counts == {state: Counted(count=exact[state]) for state in State}
        for most in (2, 3):
            for state, found in store.counts_up_to(most).items():
                assert found.count <= most, state
                assert found.more or found.count == exact[state], (state, most)
        # Few that are claimed are counted amid many that wait.
        for state in (State.CLAIMED, State.RUNNING):
            assert store.counts_up_to(3)[state] == Counted(count=1)
        assert store.counts_up_to(2)[State.FAILED] == Counted(count=2, more=True)

    def test_counts_of_some_look_at_so_many_of_all(self, store: Store) -> None:
        running(store)
        for _ in range(3):
            ended(store)
            pending(store, definition(START + MINUTE, queue="other"))
        exact = dict.fromkeys(State, 0) | {State.RUNNING: 1, State.COMPLETED: 3}
        counts = store.counts_up_to(10, queues=["default"])
        assert counts == {state: Counted(count=exact[state]) for state in State}
        counts = store.counts_up_to(10, queues=["other"], owners=["ann"])
        assert set(counts.values()) == {Counted(count=0)}
        counts = store.counts_up_to(2, queues=["default"])
        assert counts[State.COMPLETED].more
        for state in State:
            assert counts[state].count <= exact[state]
            assert counts[state].more or counts[state].count == exact[state]
        assert store.counts_up_to(2, queues=["other"])[State.COMPLETED] == Counted(
            count=0, more=True
        )
        several = store.counts_up_to(2, queues=["default", "other", "third"])
        assert several[State.PENDING].more
        assert store.counts_up_to(2, owners=["ann"])[State.PENDING].count == 0

    def test_of_many_that_are_paused_more_is_said(self, store: Store) -> None:
        of = put(store, definition(START)).id
        store.add_instances(of, [Addition() for _ in range(3)])
        store.pause_definitions([of])
        for queues in (None, ["default"]):
            assert store.counts_up_to(2, queues=queues)[State.PENDING].more
            exact = store.counts_up_to(3, queues=queues)[State.PENDING]
            assert exact == Counted(count=3)

    def test_the_backlog_is_what_is_due_by_queue(self, store: Store) -> None:
        quick = definition(START - MINUTE, queue="quick")
        pending(store, replace(quick, priority=3))
        pending(store, definition(START - HOUR, queue="quick"))
        pending(store, definition(START - SECOND, queue="slow"))
        pending(store, definition(START + SECOND, queue="later"))
        paused = definition(START - HOUR, queue="paused")
        pending(store, paused)
        store.pause_definitions([paused.id])
        found = {each.queue: each for each in store.list_backlog(10)}
        assert list(found) == ["quick", "slow"]
        assert found["quick"].due == Counted(count=2)
        assert found["quick"].oldest == START - HOUR
        assert found["slow"].oldest == START - SECOND
        bounded = store.list_backlog(1)[0]
        assert bounded.due == Counted(count=1, more=True)

    def test_without_anything_nothing_is_shown(self, store: Store) -> None:
        put(store)
        assert store.list_backlog(10) == []
        assert list(store.list_claims(limit=10)) == []
        found = store.list_ended(Outcome.FAILED, limit=10)
        assert list(found.found) == []
        assert found.next is None
        assert set(store.counts_up_to(1).values()) == {Counted(count=0)}

    def test_what_ended_last_comes_first(
        self, store: Store, clock: ManualClock
    ) -> None:
        failed = []
        for seconds in (0, 0, 1, 1):
            clock.advance(seconds * SECOND)
            failed.append(ended(store, outcome=Outcome.FAILED))
        for outcome in Outcome:
            if outcome is not Outcome.FAILED:
                other = ended(store, outcome=outcome)
                page = store.list_ended(outcome, limit=10)
                assert (ids(page.found), page.next) == ([other.id], None)
        last_first = sorted(failed, key=by_end, reverse=True)
        for limit in (1, 2, 5):
            read: list[UUID] = []
            before = None
            while True:
                page = store.list_ended(Outcome.FAILED, before=before, limit=limit)
                assert len(page.found) <= limit
                read += ids(page.found)
                before = page.next
                if before is None:
                    break
            assert read == ids(last_first), f"in pages of {limit}"

    def test_claims_come_in_the_order_in_which_they_expire(
        self, store: Store, clock: ManualClock
    ) -> None:
        ended(store)
        first = running(store)
        clock.advance(SECOND)
        second = running(store)
        pending(store)
        assert ids(store.list_claims(limit=10)) == [first.id, second.id]
        assert ids(store.list_claims(limit=1)) == [first.id]

    def test_what_waits_comes_in_the_order_of_due_times(self, store: Store) -> None:
        later = pending(store, definition(START + HOUR, queue="quick"))
        soon = replace(definition(START - SECOND, queue="slow"), priority=3)
        first, paused = pending(store, soon), definition(START - HOUR)
        pending(store, paused)
        store.pause_definitions([paused.id])
        assert ids(store.list_waiting(limit=10)) == [first.id, later.id]
        assert ids(store.list_waiting(limit=1)) == [first.id]

    def test_views_are_of_some_queues_and_owners(self, store: Store) -> None:
        mine = _declared(store, "mine", "me")
        other = _declared(store, "other", "you")
        made = {id: _one_of_each(store, id) for id in (other, mine)}
        expected = [*made[mine], mine, made[mine][0]]
        for of in (["mine"], None), (None, ["me"]):
            assert _first_of_each_view(store, *of, limit=1) == expected
            assert _first_of_each_view(store, *of, limit=10) == expected
        backlog = store.list_backlog(9, queues=["mine"])
        assert [each.queue for each in backlog] == ["mine"]
        assert store.list_backlog(9, queues=[]) == []
        both = store.list_ended(
            Outcome.FAILED, queues=["mine"], owners=["you"], limit=10
        )
        assert (list(both.found), both.next) == ([], None)
        assert list(store.list_waiting(queues=["mine"], owners=["you"], limit=9)) == []

    def test_what_was_fired_is_in_the_order_of_fire_times(self, store: Store) -> None:
        made = put(store)
        fire(store, made, START - HOUR, START - MINUTE, START - SECOND, START)
        fire(store, put(store), START - MINUTE)
        minute, second = START - MINUTE, START - SECOND
        for of, newest_first, limit, expected in (
            (made.id, False, 10, [minute, second]),
            (made.id, False, 1, [minute]),
            (made.id, True, 1, [second]),
            (NOBODY, False, 1, []),
        ):
            found = store.list_fired(
                of, since=minute, before=START, newest_first=newest_first, limit=limit
            )
            assert [each.fire_time for each in found] == expected

    def test_what_was_fired_is_counted_span_by_span(self, store: Store) -> None:
        made = ended(store).definition
        # It has fired its last: an edit lets it go on.
        store.put_definitions([replace(made, priority=2, next_fire_time=START + HOUR)])
        read = store.get_definition(made.id)
        fire(store, read, *(START + number * SECOND for number in (1, 2, 3, 60, 61)))
        bounds = [START, START + MINUTE, START + HOUR, START + 2 * HOUR]
        done, open_one = State.COMPLETED, State.PENDING
        for most, first in ((10, {done: 1, open_one: 3}), (2, {done: 1, open_one: 1})):
            found = store.count_fired(made.id, bounds, most=most)
            assert found == [first, {open_one: 2}, {}]
        assert store.count_fired(NOBODY, bounds, most=2) == [{}, {}, {}]

    def test_what_was_made_by_hand_has_a_list_of_its_own(self, store: Store) -> None:
        made = put(store)
        fire(store, made, START)
        given = [Addition(at=START + SECOND * number) for number in range(3)]
        latest = ids(store.add_instances(made.id, given))[::-1]
        assert ids(store.list_unscheduled(made.id, limit=10)) == latest
        assert ids(store.list_unscheduled(made.id, limit=2)) == latest[:2]
        assert list(store.list_unscheduled(NOBODY, limit=2)) == []

    def test_names_are_found_by_how_they_begin(self, store: Store) -> None:
        names = ("report", "report daily", "rep%", "Report", None)
        made = {name: put(store, definition(name=name)) for name in names}
        for prefix, expected in (
            ("report", {"report", "report daily"}),
            ("rep%", {"rep%"}),
            ("x", set()),
        ):
            found = store.search_names(prefix, limit=10)
            assert {each.name for each in found} == expected
        assert len(store.search_names("rep", limit=2)) == 2
        store.delete_definitions([made["report"].id])
        [left] = store.search_names("report", limit=10)
        assert left.name == "report daily"

    def test_instances_are_found_by_their_keys(self, store: Store) -> None:
        tasks = [put(store, definition(trigger=OnDemandTrigger())) for _ in "ab"]
        for number, task in enumerate(tasks):
            given = [Addition(at=START + SECOND * number, key="order 7")]
            store.add_instances(task.id, [*given, Addition(at=START, key="order 8")])
        found = store.search_key("order 7", limit=10)
        assert [each.definition.id for each in found] == ids(tasks)
        assert [each.key for each in found] == ["order 7"] * 2
        assert len(store.search_key("order 7", limit=1)) == 1
        assert list(store.search_key("order 9", limit=10)) == []


def _declared(store: Store, queue: str, owner: str) -> UUID:
    """A definition of a queue and an owner."""
    made = definition(
        None, trigger=OnDemandTrigger(), name=f"name {queue}", queue=queue
    )
    store.declare_definitions(Declaration(owner=owner, definitions=[made]))
    return made.id


def _first_of_each_view(
    store: Store, queues: list[str] | None, owners: list[str] | None, *, limit: int
) -> list[UUID]:
    """The ids of what each view has, which is but one."""
    of: dict[str, Any] = {"queues": queues, "owners": owners, "limit": limit}
    views = (
        store.list_ended(Outcome.FAILED, **of).found,
        store.list_claims(**of),
        store.list_waiting(**of),
        store.search_names("na", **of),
        store.search_key("order 7", **of),
    )
    assert [len(each) for each in views] == [1] * 5
    return [each.id for view in views for each in view]


def _one_of_each(store: Store, of: UUID) -> list[UUID]:
    """The ids of one that failed, one that runs, and one that waits."""
    made = []
    queue = store.get_definition(of).queue
    for key in ("order 7", None):
        store.add_instances(of, [Addition(at=START - SECOND, key=key)])
        [started] = claim(store, queues=[queue])
        made.append(started.id)
        if key is not None:
            finish(store, started, Outcome.FAILED)
    [waiting] = store.add_instances(of, [Addition(at=START - SECOND)])
    return [*made, waiting.id]


MADE = START + MINUTE


def made_at(given: Iterable[TaskInstance]) -> list[datetime | None]:
    """When each was made."""
    return [each.created_at for each in given]


class MadeTests:
    """``created_at`` of instances."""

    def test_an_instance_knows_when_it_was_made(
        self, store: Store, clock: ManualClock
    ) -> None:
        fires = put(store, definition(START - HOUR))
        backfills, adds, edited = (put(store, definition()) for _ in range(3))
        clock.advance(MINUTE)
        skipped = Skipped(first=START - HOUR, last=START, count=2, reason="ä")
        step = Firing(definition=fires, fire_times=(START + HOUR,), skipped=skipped)
        assert store.fire_definitions([step]).done == {fires.id}
        store.backfill_instances(backfills, [START - HOUR], overlap=Overlap.ALLOW)
        given = [Addition(key="ä"), Addition(at=START + HOUR), Addition(delay=HOUR)]
        assert made_at(store.add_instances(adds.id, given)) == [MADE] * 3
        # The record of what an edit leaves is made then.
        put(store, replace(edited, trigger=WAITING, next_fire_time=START + HOUR))
        assert made_at(store.list_instances()) == [MADE] * 7
        clock.advance(SECOND)
        again = store.add_instances(adds.id, [given[0], Addition(key="b")])
        assert made_at(again) == [MADE, MADE + SECOND]
        for run in claim(store):
            assert finish(store, run, None)
        for run in claim(store):
            assert finish(store, run)
            of_run = MADE + SECOND if run.key == "b" else MADE
            assert store.get_instance(run.id).created_at == run.created_at == of_run

    def test_what_is_created_and_started_at_once_is_made_then(
        self, store: Store, clock: ManualClock
    ) -> None:
        fires, adds = put(store), put(store)
        clock.advance(MINUTE)
        new = definition(START)
        firing = Firing(definition=new, fire_times=(START,))
        _, put_in = store.put_and_start(firing, claimant())
        fired = store.fire_and_start(
            [Firing(definition=fires, fire_times=(START,))], claimant()
        )
        added = store.add_and_start(adds.id, [Addition()], claimant(), names=None)
        assert made_at([*fired.started, *added]) == [MADE] * (len(fired.started) + 1)
        assert put_in is None or put_in.created_at == MADE
        assert set(made_at(store.list_instances())) == {MADE}


FIRST = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ANOTHER = "x" * 600


class TraceTests:
    """``trace_context`` of definitions and instances."""

    def test_that_of_a_definition_stays_until_it_is_changed(self, store: Store) -> None:
        given = replace(definition(START + HOUR), trace_context=FIRST)
        new = put(store, given)
        assert new.trace_context in (None, FIRST)
        again = put(store, replace(given, trace_context=ANOTHER))
        store.pause_definitions([new.id])
        [resumed] = store.resume_definitions([new.id])
        assert again.revision == new.revision
        for each in (again, resumed, store.get_definition(new.id)):
            assert each.trace_context == new.trace_context
        edited = put(store, replace(given, name="other", trace_context=ANOTHER))
        assert edited.trace_context in (None, ANOTHER)
        assert store.get_definition(new.id).trace_context == edited.trace_context
        without = replace(given, trigger=WAITING, trace_context=None)
        for each in (put(store, without), store.get_definition(new.id)):
            assert each.trace_context is None

    def test_an_instance_has_its_own_or_its_definitions(self, store: Store) -> None:
        of = put(store, replace(definition(), trace_context=FIRST))
        fire(store, of)
        given = [Addition(key="a", trace_context=ANOTHER), Addition()]
        added = [*store.add_instances(of.id, given)]
        own = added[0].own_trace_context
        assert own in (None, ANOTHER)
        assert [*store.add_instances(of.id, given)] == added
        claimed = claim(store)
        started = start(store, *claimed)
        assert len(started) == 3
        for each in (*added, *claimed, *started, *store.list_instances()):
            expected = own if each.key == "a" else None
            assert each.own_trace_context == expected
            assert each.trace_context == (expected or of.trace_context)
        given = [Addition(trace_context=ANOTHER)]
        [at_once] = store.add_and_start(of.id, given, claimant(), names=None)
        assert at_once.own_trace_context == own
        assert store.get_instance(at_once.id) == at_once

    def test_what_is_backfilled_has_that_of_the_call(self, store: Store) -> None:
        of = put(store, definition(START + HOUR))
        asked = replace(of, trace_context=ANOTHER)
        store.backfill_instances(asked, [START - HOUR, START], overlap=Overlap.ALLOW)
        contexts = {each.trace_context for each in claim(store)}
        assert contexts in ({None}, {ANOTHER})
        assert store.get_definition(of.id).trace_context is None
