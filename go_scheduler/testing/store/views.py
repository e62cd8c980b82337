"""Store suite: what pages show is read, listed and counted, with times and traces.

A store may keep no trace, of definitions and of instances: then it has none of any.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.errors import (
    TaskInstanceNotFoundError,
)
from go_scheduler.models import Counted, Outcome, Skipped, State
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Addition, Firing, Position
from go_scheduler.stores.rules import Declaration
from go_scheduler.testing.builders import (
    HOUR,
    HOURLY,
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
    instances,
    pending,
    put,
    running,
    start,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.on_demand import OnDemandTrigger

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from go_scheduler.models import TaskDefinition, TaskInstance
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


class InstanceListTests:
    """``list_instances``, ``get_instance`` and ``counts``."""

    def test_no_instance_is_found_under_an_unknown_id(self, store: Store) -> None:
        with pytest.raises(TaskInstanceNotFoundError) as caught:
            store.get_instance(NOBODY)
        assert caught.value.instance_id == NOBODY

    def test_of_many_instances_those_are_found_that_there_are(
        self, store: Store
    ) -> None:
        known = one_of_each_state(store).values()
        found = store.find_instances([NOBODY, *(each.id for each in known)])
        assert found == {each.id: store.get_instance(each.id) for each in known}
        assert store.find_instances([]) == {}

    def test_instances_come_in_the_order_of_their_time_and_id(
        self, store: Store
    ) -> None:
        for _ in range(3):
            fire(store, put(store), START + HOUR, START, START - TICK)
        order = [(each.execute_at, each.id) for each in store.list_instances()]
        assert len(order) == 9
        assert order == sorted(order)

    def test_a_retry_keeps_its_place(self, store: Store) -> None:
        retried = waiting_for_retry(store, retry_in=HOUR)
        later = pending(store, definition(START + SECOND))
        assert ids(store.list_instances()) == [retried.id, later.id]

    def test_pages_of_instances_follow_each_other(self, store: Store) -> None:
        for _ in range(2):
            fire(store, put(store), START, START + SECOND, START + MINUTE)
        everything = ids(store.list_instances())
        page, read = store.list_instances(limit=2), []
        while page:
            assert len(page) == 2
            read += ids(page)
            page = store.list_instances(after=Position.of_instance(page[-1]), limit=2)
        assert read == everything

    def test_pages_of_one_definition_follow_each_other(self, store: Store) -> None:
        new = put(store)
        for each in (new, put(store)):
            fire(store, each, START, START + SECOND, START + MINUTE)
        first = store.list_instances(definition_id=new.id, limit=2)
        end = Position.of_instance(first[-1])
        rest = store.list_instances(definition_id=new.id, after=end, limit=2)
        assert len(rest) == 1
        assert [*first, *rest] == instances(store, new)

    def test_the_next_page_follows_even_if_the_last_instance_is_gone(
        self, store: Store
    ) -> None:
        gone = pending(store)
        kept = pending(store, definition(START + SECOND))
        store.delete_definitions([gone.definition.id])
        end = Position.of_instance(gone)
        assert ids(store.list_instances(after=end)) == [kept.id]

    def test_a_page_has_100_instances_by_default(self, store: Store) -> None:
        fire(store, put(store), *(START + number * TICK for number in range(101)))
        assert len(store.list_instances()) == 100

    def test_listed_instances_are_read_as_they_are_stored(self, store: Store) -> None:
        instance = running(store, definition(metadata={"a": 1}))
        assert store.list_instances() == [instance]
        assert instances(store, instance.definition) == [instance]

    def test_by_definition(self, store: Store) -> None:
        mine, _ = pending(store), pending(store)
        assert store.list_instances(definition_id=mine.definition.id) == [mine]

    def test_no_instance_is_listed_under_an_unknown_definition(
        self, store: Store
    ) -> None:
        pending(store)
        assert store.list_instances(definition_id=NOBODY) == []

    @pytest.mark.parametrize("state", list(State))
    def test_by_state(self, store: Store, state: State) -> None:
        made = one_of_each_state(store)
        assert ids(store.list_instances(state=state)) == [made[state].id]

    def test_by_definition_and_state(self, store: Store) -> None:
        mine, _ = ended(store), ended(store)
        of = mine.definition.id
        found = store.list_instances(definition_id=of, state=State.COMPLETED)
        assert found == [mine]
        assert store.list_instances(definition_id=of, state=State.FAILED) == []

    def test_by_the_name_of_their_definition(self, store: Store) -> None:
        mine = pending(store, definition(name="a"))
        pending(store, definition(name="b"))
        pending(store)
        assert ids(store.list_instances(name="a")) == [mine.id]
        store.delete_definitions([mine.definition.id])
        assert store.list_instances(name="a") == []

    def test_what_is_left_of_a_deleted_definition_keeps_its_name(
        self, store: Store
    ) -> None:
        mine = ended(store, definition(name="a"))
        store.delete_definitions([mine.definition.id])
        assert ids(store.list_instances(name="a")) == [mine.id]

    def test_by_their_key(self, store: Store) -> None:
        new, other = put(store), put(store)
        for each in (new, other):
            store.add_instances(each.id, [Addition(id=uuid4(), key="a")])
            fire(store, each)
        assert len(store.list_instances(key="a")) == 2
        [found] = store.list_instances(key="a", definition_id=new.id)
        assert (found.key, found.definition.id) == ("a", new.id)
        for of, state in ((new.id, State.COMPLETED), (NOBODY, None)):
            assert store.list_instances(key="a", definition_id=of, state=state) == []
        assert store.list_instances(key="b", definition_id=new.id) == []

    def test_since_a_time(self, store: Store) -> None:
        new = put(store)
        fire(store, new, START - TICK, START, START + HOUR)
        for of in (None, new.id):
            found = store.list_instances(definition_id=of, since=START)
            assert [each.fire_time for each in found] == [START, START + HOUR]
            found = store.list_instances(
                definition_id=of, since=START, newest_first=True
            )
            assert [each.fire_time for each in found] == [START + HOUR, START]

    def test_by_the_fire_time_whenever_they_are_to_run(self, store: Store) -> None:
        new, other = put(store), put(store)
        times = (START, START + SECOND, START + HOUR)
        later = tuple(each + 2 * HOUR for each in times)
        step = replace(firing(new, *times), execute_times=later)
        assert store.fire_definitions([step]).done == {new.id}
        fire(store, other, START)
        store.add_instances(new.id, [Addition(id=NOBODY, at=START)])

        def listed(
            since: datetime | None = None, before: datetime | None = None
        ) -> Sequence[datetime | None]:
            found = store.list_instances(
                definition_id=new.id, fired_since=since, fired_before=before
            )
            return [each.fire_time for each in found]

        assert listed(START, START + SECOND) == [START]
        assert listed(START + SECOND) == [*times[1:]]
        assert listed(before=START + HOUR) == [*times[:2]]
        assert listed(START + TICK, START + SECOND) == []
        assert len(listed()) == 4

    @pytest.mark.parametrize("limit", [1, 2, 4])
    @pytest.mark.parametrize("newest_first", [False, True])
    def test_pages_since_a_time_follow_each_other(
        self, store: Store, limit: int, newest_first: bool
    ) -> None:
        new = put(store)
        for each in (new, put(store)):
            fire(store, each, START - HOUR, START, START + SECOND, START + MINUTE)
        for of in (None, new.id):
            everything = ids(
                store.list_instances(
                    definition_id=of, since=START, newest_first=newest_first
                )
            )
            after, read = None, []
            while page := store.list_instances(
                definition_id=of,
                since=START,
                newest_first=newest_first,
                after=after,
                limit=limit,
            ):
                read += ids(page)
                after = Position.of_instance(page[-1])
            assert read == everything
            assert len(read) == (3 if of else 6)

    def test_newest_first_is_the_same_backwards(self, store: Store) -> None:
        for _ in range(3):
            fire(store, put(store), START, START + SECOND)
        backwards = store.list_instances(newest_first=True)
        assert ids(backwards) == ids(store.list_instances())[::-1]

    def test_a_page_of_one_state_is_full(self, store: Store) -> None:
        fire(store, put(store), *(START + number * SECOND for number in range(4)))
        [first] = claim(store)
        assert finish(store, first)
        found = store.list_instances(state=State.PENDING, limit=2)
        assert [each.fire_time for each in found] == [
            START + SECOND,
            START + 2 * SECOND,
        ]

    def test_a_claim_that_has_lapsed_still_counts_as_claimed(
        self, store: Store, clock: ManualClock
    ) -> None:
        held, run = claimed(store), running(store)
        clock.advance(HOUR)
        assert ids(store.list_instances(state=State.CLAIMED)) == [held.id]
        assert ids(store.list_instances(state=State.RUNNING)) == [run.id]

    def test_every_state_has_a_count(self, store: Store) -> None:
        assert store.counts() == dict.fromkeys(State, 0)

    def test_each_instance_is_counted_in_its_state(self, store: Store) -> None:
        one_of_each_state(store)
        pending(store, definition(START + SECOND))
        assert store.counts() == {**dict.fromkeys(State, 1), State.PENDING: 2}

    def test_what_is_removed_is_not_counted(self, store: Store) -> None:
        for instance in one_of_each_state(store).values():
            store.delete_definitions([instance.definition.id])
        clean_up(store, older_than=ZERO, limit=100)
        assert store.counts() == dict.fromkeys(State, 0)


class ViewTests:
    """``counts_up_to``, ``list_backlog`` and the lists of ``ViewStore``."""

    def test_counts_are_exact_up_to_a_bound(self, store: Store) -> None:
        one_of_each_state(store)
        pending(store)
        counts = store.counts_up_to(10)
        exact = dict.fromkeys(State, 1) | {State.PENDING: 2}
        assert counts == {state: Counted(count=exact[state]) for state in State}

    def test_of_more_than_the_bound_more_is_said(self, store: Store) -> None:
        for _ in range(3):
            ended(store)
            ended(store, outcome=Outcome.FAILED)
        for _ in range(3):
            running(store)
        for _ in range(3):
            pending(store)
        counts = store.counts_up_to(2)
        for state in (State.PENDING, State.RUNNING, State.COMPLETED, State.FAILED):
            assert counts[state].more
            assert counts[state].count <= 2
        assert counts[State.FAILED] == Counted(count=2, more=True)

    def test_few_that_run_are_counted_amid_many_that_wait(self, store: Store) -> None:
        running(store)
        claimed(store)
        for _ in range(4):
            pending(store)
        counts = store.counts_up_to(3)
        assert counts[State.PENDING].more
        assert counts[State.RUNNING] == Counted(count=1)
        assert counts[State.CLAIMED] == Counted(count=1)

    def test_counts_of_some_are_of_those_amid_so_many_of_all(
        self, store: Store
    ) -> None:
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
        assert store.counts_up_to(2)[State.PENDING].more
        assert store.counts_up_to(2, queues=["default"])[State.PENDING].more
        for counts in (
            store.counts_up_to(3),
            store.counts_up_to(3, queues=["default"]),
        ):
            assert counts[State.PENDING] == Counted(count=3)

    def test_the_backlog_is_what_is_due_by_queue(
        self, store: Store, clock: ManualClock
    ) -> None:
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

    def test_a_backlog_is_counted_up_to_a_bound(self, store: Store) -> None:
        for _ in range(3):
            pending(store)
        [found] = store.list_backlog(2)
        assert found.due == Counted(count=2, more=True)

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
        made = []
        for _ in range(5):
            made.append(ended(store, outcome=Outcome.FAILED))
            ended(store)
            clock.advance(SECOND)
        first = store.list_ended(Outcome.FAILED, limit=2)
        assert ids(first.found) == [made[4].id, made[3].id]
        second = store.list_ended(Outcome.FAILED, before=first.next, limit=2)
        assert ids(second.found) == [made[2].id, made[1].id]
        last = store.list_ended(Outcome.FAILED, before=second.next, limit=2)
        assert ids(last.found) == [made[0].id]
        assert last.next is None

    def test_each_outcome_has_its_list(self, store: Store) -> None:
        made = one_of_each_state(store)
        for outcome in Outcome:
            found = store.list_ended(outcome, limit=10)
            assert ids(found.found) == [made[State(outcome.value)].id]
            assert found.next is None

    def test_of_one_instant_all_are_listed_once(self, store: Store) -> None:
        made = {ended(store).id for _ in range(5)}
        seen: list[TaskInstance] = []
        before = None
        while True:
            found = store.list_ended(Outcome.COMPLETED, before=before, limit=2)
            seen += found.found
            before = found.next
            if before is None:
                break
        assert len(seen) == 5
        assert set(ids(seen)) == made
        assert ids(seen) == sorted(ids(seen), reverse=True)

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

    def test_what_waits_comes_in_the_order_in_which_it_is_due(
        self, store: Store
    ) -> None:
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
        assert [each.queue for each in store.list_backlog(9, queues=["mine"])] == [
            "mine"
        ]
        assert store.list_backlog(9, queues=[]) == []
        both = store.list_ended(
            Outcome.FAILED, queues=["mine"], owners=["you"], limit=10
        )
        assert (list(both.found), both.next) == ([], None)
        assert list(store.list_waiting(queues=["mine"], owners=["you"], limit=9)) == []

    def test_what_was_fired_is_in_the_order_of_fire_times(self, store: Store) -> None:
        made = put(store)
        times = [START - HOUR, START - MINUTE, START - SECOND, START]
        fire(store, made, *times)
        fire(store, put(store), START - MINUTE)

        def found(limit: int = 10, *, newest_first: bool = False) -> list[object]:
            return [
                each.fire_time
                for each in store.list_fired(
                    made.id,
                    since=START - MINUTE,
                    before=START,
                    newest_first=newest_first,
                    limit=limit,
                )
            ]

        assert found() == [START - MINUTE, START - SECOND]
        assert found(1) == [START - MINUTE]
        assert found(1, newest_first=True) == [START - SECOND]
        nobodys = store.list_fired(uuid4(), since=START, before=START + HOUR, limit=1)
        assert list(nobodys) == []

    def test_what_was_fired_is_counted_span_by_span(self, store: Store) -> None:
        made = ended(store).definition
        # It has fired its last: an edit lets it go on.
        store.put_definitions([replace(made, priority=2, next_fire_time=START + HOUR)])
        read = store.get_definition(made.id)
        times = [START + number * SECOND for number in (1, 2, 3, 60, 61)]
        fire(store, read, *times)
        bounds = [START, START + MINUTE, START + HOUR, START + 2 * HOUR]
        completed, pending = State.COMPLETED, State.PENDING
        assert store.count_fired(made.id, bounds, most=10) == [
            {completed: 1, pending: 3},
            {pending: 2},
            {},
        ]
        few = [{completed: 1, pending: 1}, {pending: 2}, {}]
        assert store.count_fired(made.id, bounds, most=2) == few
        assert store.count_fired(uuid4(), bounds, most=2) == [{}, {}, {}]

    def test_what_was_made_by_hand_has_a_list_of_its_own(self, store: Store) -> None:
        made = put(store)
        fire(store, made, START)
        added = store.add_instances(
            made.id, [_at(SECOND * number) for number in range(3)]
        )
        latest = [each.id for each in reversed(added)]
        assert ids(store.list_unscheduled(made.id, limit=10)) == latest
        assert ids(store.list_unscheduled(made.id, limit=2)) == latest[:2]
        assert list(store.list_unscheduled(uuid4(), limit=2)) == []

    def test_names_are_found_by_how_they_begin(self, store: Store) -> None:
        names = ("report", "report daily", "rep%", "Report", None)
        made = {name: put(store, replace(_new(), name=name)) for name in names}

        def found(prefix: str, limit: int = 10) -> set[str | None]:
            return {each.name for each in store.search_names(prefix, limit=limit)}

        assert found("report") == {"report", "report daily"}
        assert found("rep%") == {"rep%"}
        assert found("x") == set()
        assert len(found("rep", 2)) == 2
        store.delete_definitions([made["report"].id])
        assert found("report") == {"report daily"}

    def test_instances_are_found_by_their_keys(self, store: Store) -> None:
        tasks = [put(store, replace(_new(), trigger=OnDemandTrigger())) for _ in "ab"]
        for number, task in enumerate(tasks):
            keyed = _at(SECOND * number, key="order 7")
            store.add_instances(task.id, [keyed, _at(TICK, key="order 8")])
        found = store.search_key("order 7", limit=10)
        assert [each.definition.id for each in found] == [each.id for each in tasks]
        assert [each.key for each in found] == ["order 7"] * 2
        assert len(store.search_key("order 7", limit=1)) == 1
        assert list(store.search_key("order 9", limit=10)) == []


def _declared(store: Store, queue: str, owner: str) -> UUID:
    """A definition of a queue and an owner."""
    made = replace(_new(), name=f"name {queue}", queue=queue)
    made = replace(made, trigger=OnDemandTrigger(), next_fire_time=None)
    store.declare_definitions(Declaration(owner=owner, definitions=[made]))
    return made.id


def _first_of_each_view(
    store: Store, queues: list[str] | None, owners: list[str] | None, *, limit: int
) -> list[UUID]:
    """The ids of what each view has, which is but one."""
    ended = store.list_ended(
        Outcome.FAILED, queues=queues, owners=owners, limit=limit
    ).found
    claims = store.list_claims(queues=queues, owners=owners, limit=limit)
    waiting = store.list_waiting(queues=queues, owners=owners, limit=limit)
    named = store.search_names("na", queues=queues, owners=owners, limit=limit)
    keyed = store.search_key("order 7", queues=queues, owners=owners, limit=limit)
    views = (ended, claims, waiting, named, keyed)
    assert [len(each) for each in views] == [1] * 5
    return [each.id for view in views for each in view]


def _one_of_each(store: Store, of: UUID) -> list[UUID]:
    """The ids of one that failed, one that runs, and one that waits."""
    made = []
    for lasting in (False, True):
        key = None if lasting else "order 7"
        store.add_instances(of, [_at(-SECOND, key=key)])
        queue = store.get_definition(of).queue
        [started] = claim(store, queues=[queue], lead=0 * SECOND)
        made.append(started.id)
        if not lasting:
            finish(store, started, Outcome.FAILED)
    [waiting] = store.add_instances(of, [_at(-SECOND)])
    return [*made, waiting.id]


def _new() -> TaskDefinition:
    return replace(definition(START + HOUR), id=uuid4())


def _at(delay: object, key: str | None = None) -> Addition:
    return Addition(id=uuid4(), at=START + delay, delay=0 * SECOND, key=key)  # type: ignore[operator]


MADE = START + MINUTE


def made_at(given: Iterable[TaskInstance]) -> list[datetime | None]:
    """When each was made."""
    return [each.created_at for each in given]


class MadeTests:
    """``created_at`` of instances."""

    def test_what_is_fired_is_made_at_that_time(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store, definition(START - HOUR))
        clock.advance(MINUTE)
        skipped = Skipped(first=START - HOUR, last=START, count=2, reason="ä")
        step = Firing(definition=read, fire_times=(START + HOUR,), skipped=skipped)
        assert store.fire_definitions([step]).done == {read.id}
        assert made_at(store.list_instances()) == [MADE, MADE]

    def test_what_is_added_is_made_at_that_time(
        self, store: Store, clock: ManualClock
    ) -> None:
        of = put(store)
        clock.advance(MINUTE)
        given = [Addition(key="ä"), Addition(at=START + HOUR), Addition(delay=HOUR)]
        assert made_at(store.add_instances(of.id, given)) == [MADE] * 3
        clock.advance(SECOND)
        # What was there already was made then.
        again = store.add_instances(of.id, [given[0], Addition()])
        assert made_at(again) == [MADE, MADE + SECOND]
        found = store.list_instances(definition_id=of.id)
        assert sorted(filter(None, made_at(found))) == [MADE] * 3 + [MADE + SECOND]

    def test_what_is_backfilled_is_made_at_that_time(
        self, store: Store, clock: ManualClock
    ) -> None:
        of = put(store, definition(START + HOUR))
        clock.advance(MINUTE)
        store.backfill_instances(of, [START - HOUR], overlap=Overlap.ALLOW)
        assert made_at(store.list_instances()) == [MADE]

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

    def test_the_record_of_what_an_edit_leaves_is_made_then(
        self, store: Store, clock: ManualClock
    ) -> None:
        of = put(store)
        clock.advance(MINUTE)
        put(store, replace(of, trigger=WAITING, next_fire_time=START + HOUR))
        assert made_at(store.list_instances()) == [MADE]

    def test_it_stays_whatever_becomes_of_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        clock.advance(MINUTE)
        assert finish(store, instance, None)
        [again] = claim(store)
        assert start(store, again) == [again]
        assert made_at([instance, again]) == [START, START]
        assert finish(store, again)
        assert made_at(store.list_instances()) == [START]


FIRST = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ANOTHER = "x" * 600


class TraceTests:
    """``trace_context`` of definitions and instances."""

    def test_that_of_a_definition_stays_until_it_is_changed(self, store: Store) -> None:
        given = replace(definition(HOUR + START, trigger=HOURLY), trace_context=FIRST)
        new = put(store, given)
        context = new.trace_context
        assert context in (None, FIRST)

        def stored() -> TaskDefinition:
            return store.get_definition(new.id)

        assert stored().trace_context == context
        again = put(store, replace(given, trace_context=ANOTHER))
        assert (again.trace_context, again.revision) == (context, new.revision)
        assert (stored().trace_context, stored().revision) == (context, new.revision)
        store.pause_definitions([new.id])
        store.resume_definitions([new.id])
        assert stored().trace_context == context
        edited = put(store, replace(given, name="other", trace_context=ANOTHER))
        assert edited.trace_context in (None, ANOTHER)
        assert stored().trace_context == edited.trace_context
        other = replace(
            given, trigger=OnDemandTrigger(), next_fire_time=None, trace_context=None
        )
        assert put(store, other).trace_context is None
        assert stored().trace_context is None

    def test_what_fires_has_that_of_its_definition(
        self, store: Store, clock: ManualClock
    ) -> None:
        new = put(store, replace(definition(START), trace_context=FIRST))
        fire(store, new)
        [claimed] = claim(store)
        [run] = start(store, claimed)
        for each in (claimed, run, store.get_instance(run.id), *store.list_instances()):
            assert each.trace_context == new.trace_context
            assert each.own_trace_context is None

    def test_what_is_added_has_its_own(self, store: Store) -> None:
        of = put(
            store,
            replace(definition(None, trigger=OnDemandTrigger()), trace_context=FIRST),
        )
        additions = [Addition(key="a", trace_context=ANOTHER), Addition()]
        traced, plain = store.add_instances(of.id, additions)
        assert traced.own_trace_context in (None, ANOTHER)
        assert traced.trace_context == (traced.own_trace_context or of.trace_context)
        assert (plain.own_trace_context, plain.trace_context) == (
            None,
            of.trace_context,
        )
        assert list(store.add_instances(of.id, additions)) == [traced, plain]
        claimed = claim(store)
        for each in (*claimed, *start(store, *claimed), *store.list_instances()):
            expected = traced if each.id == traced.id else plain
            assert each.own_trace_context == expected.own_trace_context
        [started] = store.add_and_start(
            of.id, [Addition(trace_context=ANOTHER)], claimant(), names=None
        )
        assert started.own_trace_context == traced.own_trace_context
        assert store.get_instance(started.id) == started

    def test_what_is_backfilled_has_that_of_the_call(self, store: Store) -> None:
        of = put(store, definition(START + HOUR, trigger=HOURLY))
        asked = replace(of, trace_context=ANOTHER)
        store.backfill_instances(asked, [START - HOUR, START], overlap=Overlap.ALLOW)
        contexts = {each.trace_context for each in claim(store)}
        assert contexts in ({None}, {ANOTHER})
        assert store.get_definition(of.id).trace_context is None
