"""Whoever is used to other schedulers is told what to write here."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler import (
    CronTrigger,
    DelayTrigger,
    ExecuteOnceTrigger,
    HandedOn,
    IntervalTrigger,
    MemoryStore,
    Scheduler,
    TaskDefinition,
    Trigger,
)
from go_scheduler.triggers import explain, preview

if TYPE_CHECKING:
    from collections.abc import Callable

HOURLY = IntervalTrigger(timedelta(hours=1))
NOW = datetime(2030, 1, 1, tzinfo=UTC)
KNOWN = {
    each.__name__: each
    for each in (
        CronTrigger,
        DelayTrigger,
        ExecuteOnceTrigger,
        HandedOn,
        IntervalTrigger,
        Scheduler,
        TaskDefinition,
        datetime,
        explain,
        preview,
        timedelta,
    )
}
GIVEN = {
    "UTC": UTC,
    "handler": print,
    "now": NOW,
    "store": MemoryStore(),
    "trigger": HOURLY,
}
"""What an example calls what its reader has."""


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: TaskDefinition(IntervalTrigger(timedelta(1))),  # type: ignore[call-arg]
        lambda: TaskDefinition(),  # type: ignore[call-arg]
        lambda: IntervalTrigger(secs=60),  # type: ignore[call-arg]
        lambda: DelayTrigger(mins=5),  # type: ignore[call-arg]
        lambda: CronTrigger(week=9),  # type: ignore[call-arg]
        lambda: ExecuteOnceTrigger(run_date="2030-01-01"),  # type: ignore[call-arg]
        lambda: HandedOn(timedelta(1)),  # type: ignore[call-arg]
        lambda: Scheduler(),  # type: ignore[call-arg]
        lambda: preview(HOURLY),  # type: ignore[call-arg]
        lambda: explain(HOURLY),  # type: ignore[call-arg]
    ],
)
def test_arguments_of_other_schedulers_are_answered_by_an_example(
    wrong: Callable[[], object],
) -> None:
    with pytest.raises(TypeError, match="argument") as caught:
        wrong()
    [note] = caught.value.__notes__
    example = note.removeprefix("Write, for example: ")
    assert example != note
    assert eval(example, {**KNOWN, **GIVEN}) is not None


def test_an_error_within_a_call_gets_no_example() -> None:
    class Wrong(Trigger):
        def next_fire_time(self, after: datetime) -> datetime | None:
            raise TypeError("its own")

    with pytest.raises(TypeError, match="its own") as caught:
        preview(Wrong(), 10, NOW)
    assert not hasattr(caught.value, "__notes__")


def test_what_a_class_takes_is_still_to_be_seen() -> None:
    assert [*inspect.signature(IntervalTrigger).parameters][:2] == ["every", "anchor"]
