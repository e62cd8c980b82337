"""Settings are checked before anything starts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from enum import StrEnum

import pytest

from go_scheduler.errors import ConfigurationError
from go_scheduler.policies import CatchUp
from go_scheduler.settings import Settings


class Queue(StrEnum):
    REPORTS = "reports"


SECOND = timedelta(seconds=1)
SUCH = "such as timedelta(seconds=300), not"
SETTINGS = Settings(
    schedule_window=SECOND,
    runner_window=SECOND,
    cleanup_window=SECOND,
    queues=("default",),
    max_workers=1,
    max_held=1,
    max_hung=3,
    max_hangs=1,
    expire_after=SECOND,
    timeout=None,
    retry=None,
    catch_up=CatchUp(),
    lease=SECOND,
    retention=SECOND,
    retention_failed=None,
    remember=SECOND,
    clock_error=None,
    lateness_objective=None,
)


def refusal(name: str, value: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        replace(SETTINGS, **{name: value})  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("schedule_window", 0.1),
        ("runner_window", 0.1),
        ("cleanup_window", 0.1),
        ("expire_after", 0.1),
        ("timeout", 0.1),
        ("lease", 1),
        ("lateness_objective", 0.001),
    ],
)
def test_what_cannot_work_is_refused_with_the_least_that_can(
    name: str, least: float
) -> None:
    shortest = timedelta(seconds=least)
    assert getattr(replace(SETTINGS, **{name: shortest}), name) == shortest  # type: ignore[arg-type]
    too_short = shortest - timedelta(microseconds=1)
    for refused, told in (
        (too_short, f"{least - 0.000001:.6f}"),
        (timedelta(0), "0"),
        (timedelta(days=36_526), "3,155,846,400"),
    ):
        assert refusal(name, refused) == (
            f"{name} must be at least {least} s and at most 100 years: {told} s"
        )
    refusal(name, timedelta.max)
    assert refusal(name, 1) == f"{name} must be a timedelta, {SUCH} 1"


def test_a_policy_of_another_type_is_refused() -> None:
    assert refusal("catch_up", SECOND) == (
        f"catch_up must be a CatchUp, such as CatchUp(mode='all'), not {SECOND!r}"
    )


@pytest.mark.parametrize("name", ["retention", "retention_failed", "remember"])
def test_what_has_ended_may_be_kept_for_no_time(name: str) -> None:
    zero = timedelta(0)
    assert getattr(replace(SETTINGS, **{name: zero}), name) == zero  # type: ignore[arg-type]
    assert refusal(name, -SECOND).startswith(f"{name} must be at least 0 s")
    assert refusal(name, 1) == f"{name} must be a timedelta, {SUCH} 1"


@pytest.mark.parametrize(
    ("retention", "kept"),
    [
        (timedelta(days=1), timedelta(days=7)),
        (timedelta(days=8), timedelta(days=8)),
        (timedelta(0), timedelta(0)),
    ],
)
def test_what_failed_is_kept_for_a_week_and_no_shorter_than_the_rest(
    retention: timedelta, kept: timedelta
) -> None:
    settings = replace(SETTINGS, retention=retention)
    assert settings.kept.failed == kept
    assert replace(settings, retention_failed=SECOND).kept.failed == SECOND


@pytest.mark.parametrize("name", ["max_workers", "max_held", "max_hung", "max_hangs"])
def test_a_count_must_be_a_whole_number_above_zero(name: str) -> None:
    assert refusal(name, 0) == f"{name} must be at least 1: 0"
    assert refusal(name, True) == f"{name} must be an int, not True"
    assert refusal(name, 1.5) == f"{name} must be an int, not 1.5"


def test_there_need_not_be_an_end_of_hangs() -> None:
    assert replace(SETTINGS, max_hangs=None).max_hangs is None


def test_as_many_may_hang_as_there_are_workers_and_at_least_four() -> None:
    assert replace(SETTINGS, max_hung=2).spares == 2
    default = replace(SETTINGS, max_hung=None)
    assert replace(default, max_workers=1).spares == 4
    assert replace(default, max_workers=40).spares == 40


@pytest.mark.parametrize("queues", ["default", {"default"}, None])
def test_queues_must_be_a_sequence_of_names(queues: object) -> None:
    assert refusal("queues", queues) == (
        f"queues must be a sequence of names, not {queues!r}"
    )


def test_at_least_one_queue_must_be_served() -> None:
    assert "pass handler=None" in refusal("queues", ())


@pytest.mark.parametrize("queue", ["", "x" * 201, "\0", 5])
def test_a_queue_must_have_a_name_that_every_store_keeps(queue: object) -> None:
    assert refusal("queues", ("default", queue)).startswith("queue ")


def test_each_queue_is_served_once_in_the_order_given() -> None:
    assert replace(SETTINGS, queues=("b", "a", "b")).queues == ("b", "a")
    assert replace(SETTINGS, queues=["b", "a"]).queues == ("b", "a")


def test_a_queue_is_kept_as_plain_text() -> None:
    [kept] = replace(SETTINGS, queues=[Queue.REPORTS]).queues
    assert (kept, type(kept)) == ("reports", str)


def test_an_error_of_the_clock_is_none_or_zero_or_more() -> None:
    for good in (None, timedelta(0), SECOND):
        assert replace(SETTINGS, clock_error=good).clock_error == good
    assert refusal("clock_error", -SECOND).startswith(
        "clock_error must be at least 0 s"
    )
    assert (
        refusal("clock_error", 0.01) == f"clock_error must be a timedelta, {SUCH} 0.01"
    )
