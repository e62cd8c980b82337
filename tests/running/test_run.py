"""The run as its handler sees it."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.errors import (
    ClaimLostError,
    ConfigurationError,
    SchedulerStateError,
)
from go_scheduler.run import Run, current_run, enter_run, leave_run, run_here
from go_scheduler.running.held import HeldRun
from go_scheduler.testing.builders import EXPIRE_AFTER, definition
from go_scheduler.testing.clock import START
from tests.conftest import instance, seconds

if TYPE_CHECKING:
    from datetime import timedelta


def run(expire_after: timedelta | None = None) -> HeldRun:
    of = definition(expire_after=expire_after)
    return HeldRun(instance(of, attempt=7), expire_after=EXPIRE_AFTER)


def test_its_token_is_the_instance_and_the_attempt() -> None:
    one = run()
    assert Run(one).token == one.token == (one.instance.id, 7)


def test_more_time_can_be_asked_for() -> None:
    asked: list[None] = []
    one = run(seconds(10))
    one.begin(ZERO, START, lambda: asked.append(None))
    Run(one).extend(seconds(5))
    assert one.left(ZERO) == seconds(15)
    assert asked == [None]


def test_more_time_can_be_allowed_before_the_call() -> None:
    one = run(seconds(10))
    Run(one).extend(seconds(5))
    assert one.left(ZERO) == seconds(15)


@pytest.mark.parametrize("by", [ZERO, -seconds(1), 5])
def test_only_a_time_above_zero_can_be_asked_for(by: timedelta) -> None:
    with pytest.raises(ConfigurationError):
        Run(run()).extend(by)


def test_a_lost_run_is_allowed_no_more_time() -> None:
    one = run()
    one.lost = True
    with pytest.raises(ClaimLostError, match=str(one.instance.id)):
        Run(one).extend(seconds(1))


def test_a_run_that_was_given_up_is_allowed_no_more_time() -> None:
    one = run()
    one.settle()
    with pytest.raises(ClaimLostError):
        Run(one).extend(seconds(1))


class Store:
    """Where a run completes: notes what it is asked, and answers what it is told to."""

    def __init__(self, one: HeldRun, *, answer: bool = True) -> None:
        self.asked: list[tuple[HeldRun, object, bool]] = []
        self.answer = answer
        one.begin(ZERO, START, lambda: None, complete=self.complete)

    def complete(self, one: HeldRun, connection: object) -> bool:
        self.asked.append((one, connection, one.joined))
        return self.answer


def test_it_completes_in_a_transaction_which_is_known_before_the_row_is_locked() -> (
    None
):
    one = run()
    store = Store(one)
    assert not one.joined
    Run(one).complete_in("connection")
    assert store.asked == [(one, "connection", True)]
    assert not one.settled


def test_a_run_whose_claim_turns_out_to_be_lost_does_not_complete() -> None:
    one = run()
    store = Store(one, answer=False)
    with pytest.raises(ClaimLostError, match="by another run") as caught:
        Run(one).complete_in("connection")
    assert str(one.instance.id) in str(caught.value)
    with pytest.raises(ClaimLostError, match="7: it has been completed by an earlier"):
        Run(one).complete_in("connection")
    assert len(store.asked) == 2


def test_whether_a_run_that_is_lost_or_over_still_completes_the_store_decides() -> None:
    lost, over = run(), run()
    stores = [Store(lost), Store(over, answer=False)]
    lost.lost = True
    over.settle()
    Run(lost).complete_in("connection")
    with pytest.raises(ClaimLostError):
        Run(over).complete_in("connection")
    assert [len(store.asked) for store in stores] == [1, 1]


def test_it_is_cancelled_when_asked_to_stop_or_lost() -> None:
    one = run()
    assert not Run(one).cancelled
    one.cancel_requested = True
    assert Run(one).cancelled
    other = run()
    other.lost = True
    assert Run(other).cancelled
    asked = HeldRun(instance(cancel_requested=True), expire_after=EXPIRE_AFTER)
    assert Run(asked).cancelled


def test_outside_of_a_handler_there_is_no_current_run() -> None:
    assert run_here() is None
    with pytest.raises(SchedulerStateError, match="only inside a handler"):
        current_run()


def test_inside_of_a_handler_the_current_run_is_its_own() -> None:
    outer, inner = run(), run()
    token = enter_run(outer)
    assert run_here() is outer
    assert current_run() is current_run()
    assert current_run().instance is outer.instance
    nested = enter_run(inner)
    assert run_here() is inner
    leave_run(nested)
    assert run_here() is outer
    copied = contextvars.copy_context()
    leave_run(token)
    assert run_here() is None
    assert copied.run(current_run).token == outer.token


def test_a_handler_may_touch_what_is_its_own_and_nothing_of_the_loops() -> None:
    names = [name for name in dir(Run) if not name.startswith("_")]
    assert names == [
        "cancelled",
        "complete_in",
        "extend",
        "instance",
        "lost",
        "token",
    ]
    one = run()
    assert not Run(one).lost
    one.lost = True
    assert Run(one).lost
