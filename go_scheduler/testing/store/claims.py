"""Store suite: one node claims an instance, and the next one if that node dies.

A store may leave what it creates to the claims: it need not start it by the same write.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.errors import ConflictError, TaskDefinitionNotFoundError
from go_scheduler.models import Outcome, State
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Addition, Release, Renewal, RunOutcome
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    NOBODY,
    NODE,
    OTHER_NODE,
    SECOND,
    TICK,
    WAITING,
    cancel,
    claim,
    claim_of,
    claimant,
    claimed,
    definition,
    due,
    ended,
    finish,
    fire,
    firing,
    hand_on,
    ids,
    instances,
    kept_by_store,
    passed_on,
    pending,
    put,
    release,
    renew,
    running,
    start,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.settling import settle
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.on_demand import OnDemandTrigger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


def begun(given: TaskInstance, at: datetime, *, node: UUID = NODE) -> TaskInstance:
    """The instance after a node has claimed it and started it."""
    return replace(
        given,
        claimed_by=node,
        attempt=given.attempt + 1,
        runs=given.runs + 1,
        started_at=at,
        expires_at=at + LEASE,
    )


class ClaimTests:
    """``claim_instances``, where nobody has claimed the instance."""

    def test_an_instance_is_claimed_when_it_is_due_within_ahead(
        self, store: Store, clock: ManualClock
    ) -> None:
        overdue, soon, later = (
            pending(store, definition(START + each))
            for each in (-1000 * HOUR, MINUTE, 2 * MINUTE)
        )
        assert ids(claim(store, ahead=MINUTE - TICK)) == [overdue.id]
        assert ids(claim(store, ahead=MINUTE)) == [soon.id]
        clock.advance(2 * MINUTE - TICK)
        assert claim(store) == []
        clock.advance(TICK)
        assert ids(claim(store)) == [later.id]

    def test_a_claim_ahead_holds_for_a_lease_past_the_due_time(
        self, store: Store
    ) -> None:
        given = pending(store, definition(START + MINUTE))
        [instance] = claim(store, ahead=HOUR)
        assert instance == replace(
            given, claimed_by=NODE, attempt=1, expires_at=START + MINUTE + LEASE
        )
        assert instance.state is State.CLAIMED
        assert store.get_instance(instance.id) == instance

    def test_a_claim_of_what_is_due_is_started(self, store: Store) -> None:
        new = definition(START - MINUTE, name="a", metadata={"b": [2]})
        given = pending(store, new)
        [instance] = claim(store)
        assert instance == begun(given, START)
        assert instance.state is State.RUNNING
        assert (instance.definition, instance.definition.revision) == (new, 1)
        assert store.get_instance(instance.id) == instance

    def test_a_claimed_instance_is_not_claimed_again(self, store: Store) -> None:
        claimed(store)
        running(store)
        for node in (OTHER_NODE, NODE):
            assert claim(store, node, ahead=HOUR, lapsed=True) == []

    def test_an_instance_that_has_ended_is_not_claimed(
        self, store: Store, clock: ManualClock
    ) -> None:
        for outcome in Outcome:
            ended(store, outcome=outcome)
        clock.advance(HOUR)
        assert claim(store, ahead=HOUR, lapsed=True) == []

    def test_a_node_gets_what_is_in_its_queues(self, store: Store) -> None:
        for number, queue in enumerate(["a", "b", "c", "A"]):
            pending(store, definition(START + number * TICK, queue=queue))
        assert claim(store, queues=[], ahead=HOUR, lapsed=True) == []
        given = claim(store, queues=["c", "a"], ahead=SECOND)
        assert [each.definition.queue for each in given] == ["a", "c"]

    def test_the_earliest_due_come_first(self, store: Store) -> None:
        for number in (3, 1, 2):
            queue = "even" if number % 2 == 0 else "odd"
            pending(store, definition(START + number * SECOND, queue=queue))
        given = claim(store, queues=["even", "odd"], ahead=HOUR, limit=3)
        due = [START + number * SECOND for number in (1, 2, 3)]
        assert [each.due_at for each in given] == due

    def test_at_most_limit_are_claimed_at_a_time_and_all_in_the_end(
        self, store: Store
    ) -> None:
        queues = ("a", "b")
        for queue in queues:
            made = (START + number * SECOND for number in range(-6, 6))
            fire(store, put(store, definition(queue=queue)), *made)
        found: list[TaskInstance] = []
        while page := claim(store, queues=queues, ahead=HOUR, limit=5):
            assert len(page) <= 5
            assert list(page) == sorted(page, key=attrgetter("due_at"))
            found += page
        assert sorted(ids(found)) == sorted(ids(store.list_instances()))

    def test_what_is_new_is_not_behind_what_was_claimed_ahead(
        self, store: Store, clock: ManualClock
    ) -> None:
        for wait in (ZERO, SECOND):
            read = put(store)
            soon = clock.now()
            fire(store, read, *(soon + number * MINUTE for number in range(1, 4)))
            assert len(claim(store, ahead=HOUR, limit=2)) == 2
            new = pending(store, definition(soon))
            clock.advance(wait)
            assert new.id in ids(claim(store, ahead=HOUR, limit=10))

    def test_what_is_due_within_lead_is_also_started(self, store: Store) -> None:
        given = pending(store, definition(START + SECOND))
        [instance] = claim(store, ahead=HOUR, lead=SECOND)
        assert instance == begun(given, START + SECOND)

    def test_what_is_due_after_lead_is_not_started(self, store: Store) -> None:
        pending(store, definition(START + SECOND))
        assert claim(store, ahead=SECOND - TICK, lead=HOUR) == []
        [instance] = claim(store, ahead=HOUR, lead=SECOND - TICK)
        assert (instance.state, instance.runs) == (State.CLAIMED, 0)
        assert instance.started_at is None

    def test_a_start_with_the_claim_holds_no_longer_than_expire_after(
        self, store: Store
    ) -> None:
        own = pending(store, definition(expire_after=SECOND))
        by_default = pending(store)
        unstarted = pending(store, definition(START + MINUTE, expire_after=SECOND))
        node = claimant(expire_after=2 * SECOND)
        settle(store)
        given = store.claim_instances(
            node, ahead=HOUR, lead=ZERO, limit=100, lapsed=None
        )
        assert {each.id: each.expires_at for each in given} == {
            own.id: START + SECOND,
            by_default.id: START + 2 * SECOND,
            unstarted.id: START + MINUTE + LEASE,
        }


_TURNS = 8


def waiting(
    store: Store, priority: int, count: int = _TURNS, *, queue: str = "default"
) -> TaskDefinition:
    """A definition with due instances; a greater priority number is due earlier."""
    new = replace(definition(START - HOUR, queue=queue), priority=priority)
    stored = put(store, new)
    first = START - (1 + priority) * MINUTE
    times = [first + number * (MINUTE / count) for number in range(count)]
    assert store.fire_definitions([firing(stored, *times)]).done
    return stored


def claimed_singly(
    store: Store, count: int = _TURNS, *, queues: Sequence[str] = ("default",)
) -> Counter[int]:
    """How many instances of each priority are claimed, one by one."""
    claims = [claim(store, queues=queues, limit=1) for _ in range(count)]
    return Counter(each.definition.priority for [each] in claims)


class PriorityTests:
    """``claim_instances`` and priorities."""

    def test_of_what_is_due_a_smaller_class_comes_first_and_the_last_in_its_turn(
        self, store: Store
    ) -> None:
        waiting(store, 3)
        waiting(store, 0)
        taken = claimed_singly(store)
        assert taken[0] >= 6
        assert taken[3] >= 1

    def test_the_last_class_that_there_is_has_its_turn(self, store: Store) -> None:
        waiting(store, 1)
        waiting(store, 0)
        assert set(claimed_singly(store)) == {0, 1}

    def test_no_class_waits_for_ever(self, store: Store) -> None:
        for priority in (3, 1, 0):
            waiting(store, priority, _TURNS**2)
        assert set(claimed_singly(store, _TURNS**2)) == {0, 1, 3}

    def test_what_there_is_room_for_comes_whatever_its_class(
        self, store: Store
    ) -> None:
        for priority in (1, 3, 0, 2):
            waiting(store, priority, 1)
        for priority in (0, 3):
            at = START + (1 + priority) * MINUTE
            pending(store, replace(definition(at), priority=priority))
        found = claim(store, ahead=HOUR)
        assert [each.definition.priority for each in found] == [3, 2, 1, 0, 0, 3]

    def test_a_smaller_class_comes_first_from_whichever_queue(
        self, store: Store
    ) -> None:
        waiting(store, 2)
        waiting(store, 0, queue="other")
        [instance] = claim(store, limit=1)
        assert instance.definition.priority == 2
        assert claimed_singly(store, queues=["default", "other"])[0] >= 6

    def test_what_has_lapsed_comes_before_all_others(
        self, store: Store, clock: ManualClock
    ) -> None:
        last, later = (
            running(store, replace(definition(), priority=priority))
            for priority in (3, 2)
        )
        renew(store, later)
        clock.advance(LEASE)
        first = waiting(store, 0, 2)
        [taken] = claim(store, OTHER_NODE, lapsed=True, limit=1)
        assert taken.id in (last.id, later.id)
        rest = claim(store, OTHER_NODE, lapsed=True)
        assert {rest[0].id, taken.id} == {last.id, later.id}
        assert [each.definition.id for each in rest[1:]] == [first.id] * 2

    def test_an_edit_moves_what_is_open_into_its_new_class(self, store: Store) -> None:
        first, last = waiting(store, 0), waiting(store, 3)
        put(store, replace(first, priority=3, revision=None))
        put(store, replace(last, priority=0, revision=None))
        claims = [claim(store, limit=1) for _ in range(_TURNS)]
        taken = Counter(each.definition.id for [each] in claims)
        assert taken[last.id] >= 6


class LapsedTests:
    """``claim_instances``, where a claim has lapsed."""

    def test_a_lapsed_claim_is_taken_over(
        self, store: Store, clock: ManualClock
    ) -> None:
        first = running(store)
        clock.advance(LEASE - TICK)
        assert claim(store, OTHER_NODE, lapsed=True) == []
        clock.advance(TICK)
        [second] = claim(store, OTHER_NODE, lapsed=True)
        assert second == begun(first, START + LEASE, node=OTHER_NODE)
        assert store.get_instance(first.id) == second

    def test_a_lapsed_claim_is_left_alone_unless_asked_for(
        self, store: Store, clock: ManualClock
    ) -> None:
        running(store)
        clock.advance(HOUR)
        assert claim(store, OTHER_NODE, ahead=HOUR, lapsed=False) == []
        assert claim(store, OTHER_NODE, queues=["other"], lapsed=True) == []

    def test_a_lapsed_claim_that_never_started_is_started_when_it_is_due(
        self, store: Store, clock: ManualClock
    ) -> None:
        soon, later = (
            claimed(store, definition(START + each)) for each in (SECOND, HOUR)
        )
        store.renew_claims([Renewal(claim=claim_of(later), lease=SECOND)])
        clock.advance(SECOND + LEASE)
        taken = {each.id: each for each in claim(store, OTHER_NODE, lapsed=True)}
        assert taken == {
            soon.id: begun(soon, START + SECOND + LEASE, node=OTHER_NODE),
            later.id: replace(
                later, claimed_by=OTHER_NODE, attempt=2, expires_at=START + HOUR + LEASE
            ),
        }

    def test_a_claim_is_taken_over_that_has_lapsed_so_long_ago(
        self, store: Store, clock: ManualClock
    ) -> None:
        early = running(store)
        clock.advance(LEASE)
        late = running(store, definition(clock.now()))
        clock.advance(LEASE)

        def taken_over(lapsed: timedelta) -> list[UUID]:
            settle(store)
            taken = store.claim_instances(
                claimant(OTHER_NODE), ahead=ZERO, lead=ZERO, limit=10, lapsed=lapsed
            )
            return ids(taken)

        # Claims with a long ``lapsed`` hide nothing from a claim with a short one.
        assert taken_over(timedelta(days=1)) == taken_over(LEASE + TICK) == []
        assert taken_over(LEASE) == [early.id]
        clock.advance(MINUTE)
        assert taken_over(MINUTE + TICK) == []
        assert taken_over(MINUTE) == [late.id]

    def test_a_lapsed_claim_that_nobody_took_is_still_its_owners(
        self, store: Store, clock: ManualClock
    ) -> None:
        held, run = claimed(store), running(store)
        clock.advance(HOUR)
        assert ids(start(store, held)) == [held.id]
        assert renew(store, run) == {run.id: False}
        assert claim(store, OTHER_NODE, lapsed=True) == []
        clock.advance(HOUR)
        assert finish(store, run)
        assert release(store, held)


def lost_claims(store: Store, clock: ManualClock) -> dict[str, TaskInstance]:
    """Instances whose claim is not current any more, or never was; with the reason."""
    given_back, retried, cancelled = running(store), running(store), claimed(store)
    assert release(store, given_back, HOUR)
    assert finish(store, retried, None, retry_in=HOUR)
    cancel(store, cancelled)
    over, skipped = ended(store), ended(store, outcome=Outcome.SKIPPED)
    deleted = running(store)
    store.delete_definitions([deleted.definition.id])
    # No two are of one instance, as they may stand in one batch.
    unclaimed, next_one = (pending(store, definition(START + HOUR)) for _ in range(2))
    taken_over, _ = passed_on(store, clock)
    runs = running(store)
    return {
        "its instance was given back": given_back,
        "its instance waits for a retry": retried,
        "its instance was cancelled": cancelled,
        "its instance has succeeded": over,
        "its instance was skipped": skipped,
        "its definition was deleted": deleted,
        "another node has taken it over": taken_over,
        "nobody has claimed its instance": unclaimed,
        "nobody has claimed its instance by this attempt": replace(next_one, attempt=1),
        "its attempt is still to come": replace(runs, attempt=2),
        "there is no such instance": replace(runs, id=NOBODY),
    }


def check_none_counts(
    store: Store,
    lost: Collection[tuple[str, TaskInstance]],
    call: Callable[[Sequence[TaskInstance]], Collection[UUID]],
) -> None:
    """A call does nothing for lost claims, and works for a current one beside them."""

    def seen(instance: TaskInstance) -> object:
        if instance.id == NOBODY:
            return None
        return store.get_instance(instance.id), [*store.list_runs(instance.id)]

    before = {how: seen(each) for how, each in lost}
    mine = running(store)
    done = call([*(each for _, each in lost), mine])
    for how, each in lost:
        assert each.id not in done, f"a claim counts, though {how}"
        assert seen(each) == before[how], f"a claim changes something, though {how}"
    assert set(done) == {mine.id}, "beside claims that are lost a current one is not"


def end_all(
    store: Store, outcome: Outcome | None, given: Sequence[TaskInstance]
) -> Collection[UUID]:
    """Record one outcome for all these runs; answer the ids of those that count."""
    ends = [
        RunOutcome(
            claim=claim_of(each),
            started_at=each.started_at,
            outcome=outcome,
            retry_in=HOUR,
            hung=outcome is None,
            error="late",
            client='"late"',
            result='"late"' if outcome is Outcome.COMPLETED else None,
        )
        for each in given
    ]
    return store.finish_instances(ends).done


class LostClaimTests:
    """Calls with a claim that is not current."""

    def test_nothing_starts_under_a_claim_that_is_not_current(
        self, store: Store, clock: ManualClock
    ) -> None:
        lost = lost_claims(store, clock).items()
        check_none_counts(store, lost, lambda given: ids(start(store, *given)))

    def test_no_claim_is_renewed_that_is_not_current(
        self, store: Store, clock: ManualClock
    ) -> None:
        def renew_all(given: Sequence[TaskInstance]) -> Collection[UUID]:
            on = [
                Renewal(
                    claim=claim_of(each),
                    lease=HOUR,
                    handed_on=True,
                    worker="a",
                    progress="1",
                )
                for each in given
            ]
            return {*renew(store, *given), *store.renew_claims(on).done}

        check_none_counts(store, lost_claims(store, clock).items(), renew_all)

    def test_nothing_is_given_back_by_a_claim_that_is_not_current(
        self, store: Store, clock: ManualClock
    ) -> None:
        def give_back(given: Sequence[TaskInstance]) -> Collection[UUID]:
            claims = [Release(claim=claim_of(each), delay=HOUR) for each in given]
            return store.release_instances(claims).done

        check_none_counts(store, lost_claims(store, clock).items(), give_back)

    def test_no_run_fails_by_a_claim_that_is_not_current(
        self, store: Store, clock: ManualClock
    ) -> None:
        lost = lost_claims(store, clock).items()
        for outcome in (Outcome.FAILED, Outcome.CANCELLED, Outcome.SKIPPED, None):
            check_none_counts(store, lost, partial(end_all, store, outcome))

    def test_a_success_counts_of_a_claim_that_was_current_once(
        self, store: Store, clock: ManualClock
    ) -> None:
        lost = lost_claims(store, clock)
        for how in (
            "its instance was given back",
            "its instance waits for a retry",
            "another node has taken it over",
        ):
            late = lost.pop(how)
            assert finish(store, late), f"no success is taken, as {how}"
            found = store.get_instance(late.id)
            assert (found.outcome, found.ended_attempt) == (Outcome.COMPLETED, 1), how
        success = partial(end_all, store, Outcome.COMPLETED)
        check_none_counts(store, lost.items(), success)

    def test_an_empty_batch_is_answered_by_an_empty_one(self, store: Store) -> None:
        running(store)
        assert store.start_instances(claimant(), []).done == []
        assert store.renew_claims([]).done == {}
        assert store.finish_instances([]).done == set()
        assert store.release_instances([]).done == set()
        assert store.cancel_instances({}) == {}
        assert store.reopen_instances([]) == set()


class StartTests:
    """``start_instances``."""

    def test_a_start_ahead_of_time_begins_at_the_due_time(self, store: Store) -> None:
        given = claimed(store, definition(START + SECOND))
        [instance] = start(store, given)
        assert instance == replace(
            given, runs=1, started_at=START + SECOND, expires_at=START + SECOND + LEASE
        )
        assert instance.state is State.RUNNING
        assert store.get_instance(given.id) == instance

    def test_a_late_start_begins_now(self, store: Store, clock: ManualClock) -> None:
        given = claimed(store, definition(START + SECOND))
        clock.advance(MINUTE)
        [instance] = start(store, given)
        assert instance.started_at == START + MINUTE
        assert instance.expires_at == START + MINUTE + LEASE

    def test_a_start_holds_for_the_lease_or_for_expire_after_if_that_is_shorter(
        self, store: Store
    ) -> None:
        for own, lease, by_default in (
            (MINUTE, HOUR, TICK),
            (None, HOUR, MINUTE),
            (HOUR, MINUTE, HOUR),
        ):
            given = claimed(store, definition(START + SECOND, expire_after=own))
            node = claimant(lease=lease, expire_after=by_default)
            [instance] = store.start_instances(node, [claim_of(given)]).done
            assert instance.expires_at == START + SECOND + MINUTE, (
                f"expire_after is {own} of the definition, {by_default} of the node,"
                f" which has a lease of {lease}"
            )

    def test_a_second_start_is_answered_alike_and_changes_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        [by_a_start] = start(store, claimed(store))
        by_its_claim = running(store)
        clock.advance(MINUTE)
        for first in (by_a_start, by_its_claim):
            assert start(store, first) == [first]
            assert store.get_instance(first.id) == first


class RenewTests:
    """``renew_claims``."""

    def test_a_renewed_claim_holds_for_its_lease_from_now(
        self, store: Store, clock: ManualClock
    ) -> None:
        given = [claimed(store), running(store), running(store)]
        leases = [MINUTE, HOUR, SECOND]
        clock.advance(LEASE - TICK)
        now = clock.now()
        answer = store.renew_claims(
            [
                Renewal(claim=claim_of(instance), lease=lease)
                for instance, lease in zip(given, leases, strict=True)
            ]
        )
        assert answer.done == {each.id: False for each in given}
        for each, lease in zip(given, leases, strict=True):
            expected = replace(each, expires_at=now + lease)
            assert store.get_instance(each.id) == expected
        clock.advance(SECOND - TICK)
        assert claim(store, OTHER_NODE, lapsed=True) == []
        clock.advance(TICK)
        assert ids(claim(store, OTHER_NODE, lapsed=True)) == [given[2].id]

    def test_a_run_that_is_asked_to_stop_is_told(self, store: Store) -> None:
        asked, other = running(store), running(store)
        cancel(store, asked)
        assert renew(store, asked, other) == {asked.id: True, other.id: False}

    def test_what_is_handed_on_is_not_listed_for_its_node_any_more(
        self, store: Store
    ) -> None:
        instance, other = running(store), running(store)
        assert hand_on(store, instance, lease=HOUR) == {instance.id: False}
        assert ids(store.list_claimed(NODE)) == [other.id]
        expected = replace(instance, expires_at=START + HOUR)
        assert store.get_instance(instance.id) == expected

    def test_what_is_handed_on_lapses_no_sooner_by_a_renewal(
        self, store: Store
    ) -> None:
        instance = running(store)
        # Not even by the one that hands it on.
        assert hand_on(store, instance, lease=SECOND) == {instance.id: False}
        assert store.get_instance(instance.id).expires_at == START + LEASE
        hand_on(store, instance, lease=HOUR)
        assert renew(store, instance) == {instance.id: False}
        assert store.get_instance(instance.id).expires_at == START + HOUR
        longer = Renewal(claim=claim_of(instance), lease=2 * HOUR)
        store.renew_claims([longer])
        assert store.get_instance(instance.id).expires_at == START + 2 * HOUR
        assert store.list_claimed(NODE) == []

    def test_what_is_handed_on_is_the_next_owners_like_any_other(
        self, store: Store, clock: ManualClock
    ) -> None:
        lapses, given_back = running(store), running(store)
        for each in (lapses, given_back):
            hand_on(store, each, lease=HOUR)
        assert release(store, given_back)
        assert ids(claim(store)) == ids(store.list_claimed(NODE)) == [given_back.id]
        clock.advance(HOUR)
        taken = claim(store, OTHER_NODE, lapsed=True)
        [second] = [each for each in taken if each.id == lapses.id]
        assert second in store.list_claimed(OTHER_NODE)
        assert renew(store, second) == {second.id: False}
        assert store.get_instance(second.id).expires_at == START + HOUR + LEASE


ONCE = definition(trigger=ExecuteOnceTrigger(START))
NOT_STARTED: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "it is not due": ({}, {"at": START + SECOND}),
    "its delay is not over": ({}, {"delay": SECOND}),
    "its definition allows no overlap": ({"overlap": Overlap.SKIP}, {}),
    "its definition has a lock": ({"lock": "one"}, {}),
    "its definition is paused": ({"paused": True}, {}),
    "the node does not serve its queue": ({"queue": "other"}, {}),
    "the node does not run its name": ({"name": "send"}, {}),
    "the node runs some names, and it has none": ({"name": None}, {}),
}
"""Why an instance is not started: fields of its definition, fields of the addition."""


def task(**fields: Any) -> TaskDefinition:
    """A definition that fires only on demand."""
    return replace(definition(None, trigger=OnDemandTrigger()), **fields)


def add(
    store: Store,
    to: TaskDefinition,
    *additions: Addition,
    names: Collection[str] | None = None,
) -> Sequence[TaskInstance]:
    """Add instances for a node, which starts those that it may start."""
    return store.add_and_start(to.id, additions, claimant(), names=names)


def started(found: Sequence[TaskInstance]) -> Sequence[TaskInstance]:
    """The instances that were started, which have all that a node needs to run them."""
    mine = [each for each in found if each.claimed_by is not None]
    for each in mine:
        assert (each.state, each.claimed_by) == (State.RUNNING, NODE)
        assert (each.attempt, each.runs, each.started_at) == (1, 1, START)
        expire_after = each.definition.expire_after or LEASE
        assert each.expires_at == START + expire_after
    return mine


def check_is_stored(store: Store, given: TaskInstance) -> None:
    """The store has the same instance and definition as the answer."""
    stored = store.get_definition(given.definition.id)
    assert given == store.get_instance(given.id)
    assert given.definition == stored
    assert kept_by_store(given.definition) == kept_by_store(stored)


class HandOverTests:
    """``add_and_start``, ``put_and_start`` and ``fire_and_start``."""

    def test_what_is_added_and_due_is_started_or_left_to_claims(
        self, store: Store, clock: ManualClock
    ) -> None:
        stored = put(store, task(name="send", expire_after=SECOND))
        additions = [Addition(payload={"number": each}) for each in range(3)]
        found = add(store, stored, *additions, names=["report", "send"])
        assert ids(found) == [each.id for each in additions]
        assert [each.payload for each in found] == [each.payload for each in additions]
        for each in found:
            check_is_stored(store, each)
        mine, others = started(found), claim(store, OTHER_NODE)
        assert sorted([*ids(mine), *ids(others)]) == sorted(ids(found))
        last, *rest = [*mine, *others]
        assert all(finish(store, each) for each in rest)
        clock.advance(LEASE)
        assert ids(claim(store, OTHER_NODE, lapsed=True)) == [last.id]

    def test_what_its_node_may_not_start_is_left_to_claims(self, store: Store) -> None:
        for why, (fields, when) in NOT_STARTED.items():
            stored = put(store, task(**{"name": "report", **fields}))
            found = add(store, stored, Addition(**when), names=["report"])
            assert started(found) == [], f"one is started, though {why}"
            store.resume_definitions([stored.id])
            given = claim(store, OTHER_NODE, queues=[stored.queue], ahead=SECOND)
            assert ids(given) == ids(found), f"one was not started, as {why}"

    def test_what_was_there_already_is_not_started(self, store: Store) -> None:
        stored = put(store, task())
        first = Addition(key="one")
        [by_hand] = store.add_instances(stored.id, [first])
        assert list(add(store, stored, Addition(key="one"))) == [by_hand]
        [run] = claim(store, OTHER_NODE)
        [found] = add(store, stored, first)
        assert (found.id, found.claimed_by) == (run.id, OTHER_NODE)
        again = Addition()
        assert add(store, stored, again) == add(store, stored, again)

    def test_nothing_is_added_to_what_does_not_exist(self, store: Store) -> None:
        with pytest.raises(TaskDefinitionNotFoundError):
            store.add_and_start(NOBODY, [Addition()], claimant(), names=None)

    def test_a_new_definition_fires_and_starts_or_is_left_to_the_loops(
        self, store: Store
    ) -> None:
        on, waits = definition(), definition(trigger=WAITING)
        for step in (firing(ONCE), firing(on, next_fire_time=START + HOUR)):
            found, instance = store.put_and_start(step, claimant())
            assert (found.next_fire_time, found.completed_at) == (START, None)
            if instance is None:
                assert found in due(store)
                continue
            assert started([instance]) == [instance]
            check_is_stored(store, instance)
            stored = instance.definition
            assert stored.revision == found.revision
            assert stored.next_fire_time == step.next_fire_time
            assert (stored.completed_at == START) is (found == ONCE)
            assert (instance.fire_time, instance.due_at) == (START, START)
            assert claim(store) == []
            assert finish(store, instance)
        found, instance = store.put_and_start(firing(waits), claimant())
        if instance is None:
            assert found in due(store)
            return
        assert instance.definition.completed_at is None
        assert finish(store, instance, next_fire_time=START + HOUR)
        assert store.get_definition(found.id).next_fire_time == START + HOUR

    def test_one_that_is_stored_already_is_put_and_not_started(
        self, store: Store
    ) -> None:
        stored = put(store, ONCE)
        assert store.put_and_start(firing(ONCE), claimant()) == (stored, None)
        assert ids(due(store)) == [ONCE.id]
        edited = replace(ONCE, name="another")
        found, instance = store.put_and_start(firing(edited), claimant())
        assert (found.name, instance) == ("another", None)
        assert instances(store, found) == []
        with pytest.raises(ConflictError):
            store.put_and_start(firing(replace(ONCE, revision=7)), claimant())

    def test_what_fires_is_started_or_left_to_claims(self, store: Store) -> None:
        once, on = put(store, ONCE), put(store)
        steps = [firing(once), firing(on, next_fire_time=START + HOUR)]
        fired = store.fire_and_start(steps, claimant())
        assert (fired.done, fired.busy) == ({once.id, on.id}, set())
        assert due(store, ahead=SECOND) == []
        assert store.get_definition(once.id).completed_at == START
        assert store.get_definition(on.id).next_fire_time == START + HOUR
        mine, others = started(fired.started), claim(store, OTHER_NODE)
        found = {each.definition.id: each for each in [*mine, *others]}
        assert found.keys() == fired.done
        assert {each.fire_time for each in found.values()} == {START}
        for each in mine:
            check_is_stored(store, each)
            assert finish(store, each)

    def test_what_fires_later_than_its_fire_time_starts_at_that(
        self, store: Store, clock: ManualClock
    ) -> None:
        stored = put(store, ONCE)
        clock.advance(HOUR)
        settle(store)
        at = START + SECOND
        step = replace(firing(stored), execute_times=(at,))
        for each in store.fire_and_start([step], claimant()).started:
            assert (each.fire_time, each.execute_at, each.due_at) == (START, at, at)
            assert each.started_at == START + HOUR
            assert each == store.get_instance(each.id)

    def test_what_has_fired_already_or_does_not_exist_is_not_started(
        self, store: Store
    ) -> None:
        first = put(store)
        [run] = fire(store, first, next_fire_time=START + HOUR)
        lost = [firing(first), firing(ONCE)]
        for steps in (lost, []):
            fired = store.fire_and_start(steps, claimant())
            assert (fired.done, list(fired.started)) == (set(), [])
        # Nor is the instance of a fire time that has one.
        [later] = due(store, ahead=HOUR)
        back = replace(firing(later, next_fire_time=START), fire_times=())
        assert store.fire_definitions([back]).done == {first.id}
        [again] = due(store)
        fired = store.fire_and_start([firing(again)], claimant())
        assert (fired.done, list(fired.started)) == ({first.id}, [])
        assert ids(instances(store, again)) == [run.id]
