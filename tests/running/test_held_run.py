"""A run as the loops see it."""

from __future__ import annotations

from datetime import timedelta

from go_scheduler.clock import ZERO
from go_scheduler.running.held import HeldRun
from go_scheduler.testing.builders import EXPIRE_AFTER, LEASE, at_once, definition
from go_scheduler.testing.clock import START
from tests.conftest import instance, seconds


def run(expire_after: timedelta | None = None) -> HeldRun:
    of = definition(expire_after=expire_after)
    return HeldRun(instance(of, attempt=7), expire_after=EXPIRE_AFTER)


def test_it_may_run_as_long_as_its_definition_says_or_else_the_scheduler() -> None:
    assert run().expire_after == EXPIRE_AFTER
    assert run(seconds(3)).expire_after == seconds(3)


def test_its_start_takes_the_definition_as_it_is_by_then() -> None:
    one = run()
    edited = instance(
        definition(expire_after=seconds(9)), attempt=7, expires_at=START + 2 * LEASE
    )
    assert one.start(edited) is one
    assert one.instance is edited
    assert one.expires_at == START + 2 * LEASE
    assert one.expire_after == one.allowed == seconds(9)
    one.start(instance(definition(), attempt=7))
    assert one.expire_after == one.allowed == EXPIRE_AFTER


def test_what_is_left_counts_from_the_call() -> None:
    one = run(seconds(10))
    assert one.left(timedelta(days=1)) == seconds(10)
    one.begin(seconds(100), START, lambda: None)
    assert one.left(seconds(104)) == seconds(6)
    assert one.left(seconds(110)) == ZERO
    assert one.left(seconds(999)) == ZERO


def test_it_was_never_called_before_it_was_due() -> None:
    one = HeldRun(instance(due_at=START), expire_after=EXPIRE_AFTER)
    one.begin(ZERO, START - seconds(1), lambda: None)
    assert one.called_at == START
    one.begin(ZERO, START + seconds(1), lambda: None)
    assert one.called_at == START + seconds(1)


def test_its_outcome_is_decided_once() -> None:
    one = run()
    assert not one.settled
    assert one.settle()
    assert one.settled
    assert not one.settle()


def test_of_those_that_decide_at_once_one_does() -> None:
    for _ in range(10):
        one = run()
        assert sorted(at_once(*[one.settle] * 4)) == [False, False, False, True]
