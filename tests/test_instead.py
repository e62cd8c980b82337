"""Whoever is used to other schedulers is told what to write here."""

from __future__ import annotations

import asyncio
import inspect
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

import go_scheduler
from go_scheduler import (
    HandlerRegistry,
    IntervalTrigger,
    MemoryStore,
    Scheduler,
    Trigger,
    triggers,
)
from go_scheduler.argument_hints import write_instead
from go_scheduler.triggers import preview
from tests.case_tables import table

HOURLY = IntervalTrigger(timedelta(hours=1))
NOW = datetime(2030, 1, 1, tzinfo=UTC)
PUBLIC = {
    name: getattr(package, name)
    for package in (go_scheduler, triggers)
    for name in package.__all__
}
NAMES = PUBLIC | {
    "HOURLY": HOURLY,
    "NOW": NOW,
    "SCHEDULER": Scheduler(HandlerRegistry()),
    "asyncio": asyncio,
    "datetime": datetime,
    "timedelta": timedelta,
    "uuid4": uuid4,
    # What an example calls what its reader has.
    "UTC": UTC,
    "handler": print,
    "now": NOW,
    "store": MemoryStore(),
    "trigger": HOURLY,
}


@pytest.mark.parametrize(
    "wrong",
    [
        "TaskDefinition(IntervalTrigger(timedelta(1)))",
        "TaskDefinition()",
        "IntervalTrigger(secs=60)",
        "DelayTrigger(mins=5)",
        "CronTrigger(week=9)",
        "ExecuteOnceTrigger(run_date='2030-01-01')",
        "HandedOn(timedelta(1))",
        "Scheduler()",
        "preview(HOURLY)",
        "explain(HOURLY)",
    ],
)
def test_arguments_of_other_schedulers_are_answered_by_an_example(wrong: str) -> None:
    with pytest.raises(TypeError, match="argument") as caught:
        eval(wrong, NAMES)
    note = caught.value.__notes__[-1]
    example = note.removeprefix("Write, for example: ")
    assert example != note
    assert eval(example, NAMES) is not None


@pytest.mark.parametrize(("wrong", "meant"), table("wrong_arguments"))
def test_an_argument_that_does_not_exist_is_noted_with_the_one_that_may_be_meant(
    wrong: str, meant: str
) -> None:
    with pytest.raises(TypeError, match="argument") as caught:
        eval(wrong, NAMES)
    assert str(caught.value).endswith(f"': did you mean {meant}=?")
    [example] = caught.value.__notes__
    assert example.startswith("Write, for example: ")


@pytest.mark.parametrize(("wrong", "example"), table("wrong_calls"))
def test_a_call_that_cannot_be_is_answered_by_one_that_can(
    wrong: str, example: str
) -> None:
    with pytest.raises(TypeError, match="argument") as caught:
        eval(wrong, NAMES)
    [note] = caught.value.__notes__
    assert f"scheduler.{example}" in note


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            "TaskDefinition(HOURLY)",
            "TaskDefinition.__init__() takes 1 positional argument but 2 were given:"
            " pass the rest by name",
        ),
        (
            "SCHEDULER.enqueue('send', 'ada')",
            "enqueue() takes 2 positional arguments but 3 were given: pass the rest by"
            " name",
        ),
        (
            "parse_phrase('at 9:30', 'UTC', NOW, 5)",
            "parse_phrase() takes from 1 to 3 positional arguments but 4 were given",
        ),
    ],
)
def test_what_is_passed_by_name_alone_is_said(wrong: str, told: str) -> None:
    with pytest.raises(TypeError) as caught:
        eval(wrong, NAMES)
    assert str(caught.value) == told


def test_an_error_within_an_awaited_call_gets_no_example() -> None:
    async def fails() -> None:
        raise TypeError("its own")

    with pytest.raises(TypeError, match="its own") as caught:
        asyncio.run(write_instead("fails()")(fails)())
    assert not hasattr(caught.value, "__notes__")


def test_an_error_within_a_call_gets_no_example() -> None:
    class Wrong(Trigger):
        def next_fire_time(self, after: datetime) -> datetime | None:
            raise TypeError("its own")

    with pytest.raises(TypeError, match="its own") as caught:
        preview(Wrong(), 10, NOW)
    assert not hasattr(caught.value, "__notes__")


def test_what_a_class_takes_is_still_to_be_seen() -> None:
    assert [*inspect.signature(IntervalTrigger).parameters][:2] == ["every", "anchor"]
