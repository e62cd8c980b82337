"""Settings are checked before anything starts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from typing import Any

import pytest

from go_scheduler.errors import ConfigurationError
from go_scheduler.scheduler import Scheduler
from go_scheduler.testing.builders import MINUTE, SECOND, TICK

SETTINGS = Scheduler(print)._settings


class Queue(StrEnum):
    REPORTS = "reports"


ZERO = timedelta(0)
LONG = timedelta(days=36_526)
NO_LENGTH = "must be a timedelta, such as timedelta(seconds=300), not"
# The least of each duration, in seconds.
LEAST = {
    "schedule_window": 0.1,
    "runner_window": 0.1,
    "cleanup_window": 0.1,
    "expire_after": 0.1,
    "timeout": 0.1,
    "lease": 1,
    "lateness_objective": 0.001,
    "retention": 0,
    "retention_failed": 0,
    "remember": 0,
    "clock_error": 0,
}
COUNTS = ("max_workers", "max_held", "max_hung", "max_hangs")
NO_NAMES = "queues must be a sequence of names, not"


def kept(name: str, value: object) -> Any:
    settings = replace(SETTINGS, **{name: value})  # type: ignore[arg-type]
    return getattr(settings, name)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        *((name, 1, f"{name} {NO_LENGTH} 1") for name in LEAST),
        *((name, timedelta.max, f"{name} must be at least") for name in LEAST),
        *((name, 0, f"{name} must be at least 1: 0") for name in COUNTS),
        *((name, True, f"{name} must be an int, not True") for name in COUNTS),
        *((name, 1.5, f"{name} must be an int, not 1.5") for name in COUNTS),
        ("catch_up", 1, "catch_up must be a CatchUp, such as CatchUp(mode='all'), not"),
        ("queues", "default", f"{NO_NAMES} 'default'"),
        ("queues", {"default"}, f"{NO_NAMES} {{'default'}}"),
        ("queues", None, f"{NO_NAMES} None"),
        ("queues", (), "queues must name at least one; to serve none, pass handler=No"),
        *(("queues", ("a", wrong), "queue ") for wrong in ("", "x" * 201, "\0", 5)),
    ],
)
def test_what_cannot_be_is_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        kept(name, value)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(("name", "least"), LEAST.items())
def test_a_duration_has_bounds_and_they_are_said(name: str, least: float) -> None:
    shortest = timedelta(seconds=least)
    assert kept(name, shortest) == shortest
    for wrong in (shortest - TICK, LONG):
        with pytest.raises(ConfigurationError) as refused:
            kept(name, wrong)
        text, _, given = str(refused.value).partition(": ")
        assert text == f"{name} must be at least {least} s and at most 100 years"
        seconds = float(given.removesuffix(" s").replace(",", ""))
        assert seconds == wrong.total_seconds()


@pytest.mark.parametrize(("days", "failed"), [(1, 7), (8, 8), (0, 0)])
def test_what_failed_is_kept_for_a_week_and_no_shorter_than_the_rest(
    days: int, failed: int
) -> None:
    settings = replace(SETTINGS, retention=timedelta(days=days))
    assert settings.kept.failed == max(timedelta(days=failed), settings.lease)
    assert replace(settings, retention_failed=MINUTE).kept.failed == MINUTE


def test_what_has_ended_is_kept_for_a_lease_at_least() -> None:
    settings = replace(SETTINGS, retention=SECOND, retention_failed=SECOND)
    assert settings.kept.ended == settings.kept.failed == settings.lease
    assert replace(settings, retention=MINUTE).kept.ended == MINUTE


@pytest.mark.parametrize(
    ("max_hung", "max_workers", "spares"), [(2, 1, 2), (None, 1, 4), (None, 40, 40)]
)
def test_as_many_may_hang_as_there_are_workers_and_at_least_four(
    max_hung: int | None, max_workers: int, spares: int
) -> None:
    settings = replace(SETTINGS, max_hung=max_hung, max_workers=max_workers)
    assert settings.spares == spares


def test_each_queue_is_served_once_in_the_order_given_and_is_plain_text() -> None:
    assert kept("queues", ("b", "a", "b")) == ("b", "a")
    assert kept("queues", ["b", "a"]) == ("b", "a")
    [queue] = kept("queues", [Queue.REPORTS])
    assert (queue, type(queue)) == ("reports", str)
