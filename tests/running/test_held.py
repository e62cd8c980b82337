"""What a node holds: of several threads that take a step of a run, one does."""

from __future__ import annotations

from functools import partial

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.running.defaults import Defaults
from go_scheduler.running.held import Held, HeldRun
from go_scheduler.testing.builders import at_once
from tests.conftest import instance, seconds


def run() -> HeldRun:
    return HeldRun(instance(), Defaults())


@pytest.fixture
def held() -> Held:
    return Held()


def test_a_run_was_never_called_before_it_was_due() -> None:
    one = run()
    for late in (-1, 1):
        one.begin(ZERO, one.instance.due_at + seconds(late), lambda: None)
        assert one.called_at == one.instance.due_at + max(ZERO, seconds(late))


def test_more_time_may_be_allowed_before_the_call() -> None:
    one = run()
    before = one.allowed
    assert one.extend(seconds(5))
    assert one.left(ZERO) == before + seconds(5)


def test_what_is_given_back_goes_no_further(held: Held) -> None:
    waiting, due = run(), run()
    held.add([waiting, due])
    assert not held.call(waiting)
    held.fall_due([due], ZERO)
    assert not held.fall_due([due], ZERO)
    assert held.drop(waiting)
    assert held.drop(due)
    assert not held.fall_due([waiting], ZERO)
    assert not held.call(due)
    assert (held.waiting, held.busy) == (0, 0)


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


def test_of_those_that_decide_an_outcome_at_once_one_does() -> None:
    for _ in range(10):
        one = run()
        assert sorted(at_once(*[one.settle] * 4)) == [False, False, False, True]
        assert one.settled


def test_what_has_come_back_hangs_no_more_and_keeps_no_worker(held: Held) -> None:
    one = run()
    held.add([one])
    held.fall_due([one], ZERO)
    assert held.call(one)
    held.end(one)
    held.hang(one)
    assert not held.set_apart(one)
    assert (held.hung(), held.apart()) == ({}, {})
