"""What a node holds: every step of a run is taken by one caller, and none is lost."""

from __future__ import annotations

from functools import partial

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.running.held import Held, HeldRun
from go_scheduler.testing.builders import EXPIRE_AFTER, at_once
from tests.conftest import instance, seconds


def run() -> HeldRun:
    return HeldRun(instance(), expire_after=EXPIRE_AFTER)


@pytest.fixture
def held() -> Held:
    return Held()


def test_a_run_waits_is_due_runs_and_ends(held: Held) -> None:
    one = run()
    held.add([one])
    assert (held.waiting, held.busy, held.uncalled()) == (1, 0, [one])
    assert held.fall_due([one], seconds(3))
    assert (held.waiting, held.busy, held.uncalled()) == (0, 1, [one])
    assert one.due_since == seconds(3)
    assert held.due() == [one]
    assert held.call(one)
    assert (held.waiting, held.busy, held.uncalled()) == (0, 1, [])
    assert list(held.running()) == [one]
    held.end(one)
    assert (held.waiting, held.busy, list(held.running())) == (0, 0, [])


def test_what_is_given_back_goes_no_further(held: Held) -> None:
    waiting, due = run(), run()
    held.add([waiting, due])
    held.fall_due([due], ZERO)
    assert held.drop(waiting)
    assert held.drop(due)
    assert not held.fall_due([waiting], ZERO)
    assert not held.call(due)
    assert (held.waiting, held.busy) == (0, 0)


def test_what_is_called_is_not_given_back(held: Held) -> None:
    one = run()
    held.add([one])
    held.fall_due([one], ZERO)
    held.call(one)
    assert not held.drop(one)
    assert list(held.running()) == [one]


def test_no_step_is_taken_before_the_one_that_leads_to_it(held: Held) -> None:
    one = run()
    assert not held.fall_due([one], ZERO)
    assert not held.call(one)
    assert not held.drop(one)
    held.add([one])
    assert not held.call(one)
    assert (held.waiting, held.busy, list(held.running())) == (1, 0, [])


def test_what_has_waited_longest_for_a_worker_comes_first(held: Held) -> None:
    runs = [run() for _ in range(4)]
    held.add(reversed(runs))
    for number, one in enumerate(runs):
        held.fall_due([one], seconds(number))
    assert held.due() == runs
    assert held.due(before=seconds(2)) == runs[:2]
    assert held.due(before=ZERO) == []
    assert held.due(before=seconds(9)) == runs


def test_a_run_is_either_called_or_given_back_when_both_are_tried_at_once(
    held: Held,
) -> None:
    for _ in range(50):
        one = run()
        held.add([one])
        held.fall_due([one], ZERO)
        called, dropped = at_once(partial(held.call, one), partial(held.drop, one))
        assert called is not dropped
        assert held.busy == called
        if called:
            held.end(one)


def test_a_step_that_is_taken_twice_is_refused_and_loses_nothing(held: Held) -> None:
    one = run()
    held.add([one])
    assert held.fall_due([one], ZERO)
    assert not held.fall_due([one], ZERO)
    assert held.due() == [one]
    assert held.call(one)
    assert not held.call(one)
    assert not held.fall_due([one], ZERO)
    assert list(held.running()) == [one]
    assert held.busy == 1
