"""The policies decide by what they are told, and refuse what makes no sense."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from go_scheduler.checks import LONGEST
from go_scheduler.errors import ConfigurationError
from go_scheduler.models import TaskDefinition
from go_scheduler.policies import CatchUp, Overlap, RetryPolicy, names_of
from go_scheduler.testing.builders import MINUTE, SECOND, TICK
from go_scheduler.triggers.simple import OnDemandTrigger

if TYPE_CHECKING:
    from collections.abc import Collection


ID = UUID(int=1)
AFTER_EXPIRY = RetryPolicy.after_expiry()


def retry_in(policy: RetryPolicy, *, runs: int, ran_for: timedelta) -> timedelta:
    return policy.retry_in(
        instance_id=ID, runs=runs, ran_for=ran_for, expire_after=5 * MINUTE
    )


@pytest.mark.parametrize(("ran_for", "follows"), [(2, 3), (5, 0), (9, 0)])
def test_the_next_run_begins_when_the_last_one_has_expired(
    ran_for: int, follows: int
) -> None:
    found = retry_in(AFTER_EXPIRY, runs=1, ran_for=ran_for * MINUTE)
    assert found == follows * MINUTE


@pytest.mark.parametrize(
    ("policy", "last"),
    [(RetryPolicy(), 20), (RetryPolicy(max_attempts=1), 1), (AFTER_EXPIRY, 100)],
)
def test_so_many_runs_are_allowed(policy: RetryPolicy, last: int) -> None:
    assert policy.allows(last - 1)
    assert not policy.allows(last)
    assert replace(policy, max_attempts=None).allows(10**9)


def test_by_default_the_delay_doubles_up_to_five_minutes() -> None:
    exact = RetryPolicy(jitter=0)
    assert delays(exact, 8) == [15, 30, 60, 120, 240, 300, 300, 300]
    spread = zip(delays(exact, 19), delays(RetryPolicy(), 19), strict=True)
    assert all(delay <= spread <= 1.2 * delay for delay, spread in spread)
    assert delays(RetryPolicy()) != delays(exact)


def test_what_is_not_said_depends_on_whether_a_delay_is() -> None:
    growing = RetryPolicy(
        max_attempts=20, delay=15 * SECOND, factor=2, max_delay=5 * MINUTE, jitter=0.2
    )
    assert RetryPolicy() == growing
    assert RetryPolicy(max_attempts=3) == replace(growing, max_attempts=3)
    assert RetryPolicy(max_delay=MINUTE) == replace(growing, max_delay=MINUTE)
    assert RetryPolicy(factor=3, jitter=MINUTE) == replace(
        growing, factor=3, jitter=MINUTE
    )
    assert RetryPolicy(delay=15 * SECOND) == RetryPolicy(
        delay=15 * SECOND, factor=1, max_delay=None, jitter=0
    )
    assert repr(growing) == repr(RetryPolicy())


@pytest.mark.parametrize("name", ["grace", "within", "drop_after"])
def test_how_late_is_a_duration_up_to_a_century(name: str) -> None:
    century = timedelta(days=36_525)
    for allowed in (TICK, century):
        values: Any = {name: allowed}
        assert getattr(CatchUp(**values), name) == allowed
    for wrong in (-TICK, century + TICK, timedelta.max, 60):
        values = {name: wrong}
        bounds = "must be a( timedelta, such as|t least 0 s and at most 100 years)"
        with pytest.raises(ConfigurationError, match=f"{name} {bounds}"):
            CatchUp(**values)


@pytest.mark.parametrize(
    ("values", "refusal"),
    [
        ({"grace": None}, "grace must be a timedelta, such as"),
        ({"drop_after": timedelta(0)}, "nothing starts at the very instant"),
        *(
            ({"mode": mode}, "mode must be one of 'latest', 'all', 'none'")
            for mode in ("oldest", "", None, 1, ["all"])
        ),
    ],
)
def test_what_says_nothing_of_what_is_late_is_refused(
    values: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(ConfigurationError, match=refusal):
        CatchUp(**values)


@pytest.mark.parametrize(
    ("catch_up", "each", "latest"),
    [
        (CatchUp(), 10, None),
        (CatchUp(mode="none"), 10, None),
        (CatchUp(mode="all"), None, None),
        (CatchUp(mode="all", within=MINUTE), 60, 60),
        (CatchUp(mode="all", within=SECOND), 10, 10),
        (CatchUp(mode="all", drop_after=SECOND), 1, 1),
        (CatchUp(mode="all", within=MINUTE, drop_after=SECOND), 1, 1),
        (CatchUp(within=MINUTE), 10, 60),
        (CatchUp(drop_after=MINUTE), 10, 60),
        (CatchUp(drop_after=SECOND), 1, 1),
        (CatchUp(mode="none", drop_after=SECOND), 1, 1),
    ],
)
def test_how_late_what_runs_may_be_is_the_least_that_anything_says(
    catch_up: CatchUp, each: int | None, latest: int | None
) -> None:
    bounds = [late and late // SECOND for late in (catch_up.each, catch_up.latest)]
    assert bounds == [each, latest]


def delays(policy: RetryPolicy, runs: int = 6) -> list[float]:
    """After how many seconds each run is followed by the next."""
    return [
        retry_in(policy, runs=each, ran_for=MINUTE).total_seconds()
        for each in range(1, runs + 1)
    ]


@pytest.mark.parametrize("runs", [100, 10**9])
@pytest.mark.parametrize("factor", [2, 1000])
def test_delays_that_no_number_holds_end_at_a_century(runs: int, factor: float) -> None:
    policy = RetryPolicy(delay=SECOND, factor=factor)
    assert retry_in(policy, runs=runs, ran_for=MINUTE) == LONGEST


@pytest.mark.parametrize("jitter", [0.5, timedelta(seconds=30)])
def test_jitter_adds_up_to_so_much_and_never_takes(jitter: float | timedelta) -> None:
    spread = delays(RetryPolicy(delay=MINUTE, jitter=jitter), 1000)
    assert 60 <= min(spread) < 61
    assert 89 < max(spread) <= 90
    assert abs(sum(spread) / 1000 - 75) < 1


def test_jitter_is_the_same_for_the_same_run_and_another_for_each_other() -> None:
    policy = RetryPolicy(delay=MINUTE, jitter=1)
    assert delays(policy) == delays(policy)
    assert len(set(delays(policy))) == 6
    of_another = policy.retry_in(
        instance_id=UUID(int=2), runs=1, ran_for=MINUTE, expire_after=MINUTE
    )
    assert of_another.total_seconds() != delays(policy)[0]


class Gone(KeyError):
    """An error of an application."""


@pytest.mark.parametrize(
    "stop_on",
    [
        [Gone],
        {KeyError},
        (ValueError, LookupError),
        ["Gone"],
        ["KeyError"],
        ["builtins.KeyError"],
        [f"{__name__}.Gone"],
    ],
)
def test_an_exception_is_known_by_its_class_or_name_or_that_of_a_base(
    stop_on: Collection[type[BaseException] | str],
) -> None:
    assert RetryPolicy(stop_on=stop_on).stops_on(names_of(Gone))
    assert not RetryPolicy(stop_on=stop_on).stops_on(names_of(OSError))


def test_exceptions_are_kept_as_names_each_once_and_in_one_order() -> None:
    policy = RetryPolicy(stop_on=[KeyError, "app.Gone", "builtins.KeyError"])
    assert policy.stop_on == ("app.Gone", "builtins.KeyError")
    assert policy == RetryPolicy(stop_on=("app.Gone", KeyError))
    assert len({policy, RetryPolicy(stop_on={KeyError, "app.Gone"})}) == 1


@pytest.mark.parametrize(
    ("values", "refusal"),
    [
        ({"delay": 5}, "delay must be a timedelta, such"),
        ({"delay": -SECOND}, "delay must be at least 0 s"),
        ({"delay": SECOND, "factor": 0.5}, "factor must be a number from 1 to 1,000"),
        ({"delay": SECOND, "factor": float("nan")}, "factor must be a number from 1"),
        ({"delay": SECOND, "factor": 10**400}, "factor must be a number from 1"),
        ({"delay": SECOND, "factor": True}, "factor must be a number from 1"),
        ({"delay": SECOND, "factor": "2"}, "factor must be a number from 1"),
        ({"delay": SECOND, "max_delay": SECOND / 2}, "max_delay must be at least 1 s"),
        ({"delay": SECOND, "max_delay": 3}, "max_delay must be a timedelta"),
        ({"delay": SECOND, "jitter": 1.5}, "jitter must be a part of the delay"),
        ({"delay": SECOND, "jitter": -0.1}, "jitter must be a part of the delay"),
        ({"delay": SECOND, "jitter": None}, "jitter must be a part of the delay"),
        ({"delay": SECOND, "jitter": -SECOND}, "jitter must be at least 0 s"),
        ({"delay": None, "factor": 2}, "delay=None has none"),
        ({"delay": None, "max_delay": SECOND}, "delay=None has none"),
        ({"delay": None, "jitter": 0.1}, "delay=None has none"),
        ({"delay": None, "jitter": SECOND}, "delay=None has none"),
        ({"max_delay": SECOND}, "max_delay must be at least 15 s"),
        ({"stop_on": "KeyError"}, "stop_on must be a sequence of exception classes"),
        ({"stop_on": KeyError}, "stop_on must be a sequence of exception classes"),
        ({"stop_on": [int]}, "an exception of stop_on must be a str"),
        ({"stop_on": [KeyError("x")]}, "an exception of stop_on must be a str"),
        ({"stop_on": [""]}, "an exception of stop_on must have 1 to 200 characters"),
        ({"stop_on": ["\0"]}, "an exception of stop_on"),
        *(
            ({"max_attempts": runs}, "max_attempts must be (an int|from 1 to)")
            for runs in (0, -1, True, 1.5, "3", 10**9 + 1)
        ),
    ],
)
def test_what_is_no_rule_for_retries_is_refused(
    values: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(ConfigurationError, match=refusal):
        RetryPolicy(**values)


class Mine(str, Enum):  # noqa: UP042
    """An enumeration of a user, from before Python 3.11."""

    SKIP = "skip"


def test_an_overlap_may_be_a_text_of_an_enumeration_of_the_users() -> None:
    made = TaskDefinition(trigger=OnDemandTrigger(), overlap=Mine.SKIP)  # type: ignore[arg-type]
    assert made.overlap is Overlap.SKIP
