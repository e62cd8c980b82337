"""The desk: runs elsewhere are claimed, kept and ended by the rules of those here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

import pytest

from go_scheduler import (
    DelayTrigger,
    Extension,
    MemoryStore,
    RetryPolicy,
    StoreUnavailableError,
    Trigger,
)
from go_scheduler.client import Client
from go_scheduler.events import (
    DefinitionCompleted,
    Event,
    InstanceFinished,
    InstanceGivenBack,
    InstanceRetried,
    RunEnded,
    RunFailed,
    TriggerFailed,
)
from go_scheduler.models import Outcome, State
from go_scheduler.running.calling.error_text import ERROR_LIMIT
from go_scheduler.running.defaults import Defaults
from go_scheduler.running.desk import Desk
from go_scheduler.stores.messages import Answer
from go_scheduler.testing.builders import (
    EXPIRE_AFTER,
    HOUR,
    LEASE,
    MINUTE,
    NOBODY,
    OTHER_NODE,
    SECOND,
    TICK,
    at_once,
    cancel,
    claim,
    claim_of,
    claimant,
    definition,
    ended,
    hand_on,
    ids,
    passed_on,
    pending,
    running,
    stale_claim_of,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.settling import settle
from go_scheduler.triggers import UnknownTrigger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Release, Renewal, RunOutcome
    from go_scheduler.testing import ManualClock

DEFAULTS = Defaults(expire_after=EXPIRE_AFTER)
ONCE = RetryPolicy(max_attempts=1)


@pytest.fixture
def told() -> list[Event]:
    """What the desk has told."""
    return []


@pytest.fixture
def desk(store: Store, told: list[Event]) -> Desk:
    def tell(event: Event) -> None:
        # It says again, in one line, what the others say.
        if not isinstance(event, RunEnded):
            told.append(event)

    return Desk(store, defaults=DEFAULTS, tell=tell)


def handed_on(store: Store, **values: object) -> TaskInstance:
    """An instance whose run has been handed on for an hour."""
    instance = running(store, replace(definition(), **values))  # type: ignore[arg-type]
    hand_on(store, instance, lease=HOUR)
    return store.get_instance(instance.id)


class TestClaim:
    def test_due_instances_are_claimed_and_started(
        self, store: Store, desk: Desk
    ) -> None:
        due, later = pending(store), pending(store, definition(START + SECOND))
        settle(store)
        [run] = desk.claim(claimant(), limit=10)
        assert (run.id, run.state, run.runs) == (due.id, State.RUNNING, 1)
        assert run.expires_at == START + LEASE
        assert store.get_instance(later.id).state is State.PENDING
        assert desk.claim(claimant(), limit=10) == []

    def test_two_desks_never_claim_the_same(self, store: Store, desk: Desk) -> None:
        pending(store)
        settle(store)
        other = Desk(store, defaults=DEFAULTS, tell=print)
        found = at_once(
            lambda: desk.claim(claimant(), limit=10),
            lambda: other.claim(claimant(OTHER_NODE), limit=10),
        )
        assert sorted(len(each) for each in found) == [0, 1]  # type: ignore[arg-type]

    def test_what_has_lapsed_is_taken_over_if_that_is_asked_for(
        self, store: Store, clock: ManualClock, desk: Desk
    ) -> None:
        lapsed = handed_on(store)
        clock.advance(HOUR)
        assert desk.claim(claimant(OTHER_NODE), limit=1) == []
        [run] = desk.claim(claimant(OTHER_NODE), limit=1, lapsed=timedelta(0))
        assert (run.id, run.attempt) == (lapsed.id, lapsed.attempt + 1)

    def test_what_may_not_run_any_more_is_ended(
        self, store: Store, clock: ManualClock, desk: Desk
    ) -> None:
        worn, unwanted = handed_on(store, retry=ONCE), handed_on(store)
        cancel(store, unwanted)
        clock.advance(HOUR)
        assert desk.claim(claimant(), limit=10, lapsed=timedelta(0)) == []
        assert store.get_instance(worn.id).state is State.FAILED
        assert store.get_instance(unwanted.id).state is State.CANCELLED

    def test_what_cannot_be_read_is_given_back(
        self, store: Store, clock: ManualClock, desk: Desk
    ) -> None:
        unknown = UnknownTrigger("martian", {}, "no imported class has it")
        given = pending(store, replace(definition(), trigger=unknown))
        settle(store)
        assert desk.claim(claimant(), limit=10) == []
        found = store.get_instance(given.id)
        assert (found.state, found.runs) == (State.PENDING, 0)
        assert found.due_at > START


class TestExtend:
    def test_a_run_that_is_extended_goes_on(
        self, store: Store, clock: ManualClock, desk: Desk
    ) -> None:
        run = handed_on(store)
        clock.advance(MINUTE)
        assert desk.extend(claim_of(run), HOUR) is Extension.GO_ON
        clock.advance(HOUR - TICK)
        assert claim(store, OTHER_NODE, lapsed=True) == []
        clock.advance(TICK)
        assert ids(claim(store, OTHER_NODE, lapsed=True)) == [run.id]
        assert desk.extend(claim_of(run), HOUR) is Extension.LOST

    def test_what_its_node_keeps_for_longer_is_kept_no_shorter(
        self, store: Store, desk: Desk
    ) -> None:
        run = running(store, definition())
        assert desk.extend(claim_of(run), TICK) is Extension.GO_ON
        assert store.get_instance(run.id).expires_at == run.expires_at

    def test_a_run_that_is_cancelled_is_told_to_stop(
        self, store: Store, desk: Desk
    ) -> None:
        run = handed_on(store)
        cancel(store, run)
        assert desk.extend(claim_of(run), HOUR) is Extension.STOP
        assert desk.fail(claim_of(run), "stopped")
        over = store.get_instance(run.id)
        assert (over.state, over.error) == (State.CANCELLED, "stopped")
        assert desk.extend(claim_of(run), HOUR) is Extension.LOST

    def test_the_run_of_a_deleted_definition_is_lost(
        self, store: Store, desk: Desk
    ) -> None:
        run = handed_on(store)
        store.delete_definitions([run.definition.id])
        assert desk.extend(claim_of(run), HOUR) is Extension.LOST

    def test_an_unknown_instance_is_lost(self, store: Store, desk: Desk) -> None:
        nobodys = replace(claim_of(handed_on(store)), instance_id=NOBODY)
        assert desk.extend(nobodys, HOUR) is Extension.LOST


class TestComplete:
    def test_a_success_ends_the_instance(
        self, store: Store, clock: ManualClock, desk: Desk, told: list[Event]
    ) -> None:
        run = handed_on(store)
        clock.advance(MINUTE)
        assert desk.complete(claim_of(run))
        over = store.get_instance(run.id)
        assert (over.state, over.completed_at) == (State.COMPLETED, START + MINUTE)
        assert (over.started_at, over.ended_attempt) == (START, run.attempt)
        [event] = told
        assert isinstance(event, InstanceFinished)
        assert (event.instance_id, event.took) == (run.id, MINUTE)

    def test_a_success_may_be_said_again(
        self, store: Store, desk: Desk, told: list[Event]
    ) -> None:
        run = handed_on(store)
        assert desk.complete(claim_of(run))
        assert desk.complete(claim_of(run))
        assert len(told) == 1

    def test_the_success_of_an_old_attempt_counts_if_it_is_the_first(
        self, store: Store, clock: ManualClock, desk: Desk
    ) -> None:
        run = handed_on(store)
        clock.advance(HOUR)
        [second] = claim(store, OTHER_NODE, lapsed=True)
        assert desk.complete(claim_of(run))
        assert store.get_instance(run.id).ended_attempt == run.attempt
        assert not desk.complete(claim_of(second))

    def test_a_success_makes_good_a_failure(
        self, store: Store, desk: Desk, told: list[Event]
    ) -> None:
        run = handed_on(store, retry=ONCE)
        assert desk.fail(claim_of(run), "no")
        assert store.get_instance(run.id).state is State.FAILED
        assert desk.complete(claim_of(run))
        assert store.get_instance(run.id).state is State.COMPLETED
        failed, *finished = told
        assert isinstance(failed, RunFailed)
        assert [each.outcome for each in finished] == [  # type: ignore[attr-defined]
            Outcome.FAILED,
            Outcome.COMPLETED,
        ]

    def test_a_success_counts_while_the_instance_waits_to_run_again(
        self, store: Store, clock: ManualClock, desk: Desk
    ) -> None:
        waiting = waiting_for_retry(store, retry_in=HOUR)
        clock.advance(MINUTE)
        assert desk.complete(claim_of(waiting))
        assert store.get_instance(waiting.id).started_at == START + MINUTE

    def test_no_success_counts_of_what_was_cancelled_or_is_gone(
        self, store: Store, desk: Desk, told: list[Event]
    ) -> None:
        over = ended(store, outcome=Outcome.CANCELLED)
        assert not desk.complete(claim_of(over))
        assert not desk.complete(replace(claim_of(over), instance_id=NOBODY))
        assert store.get_instance(over.id) == over
        assert told == []

    def test_of_two_that_complete_at_once_each_learns_who_did(
        self, store: Store, clock: ManualClock, desk: Desk
    ) -> None:
        first, second = passed_on(store, clock)
        found = at_once(
            lambda: desk.complete(claim_of(first)),
            lambda: desk.complete(claim_of(second)),
        )
        ended_by = store.get_instance(first.id).ended_attempt
        assert found == [ended_by == first.attempt, ended_by == second.attempt]

    def test_a_definition_that_waits_for_the_end_goes_on(
        self, store: Store, clock: ManualClock, desk: Desk
    ) -> None:
        run = handed_on(store, trigger=DelayTrigger(HOUR))
        clock.advance(MINUTE)
        assert desk.complete(claim_of(run))
        found = store.get_definition(run.definition.id)
        assert found.next_fire_time == START + MINUTE + HOUR

    def test_a_definition_that_waits_and_fires_no_more_is_told_of(
        self, store: Store, desk: Desk, told: list[Event]
    ) -> None:
        run = handed_on(store, trigger=Waiting(again=False))
        assert desk.complete(claim_of(run))
        assert [type(each) for each in told] == [InstanceFinished, DefinitionCompleted]

    def test_a_trigger_that_fails_at_the_end_is_told_of(
        self, store: Store, desk: Desk, told: list[Event]
    ) -> None:
        run = handed_on(store, trigger=Waiting(again=True))
        assert desk.complete(claim_of(run))
        assert [type(each) for each in told] == [TriggerFailed, InstanceFinished]
        found = store.get_definition(run.definition.id)
        assert found.next_fire_time == START + MINUTE


@dataclass(frozen=True)
class Waiting(Trigger):
    """Waits for the end of its one run, and then fails or fires no more."""

    kind: ClassVar[str] = "desk test"
    waits: ClassVar[bool] = True
    again: bool

    def first_fire_time(self, now: datetime) -> datetime | None:
        return now

    def next_fire_time(self, after: datetime) -> datetime | None:
        if self.again and after >= START:
            raise ValueError("not again")
        return None


class TestFail:
    def test_what_failed_runs_again_by_its_policy(
        self, store: Store, clock: ManualClock, desk: Desk, told: list[Event]
    ) -> None:
        run = handed_on(store)
        clock.advance(MINUTE)
        assert desk.fail(claim_of(run), "no answer")
        waiting = store.get_instance(run.id)
        assert (waiting.state, waiting.error) == (State.PENDING, "no answer")
        assert waiting.due_at == START + EXPIRE_AFTER
        assert [type(each) for each in told] == [RunFailed, InstanceRetried]
        assert claim(store) == []
        clock.advance(EXPIRE_AFTER - MINUTE)
        assert ids(claim(store)) == [run.id]

    def test_the_definitions_own_time_counts(self, store: Store, desk: Desk) -> None:
        run = handed_on(store, expire_after=HOUR)
        assert desk.fail(claim_of(run), "no")
        assert store.get_instance(run.id).due_at == START + HOUR

    def test_the_last_failure_ends_the_instance(
        self, store: Store, desk: Desk, told: list[Event]
    ) -> None:
        run = handed_on(store, retry=ONCE)
        assert desk.fail(claim_of(run), "no")
        assert store.get_instance(run.id).state is State.FAILED
        assert [type(each) for each in told] == [RunFailed, InstanceFinished]

    def test_a_late_failure_changes_nothing(
        self, store: Store, clock: ManualClock, desk: Desk, told: list[Event]
    ) -> None:
        _, second = passed_on(store, clock)
        assert not desk.fail(stale_claim_of(second), "late")
        assert not desk.fail(replace(claim_of(second), instance_id=NOBODY), "whose")
        assert store.get_instance(second.id) == second
        assert told == []

    def test_the_failure_of_what_failed_already_changes_nothing(
        self, store: Store, desk: Desk
    ) -> None:
        run = handed_on(store)
        assert desk.fail(claim_of(run), "no")
        assert not desk.fail(claim_of(run), "again")
        assert store.get_instance(run.id).error == "no"

    def test_an_error_is_kept_as_every_store_can(
        self, store: Store, desk: Desk
    ) -> None:
        run = handed_on(store)
        assert desk.fail(claim_of(run), "long " * ERROR_LIMIT + "\0 \udcff")
        error = store.get_instance(run.id).error
        assert error is not None
        assert (len(error), error[-11:]) == (ERROR_LIMIT, "\\x00 \\udcff")


class TestRelease:
    def test_what_is_given_back_runs_elsewhere_and_counts_no_run(
        self, store: Store, desk: Desk, told: list[Event]
    ) -> None:
        run = handed_on(store)
        assert desk.release(claim_of(run), delay=timedelta(0))
        assert not desk.release(claim_of(run), delay=timedelta(0))
        [event] = told
        assert isinstance(event, InstanceGivenBack)
        assert (event.instance_id, event.attempt) == (run.id, run.attempt)
        [second] = claim(store, OTHER_NODE)
        assert (second.id, second.runs) == (run.id, 1)
        assert store.list_claimed(OTHER_NODE) == [second]

    def test_what_is_gone_is_given_back_by_nobody(
        self, store: Store, desk: Desk
    ) -> None:
        gone = replace(claim_of(handed_on(store)), instance_id=NOBODY)
        assert not desk.release(gone, delay=timedelta(0))

    def test_it_may_wait_before(
        self, store: Store, clock: ManualClock, desk: Desk
    ) -> None:
        run = handed_on(store)
        assert desk.release(claim_of(run), delay=MINUTE)
        assert claim(store) == []
        clock.advance(MINUTE)
        assert ids(claim(store)) == [run.id]


class LockedStore(MemoryStore):
    """A store in which somebody else has locked every instance."""

    def renew_claims(self, renewals: Sequence[Renewal]) -> Answer[Mapping[UUID, bool]]:
        busy = {each.claim.instance_id for each in renewals}
        return Answer(done={}, busy=busy)

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        busy = {each.claim.instance_id for each in outcomes}
        return Answer(done=frozenset(), busy=busy)

    def release_instances(self, releases: Sequence[Release]) -> Answer[Set[UUID]]:
        busy = {each.claim.instance_id for each in releases}
        return Answer(done=frozenset(), busy=busy)


def test_what_is_locked_is_to_be_asked_again(clock: ManualClock) -> None:
    store = LockedStore(clock)
    run = running(store)
    client = Client(store)
    for call in (
        lambda: client.extend(run.id, run.attempt, HOUR),
        lambda: client.complete(run.id, run.attempt),
        lambda: client.fail(run.id, run.attempt, "no"),
        lambda: client.release(run.id, run.attempt),
    ):
        with pytest.raises(StoreUnavailableError, match=f"{run.id}: another trans"):
            call()
    assert store.get_instance(run.id) == run


class OvertakenStore(MemoryStore):
    """Has the end of a run recorded a moment before it is asked to."""

    def __init__(self, clock: ManualClock, outcome: Outcome) -> None:
        super().__init__(clock)
        self._outcome = outcome

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        super().finish_instances(
            [replace(each, outcome=self._outcome) for each in outcomes]
        )
        return super().finish_instances(outcomes)


@pytest.mark.parametrize("outcome", [Outcome.COMPLETED, Outcome.CANCELLED])
def test_of_two_that_complete_one_attempt_at_once_both_learn_that_it_is(
    clock: ManualClock, outcome: Outcome
) -> None:
    store = OvertakenStore(clock, outcome)
    run = running(store)
    is_completed = outcome is Outcome.COMPLETED
    assert Client(store).complete(run.id, run.attempt) is is_completed


def test_a_client_does_all_of_it(store: Store) -> None:
    client = Client(store)
    first, second, third = (handed_on(store) for _ in range(3))
    assert client.extend(first.id, first.attempt, HOUR) is Extension.GO_ON
    assert client.complete(first.id, first.attempt)
    assert client.fail(second.id, second.attempt, "no")
    assert client.release(third.id, third.attempt)
    assert not client.release(third.id, third.attempt)
    assert [store.get_instance(each.id).state for each in (first, second, third)] == [
        State.COMPLETED,
        State.PENDING,
        State.PENDING,
    ]
