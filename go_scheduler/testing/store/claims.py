"""Store suite: one node claims an instance, and another one if that node dies.

A store may start what it creates in the same write, or leave it to the claims.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.errors import ConflictError
from go_scheduler.models import Outcome, State, TaskDefinition, TaskInstance
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Addition, Release
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
    Rig,
    StoreTests,
    check,
    claim_of,
    claimant,
    definition,
    end_of,
    firing,
    ids,
    kept_by_store,
    put_and_start,
    renewal_of,
    task,
)
from go_scheduler.testing.clock import START, settle
from go_scheduler.triggers.simple import ExecuteOnceTrigger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from uuid import UUID


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


_TURNS = 8


def waiting(
    rig: Rig, priority: int, count: int = _TURNS, *, queue: str = "default"
) -> TaskDefinition:
    """A definition with due instances; those with a greater number are due earlier."""
    stored = rig.put(definition(START - HOUR, queue=queue, priority=priority))
    first = START - (1 + priority) * MINUTE
    rig.fire(stored, *(first + number * (MINUTE / count) for number in range(count)))
    return stored


def claimed_singly(
    rig: Rig, count: int = _TURNS, *, queues: Sequence[str] = ("default",)
) -> Counter[int]:
    """Claim instances one by one; count them by priority."""
    claims = [rig.claim(queues=queues, limit=1) for _ in range(count)]
    return Counter(each.definition.priority for [each] in claims)


class ClaimTests(StoreTests):
    """``claim_instances``, where nobody has claimed the instance; priorities."""

    def test_an_instance_is_claimed_when_it_is_due_within_ahead(self, rig: Rig) -> None:
        overdue, soon, later = (
            rig.pending(definition(START + each))
            for each in (-1000 * HOUR, MINUTE, 2 * MINUTE)
        )
        assert ids(rig.claim(ahead=MINUTE - TICK)) == [overdue.id]
        assert ids(rig.claim(ahead=MINUTE)) == [soon.id]
        rig.advance(2 * MINUTE - TICK)
        assert rig.claim() == []
        rig.advance(TICK)
        assert ids(rig.claim()) == [later.id]

    def test_a_claim_ahead_holds_for_a_lease_past_the_due_time(self, rig: Rig) -> None:
        given = rig.pending(definition(START + MINUTE))
        [instance] = rig.claim(ahead=HOUR)
        assert instance == replace(
            given, claimed_by=NODE, attempt=1, expires_at=START + MINUTE + LEASE
        )
        assert instance.state is State.CLAIMED
        assert rig.read(instance) == instance

    def test_a_claim_of_what_is_due_is_started(self, rig: Rig) -> None:
        new = definition(START - MINUTE, name="a", metadata={"b": [2]})
        given = rig.pending(new)
        [instance] = rig.claim()
        assert instance == begun(given, START)
        assert instance.state is State.RUNNING
        assert (instance.definition, instance.definition.revision) == (new, 1)
        assert rig.read(instance) == instance

    def test_a_claimed_instance_is_not_claimed_again(self, rig: Rig) -> None:
        rig.claimed()
        rig.running()
        for node in (OTHER_NODE, NODE):
            assert rig.claim(node, ahead=HOUR, lapsed=True) == []

    def test_an_instance_that_has_ended_is_not_claimed(self, rig: Rig) -> None:
        for outcome in Outcome:
            rig.ended(outcome=outcome)
        rig.advance(HOUR)
        assert rig.claim(ahead=HOUR, lapsed=True) == []

    def test_a_node_gets_what_is_in_its_queues(self, rig: Rig) -> None:
        for number, queue in enumerate(["a", "b", "c", "A"]):
            rig.pending(definition(START + number * TICK, queue=queue))
        assert rig.claim(queues=[], ahead=HOUR, lapsed=True) == []
        given = rig.claim(queues=["c", "a"], ahead=SECOND)
        assert [each.definition.queue for each in given] == ["a", "c"]

    def test_the_earliest_due_come_first(self, rig: Rig) -> None:
        for number in (3, 1, 2):
            queue = "even" if number % 2 == 0 else "odd"
            rig.pending(definition(START + number * SECOND, queue=queue))
        given = rig.claim(queues=["even", "odd"], ahead=HOUR, limit=3)
        due = [START + number * SECOND for number in (1, 2, 3)]
        assert [each.due_at for each in given] == due

    def test_claims_in_pages_of_limit_get_everything(self, rig: Rig) -> None:
        queues = ("a", "b")
        for queue in queues:
            made = (START + number * SECOND for number in range(-6, 6))
            rig.fire(rig.put(definition(queue=queue)), *made)
        found: list[TaskInstance] = []
        while page := rig.claim(queues=queues, ahead=HOUR, limit=5):
            assert len(page) <= 5
            assert list(page) == sorted(page, key=attrgetter("due_at"))
            found += page
        assert sorted(ids(found)) == sorted(ids(rig.store.select()))

    def test_what_is_new_is_not_behind_what_was_claimed_ahead(self, rig: Rig) -> None:
        for wait in (ZERO, SECOND):
            read = rig.put()
            soon = rig.now()
            rig.fire(read, *(soon + number * MINUTE for number in range(1, 4)))
            assert len(rig.claim(ahead=HOUR, limit=2)) == 2
            new = rig.pending(definition(soon))
            rig.advance(wait)
            assert new.id in ids(rig.claim(ahead=HOUR, limit=10))

    def test_what_is_due_within_lead_is_also_started(self, rig: Rig) -> None:
        given = rig.pending(definition(START + SECOND))
        [instance] = rig.claim(ahead=HOUR, lead=SECOND)
        assert instance == begun(given, START + SECOND)

    def test_what_is_due_after_lead_is_not_started(self, rig: Rig) -> None:
        rig.pending(definition(START + SECOND))
        assert rig.claim(ahead=SECOND - TICK, lead=HOUR) == []
        [instance] = rig.claim(ahead=HOUR, lead=SECOND - TICK)
        check(instance, state=State.CLAIMED, runs=0, started_at=None)

    def test_a_claim_that_starts_is_bounded_by_expire_after(self, rig: Rig) -> None:
        own = rig.pending(definition(expire_after=SECOND))
        by_default = rig.pending()
        unstarted = rig.pending(definition(START + MINUTE, expire_after=SECOND))
        rig.claim(ahead=HOUR, expire_after=2 * SECOND)
        rig.check(own, expires_at=START + SECOND)
        rig.check(by_default, expires_at=START + 2 * SECOND)
        rig.check(unstarted, expires_at=START + MINUTE + LEASE)

    def test_urgent_instances_come_first_but_not_always(self, rig: Rig) -> None:
        waiting(rig, 3)
        waiting(rig, 0)
        taken = claimed_singly(rig)
        assert taken[0] >= 6
        assert taken[3] >= 1

    def test_the_last_class_that_there_is_has_its_turn(self, rig: Rig) -> None:
        waiting(rig, 1)
        waiting(rig, 0)
        assert set(claimed_singly(rig)) == {0, 1}

    def test_no_class_waits_for_ever(self, rig: Rig) -> None:
        for priority in (3, 1, 0):
            waiting(rig, priority, _TURNS**2)
        assert set(claimed_singly(rig, _TURNS**2)) == {0, 1, 3}

    def test_what_there_is_room_for_comes_whatever_its_class(self, rig: Rig) -> None:
        for priority in (1, 3, 0, 2):
            waiting(rig, priority, 1)
        for priority in (0, 3):
            at = START + (1 + priority) * MINUTE
            rig.pending(definition(at, priority=priority))
        found = rig.claim(ahead=HOUR)
        assert [each.definition.priority for each in found] == [3, 2, 1, 0, 0, 3]

    def test_a_smaller_class_comes_first_from_whichever_queue(self, rig: Rig) -> None:
        waiting(rig, 2)
        waiting(rig, 0, queue="other")
        [instance] = rig.claim(limit=1)
        assert instance.definition.priority == 2
        assert claimed_singly(rig, queues=["default", "other"])[0] >= 6

    def test_what_has_lapsed_comes_before_all_others(self, rig: Rig) -> None:
        last, later = (
            rig.running(definition(priority=priority)) for priority in (3, 2)
        )
        rig.renew(later)
        rig.advance(LEASE)
        first = waiting(rig, 0, 2)
        [taken] = rig.claim(OTHER_NODE, lapsed=True, limit=1)
        assert taken.id in (last.id, later.id)
        rest = rig.take_over()
        assert {rest[0].id, taken.id} == {last.id, later.id}
        assert [each.definition.id for each in rest[1:]] == [first.id] * 2

    def test_an_edit_moves_what_is_open_into_its_new_class(self, rig: Rig) -> None:
        first, last = waiting(rig, 0), waiting(rig, 3)
        rig.edit(first, priority=3, revision=None)
        rig.edit(last, priority=0, revision=None)
        claims = [rig.claim(limit=1) for _ in range(_TURNS)]
        taken = Counter(each.definition.id for [each] in claims)
        assert taken[last.id] >= 6


class LapsedTests(StoreTests):
    """``claim_instances``, where a claim has lapsed."""

    def test_a_lapsed_claim_is_taken_over(self, rig: Rig) -> None:
        first = rig.running()
        rig.advance(LEASE - TICK)
        assert rig.take_over() == []
        rig.advance(TICK)
        [second] = rig.take_over()
        assert second == begun(first, START + LEASE, node=OTHER_NODE)
        assert rig.read(first) == second

    def test_a_lapsed_claim_is_left_alone_after_the_deadline(self, rig: Rig) -> None:
        run, free = rig.running(), rig.pending(definition(START + LEASE))
        rig.advance(LEASE)
        late = rig.now() - TICK
        assert ids(rig.claim(OTHER_NODE, lapsed=True, deadline=late)) == [free.id]
        found = rig.claim(OTHER_NODE, lapsed=True, deadline=rig.now())
        assert ids(found) == [run.id]

    def test_a_lapsed_claim_is_left_alone_unless_asked_for(self, rig: Rig) -> None:
        rig.running()
        rig.advance(HOUR)
        assert rig.claim(OTHER_NODE, ahead=HOUR, lapsed=False) == []
        assert rig.claim(OTHER_NODE, queues=["other"], lapsed=True) == []

    def test_a_lapsed_claim_is_started_if_it_is_due(self, rig: Rig) -> None:
        soon, later = (rig.claimed(definition(START + each)) for each in (SECOND, HOUR))
        rig.renew(later, lease=SECOND)
        rig.advance(SECOND + LEASE)
        taken = {each.id: each for each in rig.take_over()}
        assert taken == {
            soon.id: begun(soon, START + SECOND + LEASE, node=OTHER_NODE),
            later.id: replace(
                later, claimed_by=OTHER_NODE, attempt=2, expires_at=START + HOUR + LEASE
            ),
        }

    def test_a_claim_is_taken_over_that_has_lapsed_so_long_ago(self, rig: Rig) -> None:
        early = rig.running()
        rig.advance(LEASE)
        late = rig.running(definition(rig.now()))
        rig.advance(LEASE)

        def taken_over(lapsed: timedelta) -> list[UUID]:
            return ids(rig.claim(OTHER_NODE, lapsed=lapsed))

        # Claims with a long ``lapsed`` hide nothing from a claim with a short one.
        assert taken_over(timedelta(days=1)) == taken_over(LEASE + TICK) == []
        assert taken_over(LEASE) == [early.id]
        rig.advance(MINUTE)
        assert taken_over(MINUTE + TICK) == []
        assert taken_over(MINUTE) == [late.id]

    def test_a_lapsed_claim_stays_with_its_owner_until_taken(self, rig: Rig) -> None:
        held, run = rig.claimed(), rig.running()
        rig.advance(HOUR)
        assert ids(rig.start(held)) == [held.id]
        assert rig.renew(run) == {run.id: False}
        assert rig.take_over() == []
        rig.advance(HOUR)
        assert rig.finish(run)
        assert rig.release(held)


def lost_claims(rig: Rig) -> dict[str, TaskInstance]:
    """Instances whose claim is lost or was never made, by the reason."""
    given_back, retried, cancelled = rig.running(), rig.running(), rig.claimed()
    assert rig.release(given_back, HOUR)
    assert rig.finish(retried, None, retry_in=HOUR)
    rig.cancel(cancelled)
    over, skipped = rig.ended(), rig.ended(outcome=Outcome.SKIPPED)
    deleted = rig.running()
    rig.delete(deleted.definition)
    # No two are of one instance, as they may stand in one batch.
    unclaimed, next_one = (rig.pending(definition(START + HOUR)) for _ in range(2))
    taken_over, _ = rig.passed_on()
    runs = rig.running()
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


def end_all(
    rig: Rig, given: Sequence[TaskInstance], outcome: Outcome | None
) -> Collection[UUID]:
    """Finish all these runs with one outcome; return the ids that the store accepts."""
    fields: dict[str, Any] = {"hung": True} if outcome is None else {}
    if outcome is Outcome.COMPLETED:
        fields["result"] = '"late"'
    fields |= {"retry_in": HOUR, "error": "late", "client": '"late"'}
    ends = [end_of(each, outcome, **fields) for each in given]
    return rig.store.finish_instances(ends).done


def hand_on_all(rig: Rig, given: Sequence[TaskInstance]) -> Collection[UUID]:
    """Renew these claims and hand them on; return the ids that the store accepts."""
    fields: dict[str, Any] = {"handed_on": True, "worker": "a", "progress": "1"}
    renewals = [renewal_of(each, **fields) for each in given]
    return {*rig.renew(*given), *rig.store.renew_claims(renewals).done}


def release_all(rig: Rig, given: Sequence[TaskInstance]) -> Collection[UUID]:
    """Release these instances; return the ids that the store accepts."""
    releases = [Release(claim=claim_of(each), delay=HOUR) for each in given]
    return rig.store.release_instances(releases).done


def check_none_counts(
    rig: Rig,
    lost: Mapping[str, TaskInstance],
    call: Callable[[Rig, Sequence[TaskInstance]], Collection[UUID]],
) -> None:
    """Check that a call ignores lost claims and accepts a current one beside them."""

    def seen(instance: TaskInstance) -> object:
        if instance.id == NOBODY:
            return None
        return rig.read(instance), [*rig.store.list_runs(instance.id)]

    before = {how: seen(each) for how, each in lost.items()}
    mine = rig.running()
    done = call(rig, [*lost.values(), mine])
    for how, each in lost.items():
        assert each.id not in done, f"a claim is accepted, though {how}"
        assert seen(each) == before[how], f"a claim changes something, though {how}"
    assert set(done) == {mine.id}, "a current claim beside lost ones is not accepted"


class LostClaimTests(StoreTests):
    """Calls with a claim that is not current."""

    def test_nothing_starts_under_a_claim_that_is_not_current(self, rig: Rig) -> None:
        check_none_counts(
            rig, lost_claims(rig), lambda rig, given: ids(rig.start(*given))
        )

    def test_no_claim_is_renewed_that_is_not_current(self, rig: Rig) -> None:
        check_none_counts(rig, lost_claims(rig), hand_on_all)

    def test_nothing_is_released_by_a_claim_that_is_not_current(self, rig: Rig) -> None:
        check_none_counts(rig, lost_claims(rig), release_all)

    def test_no_run_fails_by_a_claim_that_is_not_current(self, rig: Rig) -> None:
        lost = lost_claims(rig)
        for outcome in (Outcome.FAILED, Outcome.CANCELLED, Outcome.SKIPPED, None):
            check_none_counts(rig, lost, partial(end_all, outcome=outcome))

    def test_a_success_counts_of_a_claim_that_was_current_once(self, rig: Rig) -> None:
        lost = lost_claims(rig)
        for how in (
            "its instance was given back",
            "its instance waits for a retry",
            "another node has taken it over",
        ):
            late = lost.pop(how)
            assert rig.finish(late), f"a success is not accepted, though {how}"
            rig.check(late, case=how, outcome=Outcome.COMPLETED, ended_attempt=1)
        check_none_counts(rig, lost, partial(end_all, outcome=Outcome.COMPLETED))

    def test_an_empty_batch_is_answered_by_an_empty_one(self, rig: Rig) -> None:
        rig.running()
        store = rig.store
        assert store.start_instances(claimant(), []).done == []
        assert store.renew_claims([]).done == {}
        assert store.finish_instances([]).done == set()
        assert store.release_instances([]).done == set()
        assert store.cancel_instances({}) == {}
        assert store.reopen_instances([]) == set()


class StartTests(StoreTests):
    """``start_instances`` and ``renew_claims``."""

    def test_a_start_ahead_of_time_begins_at_the_due_time(self, rig: Rig) -> None:
        given = rig.claimed(definition(START + SECOND))
        [instance] = rig.start(given)
        assert instance == replace(
            given, runs=1, started_at=START + SECOND, expires_at=START + SECOND + LEASE
        )
        assert instance.state is State.RUNNING
        assert rig.read(given) == instance

    def test_a_late_start_begins_now(self, rig: Rig) -> None:
        given = rig.claimed(definition(START + SECOND))
        rig.advance(MINUTE)
        [instance] = rig.start(given)
        check(instance, started_at=START + MINUTE, expires_at=START + MINUTE + LEASE)

    def test_a_start_holds_for_the_lease_or_expire_after(self, rig: Rig) -> None:
        for own, lease, by_default in (
            (MINUTE, HOUR, TICK),
            (None, HOUR, MINUTE),
            (HOUR, MINUTE, HOUR),
        ):
            given = rig.claimed(definition(START + SECOND, expire_after=own))
            node = claimant(lease=lease, expire_after=by_default)
            [instance] = rig.store.start_instances(node, [claim_of(given)]).done
            case = f"expire_after: {own}, of the node: {by_default}; lease: {lease}"
            assert instance.expires_at == START + SECOND + MINUTE, case

    def test_a_repeated_start_changes_nothing(self, rig: Rig) -> None:
        [by_a_start] = rig.start(rig.claimed())
        by_its_claim = rig.running()
        rig.advance(MINUTE)
        for first in (by_a_start, by_its_claim):
            assert rig.start(first) == [first]
            assert rig.read(first) == first

    def test_a_renewed_claim_holds_for_its_lease_from_now(self, rig: Rig) -> None:
        given = [rig.claimed(), rig.running(), rig.running()]
        leases = [MINUTE, HOUR, SECOND]
        rig.advance(LEASE - TICK)
        now = rig.now()
        pairs = [*zip(given, leases, strict=True)]
        answer = rig.store.renew_claims([renewal_of(*each) for each in pairs])
        assert answer.done == {each.id: False for each in given}
        for each, lease in pairs:
            assert rig.read(each) == replace(each, expires_at=now + lease)
        rig.advance(SECOND - TICK)
        assert rig.take_over() == []
        rig.advance(TICK)
        assert ids(rig.take_over()) == [given[2].id]

    def test_a_run_that_is_asked_to_stop_is_told(self, rig: Rig) -> None:
        asked, other = rig.running(), rig.running()
        rig.cancel(asked)
        assert rig.renew(asked, other) == {asked.id: True, other.id: False}

    def test_a_handed_on_run_is_not_listed_for_its_node(self, rig: Rig) -> None:
        instance, other = rig.running(), rig.running()
        assert rig.hand_on(instance, lease=HOUR) == {instance.id: False}
        assert ids(rig.store.list_claimed(NODE)) == [other.id]
        assert rig.read(instance) == replace(instance, expires_at=START + HOUR)

    def test_a_renewal_never_shortens_a_handed_on_run(self, rig: Rig) -> None:
        instance = rig.running()
        # Not even by the one that hands it on.
        assert rig.hand_on(instance, lease=SECOND) == {instance.id: False}
        assert rig.read(instance).expires_at == START + LEASE
        rig.hand_on(instance, lease=HOUR)
        assert rig.renew(instance) == {instance.id: False}
        assert rig.read(instance).expires_at == START + HOUR
        rig.renew(instance, lease=2 * HOUR)
        assert rig.read(instance).expires_at == START + 2 * HOUR
        assert rig.store.list_claimed(NODE) == []

    def test_a_handed_on_run_passes_on_like_any_other(self, rig: Rig) -> None:
        lapses, given_back = rig.running(), rig.running()
        for each in (lapses, given_back):
            rig.hand_on(each, lease=HOUR)
        assert rig.release(given_back)
        assert ids(rig.claim()) == ids(rig.store.list_claimed(NODE)) == [given_back.id]
        rig.advance(HOUR)
        taken = rig.take_over()
        [second] = [each for each in taken if each.id == lapses.id]
        assert second in rig.store.list_claimed(OTHER_NODE)
        assert rig.renew(second) == {second.id: False}
        assert rig.read(second).expires_at == START + HOUR + LEASE


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


def add(
    rig: Rig,
    to: TaskDefinition,
    *additions: Addition,
    names: Collection[str] | None = None,
) -> Sequence[TaskInstance]:
    """Add instances for a node that may start them."""
    node = claimant(names=names)
    return rig.store.add_instances(to.id, additions, claimant=node)


def started(found: Sequence[TaskInstance]) -> Sequence[TaskInstance]:
    """The instances that were started; checks the fields that a node needs."""
    mine = [each for each in found if each.claimed_by is not None]
    for each in mine:
        assert (each.state, each.claimed_by) == (State.RUNNING, NODE)
        assert (each.attempt, each.runs, each.started_at) == (1, 1, START)
        expire_after = each.definition.expire_after or LEASE
        assert each.expires_at == START + expire_after
    return mine


def check_is_stored(rig: Rig, given: TaskInstance) -> None:
    """Check that the store has the same instance and definition as the answer."""
    stored = rig.read(given.definition)
    assert given == rig.read(given)
    assert given.definition == stored
    assert kept_by_store(given.definition) == kept_by_store(stored)


class HandOverTests(StoreTests):
    """``add_instances``, ``put_definitions`` and ``fire_definitions`` for a node."""

    def test_what_is_added_and_due_is_started_or_left_to_claims(self, rig: Rig) -> None:
        stored = rig.put(task(name="send", expire_after=SECOND))
        additions = [Addition(payload={"number": each}) for each in range(3)]
        found = add(rig, stored, *additions, names=["report", "send"])
        assert ids(found) == [each.id for each in additions]
        assert [each.payload for each in found] == [each.payload for each in additions]
        for each in found:
            check_is_stored(rig, each)
        mine, others = started(found), rig.claim(OTHER_NODE)
        assert sorted([*ids(mine), *ids(others)]) == sorted(ids(found))
        last, *rest = [*mine, *others]
        assert all(rig.finish(each) for each in rest)
        rig.advance(LEASE)
        assert ids(rig.take_over()) == [last.id]

    def test_what_its_node_may_not_start_is_left_to_claims(self, rig: Rig) -> None:
        for why, (fields, when) in NOT_STARTED.items():
            stored = rig.put(task(**{"name": "report", **fields}))
            found = add(rig, stored, Addition(**when), names=["report"])
            assert started(found) == [], f"an instance is started, though {why}"
            rig.resume(stored)
            given = rig.claim(OTHER_NODE, queues=[stored.queue], ahead=SECOND)
            assert ids(given) == ids(found), f"it cannot be claimed later: {why}"

    def test_what_was_there_already_is_not_started(self, rig: Rig) -> None:
        stored = rig.put(task())
        first = Addition(key="one")
        [by_hand] = rig.store.add_instances(stored.id, [first])
        assert list(add(rig, stored, Addition(key="one"))) == [by_hand]
        [run] = rig.claim(OTHER_NODE)
        [found] = add(rig, stored, first)
        assert (found.id, found.claimed_by) == (run.id, OTHER_NODE)
        again = Addition()
        assert add(rig, stored, again) == add(rig, stored, again)

    def test_a_new_definition_fires_and_may_start_at_once(self, rig: Rig) -> None:
        on, waits = definition(), definition(trigger=WAITING)
        for step in (firing(ONCE), firing(on, next_fire_time=START + HOUR)):
            put = put_and_start(rig.store, step)
            [found] = put.definitions
            assert (found.next_fire_time, found.completed_at) == (START, None)
            if not put.started:
                assert found in rig.due()
                continue
            [instance] = started(put.started)
            check_is_stored(rig, instance)
            stored = instance.definition
            check(stored, revision=found.revision, next_fire_time=step.next_fire_time)
            assert (stored.completed_at == START) is (found == ONCE)
            assert (instance.fire_time, instance.due_at) == (START, START)
            assert rig.claim() == []
            assert rig.finish(instance)
        put = put_and_start(rig.store, firing(waits))
        [found] = put.definitions
        if not put.started:
            assert found in rig.due()
            return
        [instance] = started(put.started)
        assert instance.definition.completed_at is None
        assert rig.finish(instance, next_fire_time=START + HOUR)
        assert rig.read(found).next_fire_time == START + HOUR

    def test_one_that_is_stored_already_is_put_and_not_started(self, rig: Rig) -> None:
        stored = rig.put(ONCE)
        put = put_and_start(rig.store, firing(ONCE))
        assert (list(put.definitions), list(put.started)) == ([stored], [])
        assert ids(rig.due()) == [ONCE.id]
        put = put_and_start(rig.store, firing(replace(ONCE, name="another")))
        [found] = put.definitions
        assert (found.name, list(put.started)) == ("another", [])
        assert rig.instances(found) == []
        with pytest.raises(ConflictError):
            put_and_start(rig.store, firing(replace(ONCE, revision=7)))

    def test_of_several_definitions_each_is_started_or_due(self, rig: Rig) -> None:
        old, new, other, later = (definition(key=key) for key in range(1, 5))
        rig.put(old)
        put = rig.store.put_definitions(
            [old, new, other, later],
            firings=[firing(each) for each in (other, old, new)],
            claimant=claimant(),
        )
        assert ids(put.definitions) == [old.id, new.id, other.id, later.id]
        assert {each.next_fire_time for each in put.definitions} == {START}
        mine = [each.definition.id for each in started(put.started)]
        assert sorted([*mine, *ids(rig.due())]) == ids(put.definitions)
        assert {*mine} <= {new.id, other.id}
        for each in put.started:
            check_is_stored(rig, each)

    def test_without_a_node_nothing_is_started(self, rig: Rig) -> None:
        put = rig.store.put_definitions([ONCE], firings=[firing(ONCE)])
        assert list(put.started) == []
        [due] = rig.due()
        assert due == put.definitions[0]
        fired = rig.store.fire_definitions([firing(due)])
        assert (fired.done, list(fired.started)) == ({due.id}, [])
        [added] = rig.store.add_instances(due.id, [Addition()])
        assert added.claimed_by is None
        assert len(rig.claim()) == 2

    def test_what_fires_is_started_or_left_to_claims(self, rig: Rig) -> None:
        once, on = rig.put(ONCE), rig.put()
        steps = [firing(once), firing(on, next_fire_time=START + HOUR)]
        fired = rig.store.fire_definitions(steps, claimant=claimant())
        assert (fired.done, fired.busy) == ({once.id, on.id}, set())
        assert rig.due(ahead=SECOND) == []
        assert rig.read(once).completed_at == START
        assert rig.read(on).next_fire_time == START + HOUR
        mine, others = started(fired.started), rig.claim(OTHER_NODE)
        found = {each.definition.id: each for each in [*mine, *others]}
        assert found.keys() == fired.done
        assert {each.fire_time for each in found.values()} == {START}
        for each in mine:
            check_is_stored(rig, each)
            assert rig.finish(each)

    def test_what_fires_later_than_its_fire_time_starts_at_that(self, rig: Rig) -> None:
        stored = rig.put(ONCE)
        rig.advance(HOUR)
        settle(rig.store)
        at = START + SECOND
        step = replace(firing(stored), execute_times=(at,))
        fired = rig.store.fire_definitions([step], claimant=claimant())
        for each in fired.started:
            assert (each.fire_time, each.execute_at, each.due_at) == (START, at, at)
            assert each.started_at == START + HOUR
            assert each == rig.read(each)

    def test_a_lost_firing_starts_nothing(self, rig: Rig) -> None:
        first = rig.put()
        [run] = rig.fire(first, next_fire_time=START + HOUR)
        lost = [firing(first), firing(ONCE)]
        for steps in (lost, []):
            fired = rig.store.fire_definitions(steps, claimant=claimant())
            assert (fired.done, list(fired.started)) == (set(), [])
        # Nor is the instance of a fire time that has one.
        [later] = rig.due(ahead=HOUR)
        back = replace(firing(later, next_fire_time=START), fire_times=())
        assert rig.fire_steps(back) == [first.id]
        [again] = rig.due()
        fired = rig.store.fire_definitions([firing(again)], claimant=claimant())
        assert (fired.done, list(fired.started)) == ({first.id}, [])
        assert ids(rig.instances(again)) == [run.id]
