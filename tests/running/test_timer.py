"""The timer: each run is handed over at its instant, not before and not twice."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.running.held import HeldRun
from go_scheduler.running.starter import Timer
from go_scheduler.testing.builders import EXPIRE_AFTER
from go_scheduler.testing.clock import START
from tests.conftest import instance, seconds
from tests.running.wakes import noted_wakes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from go_scheduler.clock import StoreClock
    from go_scheduler.testing import ManualClock

TICK = timedelta(microseconds=1)


class Hands:
    """Takes what is due and notes how often the timer asked to be woken."""

    def __init__(self, clock: StoreClock) -> None:
        self.got: list[HeldRun] = []
        self.batches: list[int] = []
        self.soon: list[HeldRun] = []
        self.timer = Timer(clock, hand_over=self.take, prepare=self.soon.extend)
        self._wakes = noted_wakes(self.timer.ticker)

    def take(self, runs: Sequence[HeldRun]) -> None:
        if runs:
            self.batches.append(len(runs))
        self.got.extend(runs)

    @property
    def wakes(self) -> int:
        return len(self._wakes)


@pytest.fixture
def hands(store_clock: StoreClock) -> Hands:
    return Hands(store_clock)


def run(due_at: datetime) -> HeldRun:
    return HeldRun(instance(due_at=due_at), expire_after=EXPIRE_AFTER)


def test_a_run_is_handed_over_at_its_instant_and_no_microsecond_before(
    hands: Hands, clock: ManualClock
) -> None:
    due = run(START + seconds(1))
    hands.timer.add([due])
    assert hands.timer.tick() == seconds(1)
    clock.advance(seconds(1) - TICK)
    assert hands.timer.tick() == TICK
    assert hands.got == []
    clock.advance(TICK)
    assert hands.timer.tick() is None
    assert hands.got == [due]
    assert hands.timer.tick() is None
    assert hands.got == [due]


def test_what_is_due_already_is_handed_over_without_a_wake(hands: Hands) -> None:
    runs = [run(START), run(START - seconds(5))]
    hands.timer.add(runs)
    assert hands.got == runs
    assert hands.wakes == 0
    assert hands.timer.tick() is None


def test_of_what_falls_due_later_the_workers_are_told_before(hands: Hands) -> None:
    due, later = run(START), run(START + seconds(1))
    hands.timer.add([due, later])
    assert (hands.got, hands.soon) == ([due], [later])


def test_runs_are_handed_over_in_the_order_of_their_times(
    hands: Hands, clock: ManualClock
) -> None:
    runs = {offset: run(START + seconds(offset)) for offset in (3, 1, 2)}
    hands.timer.add(runs.values())
    clock.advance(seconds(5))
    assert hands.timer.tick() is None
    assert hands.got == [runs[1], runs[2], runs[3]]


def test_runs_of_one_instant_are_handed_over_together_and_in_order(
    hands: Hands, clock: ManualClock
) -> None:
    runs = [run(START + seconds(1)) for _ in range(50)]
    hands.timer.add(runs)
    clock.advance(seconds(1))
    hands.timer.tick()
    assert hands.got == runs
    assert hands.batches == [50]


def test_it_is_woken_only_for_what_comes_before_all_it_waits_for(hands: Hands) -> None:
    hands.timer.add([run(START + seconds(5))])
    assert hands.wakes == 1
    hands.timer.add([run(START + seconds(5)), run(START + seconds(9))])
    assert hands.wakes == 1
    hands.timer.add([])
    assert hands.wakes == 1
    hands.timer.add([run(START + seconds(2)), run(START + seconds(1))])
    assert hands.wakes == 2
    assert hands.timer.tick() == seconds(1)


def test_what_falls_due_while_others_are_handed_over_is_handed_over_too(
    store_clock: StoreClock, clock: ManualClock
) -> None:
    got: list[HeldRun] = []

    def slow(runs: Sequence[HeldRun]) -> None:
        got.extend(runs)
        clock.advance(seconds(1) if runs else ZERO)

    timer = Timer(store_clock, hand_over=slow)
    runs = [run(START + seconds(number)) for number in (1, 2, 3, 9)]
    timer.add(runs)
    clock.advance(seconds(1))
    assert timer.tick() == seconds(5)
    assert got == runs[:3]


def test_the_store_is_never_asked(hands: Hands, clock: ManualClock) -> None:
    hands.timer.add([run(START + timedelta(hours=9))])
    clock.advance(timedelta(hours=9))
    hands.timer.tick()
    assert len(hands.got) == 1
