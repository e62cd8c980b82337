"""The keeper: what runs keeps its claim, and what hangs is given up."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO, StoreClock
from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.run import Run
from go_scheduler.running.held import Held, HeldRun
from go_scheduler.running.keeper import Contact, Keeper, Overdue, Renewals
from go_scheduler.running.recorder import Recorder
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.testing.builders import (
    EXPIRE_AFTER,
    LEASE,
    OTHER_NODE,
    cancel,
    claim,
    definition,
    finish,
    running,
)
from go_scheduler.testing.clock import START
from tests.conftest import seconds
from tests.running.wakes import noted_wakes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from go_scheduler.stores.messages import Answer, Renewal
    from go_scheduler.testing import ManualClock

THIRD = LEASE / 3
TICK = timedelta(microseconds=1)


class FaultyStore(MemoryStore):
    """Refuses what it is told to, takes its time, and notes what it was asked."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.away = False
        self.bad: set[UUID] = set()
        self.locked: set[UUID] = set()
        self.asked: list[int] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def renew_claims(self, renewals: Sequence[Renewal]) -> Answer[Mapping[UUID, bool]]:
        if self.away:
            raise StoreUnavailableError("away")
        ids = [each.claim.instance_id for each in renewals]
        assert len(set(ids)) == len(ids)
        if not self.bad.isdisjoint(ids):
            raise StoreError("a bad row")
        self.asked.append(len(renewals))
        free = [each for each in renewals if each.claim.instance_id not in self.locked]
        answer = super().renew_claims(free)
        self.meanwhile()
        return replace(answer, busy=self.locked.intersection(ids))


class Recorded(Recorder):
    """Takes what it is given, and writes nothing."""

    def __init__(self) -> None:
        self.unrecorded_now: list[HeldRun] = []
        self.given_up: list[tuple[HeldRun, str]] = []

    def unrecorded_runs(self) -> Sequence[HeldRun]:
        return self.unrecorded_now

    def give_up(self, run: HeldRun, error: str) -> None:
        self.given_up.append((run, error))


class House:
    """A keeper, and what it looks after."""

    def __init__(
        self, store: FaultyStore, clock: StoreClock, base: ManualClock
    ) -> None:
        self.store = store
        self.clock = clock
        self.base = base
        self.held = Held()
        self.recorder = Recorded()
        self.told_to_end: list[HeldRun] = []
        self.can_end = True
        self.meanwhile_ending: Callable[[], object] = lambda: None
        self.replaced: list[tuple[HeldRun, bool]] = []
        self.contact = Contact(base, lease=LEASE)
        self.keeper = Keeper(
            Renewals(store, clock, lease=LEASE, contact=self.contact),
            clock,
            held=self.held,
            recorder=self.recorder,
            overdue=Overdue(
                self.held,
                self.recorder,
                end=self._end,
                replace=lambda run: self.replaced.append(
                    (run, run in self.held.hung())
                ),
            ),
            left=lambda: None,
        )
        self.tick = self.keeper.tick
        self._wakes = noted_wakes(self.keeper.ticker)

    @property
    def wakes(self) -> int:
        return len(self._wakes)

    @property
    def given_up(self) -> list[tuple[HeldRun, str]]:
        return self.recorder.given_up

    @property
    def unrecorded(self) -> list[HeldRun]:
        return self.recorder.unrecorded_now

    def _end(self, run: HeldRun) -> bool:
        self.told_to_end.append(run)
        self.meanwhile_ending()
        return self.can_end

    def due(
        self, expire_after: timedelta | None = None, timeout: timedelta | None = None
    ) -> HeldRun:
        """A run that waits for a worker."""
        of = definition(self.store.now(), expire_after=expire_after)
        of = replace(of, timeout=timeout)
        run = HeldRun(running(self.store, of), expire_after=EXPIRE_AFTER)
        self.held.add([run])
        assert self.held.fall_due([run], self.base.elapsed())
        return run

    def call(self, run: HeldRun) -> HeldRun:
        assert self.held.call(run)
        run.begin(self.base.elapsed(), self.clock.now(), self.keeper.look)
        self.keeper.watch(run)
        return run

    def called(
        self, expire_after: timedelta | None = None, timeout: timedelta | None = None
    ) -> HeldRun:
        return self.call(self.due(expire_after, timeout))

    def expires_in(self, run: HeldRun) -> timedelta:
        stored = self.store.get_instance(run.instance.id)
        assert stored.expires_at is not None
        return stored.expires_at - self.store.now()


@pytest.fixture
def store(clock: ManualClock) -> FaultyStore:
    return FaultyStore(clock)


@pytest.fixture
def house(store: FaultyStore, store_clock: StoreClock, clock: ManualClock) -> House:
    return House(store, store_clock, clock)


def test_what_runs_and_what_waits_for_a_worker_keeps_its_claim_in_one_write(
    house: House, clock: ManualClock
) -> None:
    runs = [house.called(), house.due()]
    clock.advance(seconds(5))
    assert house.tick() == THIRD
    assert house.store.asked == [2]
    for run in runs:
        assert house.expires_in(run) == LEASE
        assert run.expires_at == START + seconds(5) + LEASE


def test_with_nothing_to_keep_the_store_is_not_asked(house: House) -> None:
    assert house.tick() == THIRD
    assert house.store.asked == []


def test_more_than_a_thousand_are_renewed_in_several_writes(house: House) -> None:
    for _ in range(1001):
        house.due()
    house.tick()
    assert house.store.asked == [1000, 1]


def test_a_run_that_is_known_to_be_lost_is_renewed_no_more(
    house: House, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    run, other = house.called(), house.called()
    clock.advance(LEASE)
    claim(house.store, OTHER_NODE, lapsed=True, limit=1)
    lost, kept = (run, other)
    if house.store.get_instance(run.instance.id).claimed_by != OTHER_NODE:
        lost, kept = other, run
    house.tick()
    assert (lost.lost, Run(lost).cancelled, kept.lost) == (True, True, False)
    assert "has lost its claim" in caplog.text
    clock.advance(THIRD)
    house.tick()
    assert house.store.asked == [2, 1]
    assert len(caplog.records) == 1
    assert house.given_up == []


def test_a_run_learns_that_it_is_asked_to_stop(house: House) -> None:
    run, other = house.called(), house.called()
    cancel(house.store, run.instance)
    house.tick()
    assert Run(run).cancelled
    assert not run.lost
    assert not Run(other).cancelled


def test_what_ended_while_its_claim_was_renewed_has_lost_nothing(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    run = house.called()
    finish(house.store, run.instance)
    house.store.meanwhile = run.settle
    house.tick()
    assert not run.lost
    assert caplog.messages == []


def test_a_bad_row_costs_only_its_own_claim_and_is_tried_again_apart(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    runs = [house.called() for _ in range(5)]
    house.store.bad = {runs[2].instance.id}
    house.base.advance(seconds(5))
    assert house.tick() == seconds(1)
    expiries = [house.expires_in(run) == LEASE for run in runs]
    assert expiries == [True, True, False, True, True]
    assert not any(run.lost for run in runs)
    [record] = caplog.records
    assert "cannot be renewed, next try in 1 s" in record.getMessage()
    house.store.asked.clear()
    for delay in (1, 2, 4, 8, 10, 10):
        house.base.advance(seconds(delay))
        house.tick()
        assert set(house.store.asked) <= {4}
    house.store.bad.clear()
    house.base.advance(seconds(10))
    house.store.asked.clear()
    house.tick()
    assert house.store.asked == [4, 1]
    assert house.expires_in(runs[2]) == LEASE


def test_a_locked_row_is_left_aside_at_once_and_tried_again_apart_and_soon(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    runs = [house.called() for _ in range(5)]
    house.store.locked = {runs[2].instance.id}
    house.base.advance(seconds(5))
    assert house.tick() == seconds(0.1)
    assert house.store.asked == [5]
    expiries = [house.expires_in(run) == LEASE for run in runs]
    assert expiries == [True, True, False, True, True]
    assert not any(run.lost for run in runs)
    for delay, following in ((0.1, 0.2), (0.2, 0.4), (0.4, 0.8), (0.8, 1), (1, 1)):
        house.base.advance(seconds(delay) - TICK)
        house.tick()
        house.base.advance(TICK)
        assert house.tick() == seconds(following)
    assert house.store.asked == [5, 1, 1, 1, 1, 1]
    [record] = caplog.records
    assert "another transaction has locked it" in record.getMessage()
    house.store.locked.clear()
    house.base.advance(seconds(1))
    assert house.tick() is not None
    assert house.expires_in(runs[2]) == LEASE
    house.store.locked = {runs[2].instance.id}
    house.base.advance(THIRD)
    assert house.tick() == seconds(0.1)


def test_what_has_ended_while_it_was_locked_is_tried_no_more(house: House) -> None:
    run = house.called()
    house.store.locked = {run.instance.id}
    house.tick()
    house.held.end(run)
    house.base.advance(seconds(1))
    assert house.tick() == THIRD
    assert house.store.asked == [1]


def test_what_has_ended_and_is_not_recorded_keeps_its_claim(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    ended, joined = house.called(seconds(5)), house.called(seconds(5))
    joined.joined = True
    for run in (ended, joined):
        run.settle()
        house.held.end(run)
    house.recorder.unrecorded_now = [ended, joined]
    house.base.advance(seconds(4))
    house.tick()
    assert house.expires_in(ended) == LEASE
    assert house.expires_in(joined) == seconds(1)
    house.base.advance(LEASE - seconds(1))
    house.tick()
    assert house.expires_in(ended) == LEASE
    assert house.given_up == []
    finish(house.store, ended.instance)
    house.base.advance(LEASE)
    house.tick()
    assert not ended.lost
    assert caplog.records == []


def test_what_has_just_ended_and_holds_for_long_is_not_written_twice(
    house: House,
) -> None:
    ended, running = house.called(), house.called()
    ended.settle()
    house.held.end(ended)
    house.recorder.unrecorded_now = [ended]
    house.tick()
    assert house.store.asked == [1]
    assert house.expires_in(running) == LEASE
    house.base.advance(THIRD + TICK)
    house.tick()
    assert house.store.asked == [1, 2]


def test_a_run_that_has_joined_a_transaction_is_not_renewed_but_given_up_in_time(
    house: House, clock: ManualClock
) -> None:
    joined, other = house.called(seconds(10)), house.called()
    joined.joined = True
    house.tick()
    assert house.store.asked == [1]
    assert house.expires_in(other) == LEASE
    assert not joined.lost
    clock.advance(seconds(10))
    house.tick()
    assert [run for run, _ in house.given_up] == [joined]
    assert joined in house.held.hung()


def test_a_run_that_joins_a_transaction_while_it_is_renewed_has_lost_nothing(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    completed, locked = house.called(), house.called()
    house.store.delete_definitions([completed.instance.definition.id])
    house.store.bad.add(locked.instance.id)

    def join() -> None:
        completed.joined = locked.joined = True

    house.store.meanwhile = join
    house.tick()
    assert (completed.lost, locked.lost) == (False, False)
    assert caplog.records == []


def test_while_the_store_is_away_nothing_is_lost_and_the_contact_is_broken(
    house: House, clock: ManualClock
) -> None:
    run = house.called()
    house.tick()
    clock.advance(seconds(5))
    assert house.contact.unbroken == seconds(5)
    house.store.away = True
    with pytest.raises(StoreUnavailableError):
        house.tick()
    assert not run.lost
    clock.advance(seconds(2))
    assert house.contact.unbroken == ZERO
    house.store.away = False
    house.tick()
    clock.advance(seconds(1))
    assert house.contact.unbroken == seconds(1)


def test_a_run_that_outlives_expire_after_is_given_up(
    house: House, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    run = house.called(seconds(30))
    for delay in (THIRD, THIRD, THIRD, THIRD, seconds(30) - 4 * THIRD):
        assert house.tick() == delay
        assert house.keeper.stuck() == 0
        clock.advance(delay)
    house.tick()
    assert house.given_up == [(run, "no result within 0:00:30: presumed hung")]
    assert (run.settled, run.lost) == (True, True)
    assert run in house.held.hung()
    assert house.replaced == [(run, True)]
    assert house.keeper.stuck() == 1
    assert "presumed hung" in caplog.text
    asked = list(house.store.asked)
    house.tick()
    assert house.store.asked == asked
    assert len(house.given_up) == 1
    house.held.end(run)
    assert house.keeper.stuck() == 0


def test_a_run_that_ends_just_as_it_is_given_up_is_not_given_up(
    house: House, clock: ManualClock
) -> None:
    run = house.called(seconds(30))
    clock.advance(seconds(30))

    class Ending(HeldRun):
        __slots__ = ()

        def left(self, elapsed: timedelta) -> timedelta:
            self.settle()
            return super().left(elapsed)

    run.__class__ = Ending
    house.tick()
    assert house.given_up == []
    assert not run.lost
    assert house.keeper.stuck() == 0


def test_the_claim_of_a_run_lapses_two_seconds_after_it_would_be_given_up(
    house: House, clock: ManualClock
) -> None:
    run = house.called(seconds(30))
    clock.advance(seconds(18))
    house.tick()
    assert house.expires_in(run) == seconds(14)
    clock.advance(seconds(12) - TICK)
    house.tick()
    assert house.expires_in(run) == seconds(2) + TICK


def test_more_time_is_granted_at_the_next_tick(
    house: House, clock: ManualClock
) -> None:
    run = house.called(seconds(3))
    clock.advance(seconds(2))
    wakes = house.wakes
    run.extend(seconds(60))
    assert house.wakes == wakes + 1
    assert house.tick() == THIRD
    assert house.expires_in(run) == LEASE
    clock.advance(seconds(50))
    house.tick()
    assert not run.settled
    clock.advance(seconds(11))
    house.tick()
    assert run in house.held.hung()


def test_a_call_wakes_it_if_it_would_hang_before_the_next_tick(house: House) -> None:
    house.tick()
    house.called(THIRD + seconds(1))
    assert house.wakes == 0
    house.called(THIRD - seconds(1))
    assert house.wakes == 1


def test_a_call_wakes_it_if_the_claim_would_lapse_before_the_next_tick(
    house: House, clock: ManualClock
) -> None:
    run = house.due(seconds(8))
    clock.advance(seconds(5))
    house.store.away = True
    with pytest.raises(StoreUnavailableError):
        house.tick()
    house.store.away = False
    house.call(run)
    assert house.wakes == 1
    house.tick()
    assert house.expires_in(run) == seconds(10)


def test_a_run_that_is_called_during_a_tick_is_looked_after_in_time(
    house: House, clock: ManualClock
) -> None:
    house.called()
    late = house.due(seconds(2))

    def call() -> None:
        house.store.meanwhile = lambda: None
        house.call(late)

    house.store.meanwhile = call
    house.tick()
    assert house.wakes >= 1
    assert house.tick() == seconds(2)


def test_of_two_runs_of_one_instance_the_older_has_lost_its_claim(
    house: House, clock: ManualClock
) -> None:
    old = house.called()
    clock.advance(LEASE)
    [again] = claim(house.store, lapsed=True)
    new = HeldRun(again, expire_after=EXPIRE_AFTER)
    house.held.add([new])
    house.held.fall_due([new], clock.elapsed())
    house.tick()
    assert (old.lost, new.lost) == (True, False)
    assert house.expires_in(new) == LEASE


# Timeouts.

GRACE = seconds(5)


def test_a_run_is_told_to_end_when_its_timeout_has_passed_and_not_before(
    house: House, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    run, other = house.called(timeout=seconds(3)), house.called()
    assert house.tick() == seconds(3)
    clock.advance(seconds(3) - TICK)
    assert house.tick() == TICK
    assert house.told_to_end == []
    clock.advance(TICK)
    assert house.tick() == GRACE
    assert house.told_to_end == [run]
    assert (run.timed_out, run.settled, run.lost) == (True, False, False)
    assert caplog.messages == [
        f"instance {run.instance.id}: attempt 1 has no result after its timeout,"
        " 0:00:03: it is told to end"
    ]
    assert run.because("why") == "timed out after 0:00:03\n\nwhy"
    assert other.because("why") == "why"
    clock.advance(TICK)
    house.tick()
    assert house.told_to_end == [run]


def test_the_keeper_is_woken_for_a_timeout_that_comes_before_its_next_tick(
    house: House,
) -> None:
    house.called(timeout=THIRD)
    house.tick()
    before = house.wakes
    house.called(timeout=THIRD)
    assert house.wakes == before
    house.called(timeout=THIRD - TICK)
    assert house.wakes == before + 1


def test_what_was_told_to_end_and_does_not_is_presumed_hung(
    house: House, clock: ManualClock
) -> None:
    run = house.called(timeout=seconds(3))
    clock.advance(seconds(3))
    house.tick()
    clock.advance(GRACE - TICK)
    assert house.tick() == TICK
    assert house.given_up == []
    assert not run.extend(seconds(100))
    clock.advance(TICK)
    house.tick()
    assert house.given_up == [
        (
            run,
            "timed out after 0:00:03\n\nno result within 0:00:08: presumed hung",
        )
    ]
    assert (house.replaced, run.lost) == ([(run, True)], True)


def test_what_cannot_be_ended_is_left_behind_at_its_timeout(
    house: House, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    house.can_end = False
    run = house.called(timeout=seconds(3))
    clock.advance(seconds(3))
    assert house.tick() == THIRD
    [(given_up, error)] = house.given_up
    assert given_up is run
    assert error.startswith("timed out after 0:00:03\n\n")
    assert (house.replaced, run.lost, run.settled) == ([(run, True)], True, True)
    assert house.keeper.stuck() == 1
    assert caplog.messages[0].endswith("it cannot be ended, presumed hung")


def test_a_result_that_comes_as_its_timeout_passes_is_taken(
    house: House, clock: ManualClock
) -> None:
    house.can_end = False
    run = house.called(timeout=seconds(3))
    house.meanwhile_ending = run.settle
    clock.advance(seconds(3))
    house.tick()
    assert (house.given_up, run.lost) == ([], False)


def test_a_timeout_beyond_what_the_run_may_take_does_not_act(
    house: House, clock: ManualClock
) -> None:
    run = house.called(seconds(3), timeout=seconds(4))
    clock.advance(seconds(3))
    house.tick()
    assert house.given_up == [(run, "no result within 0:00:03: presumed hung")]
    clock.advance(seconds(3))
    house.tick()
    assert house.told_to_end == []


def test_a_run_that_asks_for_more_time_gets_none_beyond_its_timeout(
    house: House, clock: ManualClock
) -> None:
    run = house.called(seconds(3), timeout=seconds(4))
    assert run.extend(seconds(10))
    clock.advance(seconds(4))
    house.tick()
    assert (house.given_up, house.told_to_end) == ([], [run])


def test_a_run_has_the_default_timeout_if_its_definition_has_none(
    house: House,
) -> None:
    instance = house.due().instance
    assert HeldRun(instance, expire_after=EXPIRE_AFTER).timeout is None
    run = HeldRun(instance, expire_after=EXPIRE_AFTER, timeout=seconds(2))
    assert run.timeout == seconds(2)
    own = house.due(timeout=seconds(3)).instance
    run = HeldRun(own, expire_after=EXPIRE_AFTER, timeout=seconds(2))
    assert run.timeout == seconds(3)
