"""Store suite: what pages show is read, however it is read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from go_scheduler.models import Counted, Outcome, State
from go_scheduler.stores.declared import Declaration
from go_scheduler.stores.messages import Addition
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    SECOND,
    TICK,
    claim,
    claimed,
    definition,
    ended,
    finish,
    fire,
    ids,
    pending,
    put,
    running,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.instance_lists import one_of_each_state
from go_scheduler.triggers.on_demand import OnDemandTrigger

if TYPE_CHECKING:
    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


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
