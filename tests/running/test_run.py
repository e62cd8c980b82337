"""The run as its handler sees it."""

from __future__ import annotations

import contextvars
from datetime import timedelta

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.errors import (
    ClaimLostError,
    ConfigurationError,
    SchedulerStateError,
)
from go_scheduler.run import Run, current_run, enter_run, leave_run, run_here
from go_scheduler.testing.builders import EXPIRE_AFTER, LEASE, at_once, definition
from go_scheduler.testing.clock import START
from tests.conftest import instance, seconds


def run(expire_after: timedelta | None = None) -> Run:
    of = definition(expire_after=expire_after)
    return Run(instance(of, attempt=7), expire_after=EXPIRE_AFTER)


def test_its_token_is_the_instance_and_the_attempt() -> None:
    one = run()
    assert one.token == (one.instance.id, 7)


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
    one = Run(instance(due_at=START), expire_after=EXPIRE_AFTER)
    one.begin(ZERO, START - seconds(1), lambda: None)
    assert one.called_at == START
    one.begin(ZERO, START + seconds(1), lambda: None)
    assert one.called_at == START + seconds(1)


def test_more_time_can_be_asked_for() -> None:
    asked: list[None] = []
    one = run(seconds(10))
    one.begin(ZERO, START, lambda: asked.append(None))
    one.extend(seconds(5))
    assert one.left(ZERO) == seconds(15)
    assert asked == [None]


def test_more_time_can_be_allowed_before_the_call() -> None:
    one = run(seconds(10))
    one.extend(seconds(5))
    assert one.left(ZERO) == seconds(15)


@pytest.mark.parametrize("by", [ZERO, -seconds(1), 5])
def test_only_a_time_above_zero_can_be_asked_for(by: timedelta) -> None:
    with pytest.raises(ConfigurationError):
        run().extend(by)


def test_a_lost_run_is_allowed_no_more_time() -> None:
    one = run()
    one.lost = True
    with pytest.raises(ClaimLostError, match=str(one.instance.id)):
        one.extend(seconds(1))


def test_a_run_that_was_given_up_is_allowed_no_more_time() -> None:
    one = run()
    one.settle()
    with pytest.raises(ClaimLostError):
        one.extend(seconds(1))


class Store:
    """Where a run completes: notes what it is asked, and answers what it is told to."""

    def __init__(self, one: Run, *, answer: bool = True) -> None:
        self.asked: list[tuple[Run, object, bool]] = []
        self.answer = answer
        one.begin(ZERO, START, lambda: None, complete=self.complete)

    def complete(self, one: Run, connection: object) -> bool:
        self.asked.append((one, connection, one.joined))
        return self.answer


def test_it_completes_in_a_transaction_which_is_known_before_the_row_is_locked() -> (
    None
):
    one = run()
    store = Store(one)
    assert not one.joined
    one.complete_in("connection")
    assert store.asked == [(one, "connection", True)]
    assert not one.settled


def test_a_run_whose_claim_turns_out_to_be_lost_does_not_complete() -> None:
    one = run()
    store = Store(one, answer=False)
    with pytest.raises(ClaimLostError, match="by another run") as caught:
        one.complete_in("connection")
    assert str(one.instance.id) in str(caught.value)
    with pytest.raises(ClaimLostError, match="7: it has been completed by an earlier"):
        one.complete_in("connection")
    assert len(store.asked) == 2


def test_whether_a_run_that_is_lost_or_over_still_completes_the_store_decides() -> None:
    lost, over = run(), run()
    stores = [Store(lost), Store(over, answer=False)]
    lost.lost = True
    over.settle()
    lost.complete_in("connection")
    with pytest.raises(ClaimLostError):
        over.complete_in("connection")
    assert [len(store.asked) for store in stores] == [1, 1]


def test_it_is_cancelled_when_asked_to_stop_or_lost() -> None:
    one = run()
    assert not one.cancelled
    one.cancel_requested = True
    assert one.cancelled
    other = run()
    other.lost = True
    assert other.cancelled
    asked = Run(instance(cancel_requested=True), expire_after=EXPIRE_AFTER)
    assert asked.cancelled


def test_its_outcome_is_decided_once() -> None:
    one = run()
    assert not one.settled
    assert one.settle()
    assert one.settled
    assert not one.settle()


def test_of_those_that_decide_at_once_one_does() -> None:
    for _ in range(10):
        one = run()
        assert sorted(at_once(*[one.settle] * 4)) == [False, False, False, True]  # type: ignore[type-var]


def test_outside_of_a_handler_there_is_no_current_run() -> None:
    assert run_here() is None
    with pytest.raises(SchedulerStateError, match="only inside a handler"):
        current_run()


def test_inside_of_a_handler_the_current_run_is_its_own() -> None:
    outer, inner = run(), run()
    token = enter_run(outer)
    assert current_run() is run_here() is outer
    nested = enter_run(inner)
    assert current_run() is inner
    leave_run(nested)
    assert current_run() is outer
    copied = contextvars.copy_context()
    leave_run(token)
    assert run_here() is None
    assert copied.run(current_run) is outer
