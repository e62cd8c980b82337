"""The policies decide by what they are told, and refuse what makes no sense."""

from __future__ import annotations

from datetime import timedelta

import pytest

from go_scheduler.errors import ConfigurationError
from go_scheduler.policies import CatchUp, RetryPolicy

MINUTE = timedelta(minutes=1)


def retry_in(policy: RetryPolicy, *, runs: int, ran_for: timedelta) -> timedelta | None:
    return policy.retry_in(runs=runs, ran_for=ran_for, expire_after=5 * MINUTE)


def test_the_next_run_begins_when_the_last_one_has_expired() -> None:
    assert retry_in(RetryPolicy(), runs=1, ran_for=2 * MINUTE) == 3 * MINUTE


def test_a_run_that_has_expired_is_followed_at_once() -> None:
    assert retry_in(RetryPolicy(), runs=1, ran_for=5 * MINUTE) == timedelta(0)
    assert retry_in(RetryPolicy(), runs=1, ran_for=9 * MINUTE) == timedelta(0)


def test_by_default_the_hundredth_run_is_the_last() -> None:
    assert retry_in(RetryPolicy(), runs=99, ran_for=MINUTE) == 4 * MINUTE
    assert retry_in(RetryPolicy(), runs=100, ran_for=MINUTE) is None


def test_one_attempt_means_no_retry() -> None:
    assert not RetryPolicy(max_attempts=1).allows(1)
    assert RetryPolicy(max_attempts=1).allows(0)


def test_without_a_limit_there_is_always_another_run() -> None:
    assert RetryPolicy(max_attempts=None).allows(10**9)


@pytest.mark.parametrize("runs", [0, -1, True, 1.5, "3", 10**9 + 1])
def test_attempts_that_are_no_count_are_refused(runs: int) -> None:
    with pytest.raises(ConfigurationError, match="max_attempts must be a whole number"):
        RetryPolicy(max_attempts=runs)


@pytest.mark.parametrize("grace", [timedelta(0), MINUTE, timedelta(days=36_525)])
def test_any_grace_up_to_a_century_is_accepted(grace: timedelta) -> None:
    assert CatchUp(grace=grace).grace == grace


@pytest.mark.parametrize(
    "grace",
    [timedelta(microseconds=-1), timedelta(days=36_526), timedelta.max, 60, None],
)
def test_a_grace_that_is_none_is_refused(grace: timedelta) -> None:
    with pytest.raises(ConfigurationError, match="grace must be a timedelta of zero"):
        CatchUp(grace=grace)


def test_policies_are_compared_by_value() -> None:
    assert RetryPolicy(max_attempts=3) == RetryPolicy(max_attempts=3)
    assert RetryPolicy(max_attempts=3) != RetryPolicy(max_attempts=4)
    assert {CatchUp(), CatchUp(grace=MINUTE)} == {CatchUp()}
