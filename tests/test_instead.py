"""Whoever is used to other schedulers is told what to write here."""

from __future__ import annotations

import asyncio
import inspect
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from go_scheduler import (
    CatchUp,
    CronTrigger,
    DelayTrigger,
    ExecuteOnceTrigger,
    HandedOn,
    HandlerRegistry,
    IntervalTrigger,
    MemoryStore,
    RetryPolicy,
    Scheduler,
    TaskDefinition,
    Trigger,
)
from go_scheduler.argument_hints import write_instead
from go_scheduler.triggers import (
    ExceptTrigger,
    LimitedTrigger,
    OnlyTrigger,
    RecurrenceTrigger,
    explain,
    parse_phrase,
    preview,
)

if TYPE_CHECKING:
    from collections.abc import Callable

HOURLY = IntervalTrigger(timedelta(hours=1))
DAY = timedelta(days=1)
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
SCHEDULER: Any = Scheduler(HandlerRegistry())
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
    note = caught.value.__notes__[-1]
    example = note.removeprefix("Write, for example: ")
    assert example != note
    assert eval(example, {**KNOWN, **GIVEN}) is not None


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        (lambda: TaskDefinition(trigger=HOURLY, meta={}), "metadata"),  # type: ignore[call-arg]
        (lambda: TaskDefinition(trigger=HOURLY, retries=3), "retry"),  # type: ignore[call-arg]
        (lambda: TaskDefinition(trigger=HOURLY, max_instances=1), "overlap"),  # type: ignore[call-arg]
        (lambda: CronTrigger("0 9 * * *", tz="UTC"), "timezone"),  # type: ignore[call-arg]
        (lambda: IntervalTrigger(minute=5), "minutes"),  # type: ignore[call-arg]
        (lambda: RecurrenceTrigger("FREQ=DAILY", tz="UTC"), "timezone"),  # type: ignore[call-arg]
        (lambda: parse_phrase("at 9:30", tz="UTC"), "timezone"),  # type: ignore[call-arg]
        (lambda: LimitedTrigger(HOURLY, limmit=3), "limit"),  # type: ignore[call-arg]
        (lambda: ExceptTrigger(HOURLY, "feasts", tz="UTC"), "timezone"),  # type: ignore[call-arg]
        (lambda: OnlyTrigger(HOURLY, "feasts", tz="UTC"), "timezone"),  # type: ignore[call-arg]
        (lambda: ExecuteOnceTrigger(at=NOW), "fire_at"),  # type: ignore[call-arg]
        (lambda: CatchUp(withn=DAY), "within"),  # type: ignore[call-arg]
        (lambda: TaskDefinition(trigger=HOURLY, max_attempts=3), "retry"),  # type: ignore[call-arg]
        (lambda: TaskDefinition(trigger=HOURLY, payload={}), "metadata"),  # type: ignore[call-arg]
        (lambda: Scheduler(print, max_worker=2), "max_workers"),  # type: ignore[call-arg]
        (lambda: Scheduler(print, workers=3), "max_workers"),  # type: ignore[call-arg]
        (lambda: Scheduler(window=DAY), "schedule_window"),  # type: ignore[call-arg]
        (lambda: RetryPolicy(max_retries=3), "max_attempts"),  # type: ignore[call-arg]
        (lambda: SCHEDULER.run_now(uuid4(), eta=NOW), "at"),
        (lambda: SCHEDULER.schedule_all(definition=[]), "definitions"),
        (lambda: asyncio.run(SCHEDULER.arun_now(uuid4(), countdown=5)), "delay"),
    ],
)
def test_an_argument_that_does_not_exist_is_noted_with_the_one_that_may_be_meant(
    wrong: Callable[[], object], meant: str
) -> None:
    with pytest.raises(TypeError, match="argument") as caught:
        wrong()
    assert str(caught.value).endswith(f": did you mean {meant}=?")
    [example] = caught.value.__notes__
    assert example.startswith("Write, for example: ")


@pytest.mark.parametrize(
    ("wrong", "example"),
    [
        (lambda: SCHEDULER.enqueue("send", "ada"), 'enqueue("send", order=7)'),
        (lambda: SCHEDULER.enqueue_all("send"), 'enqueue_all("send", [{"order": 7}'),
        (lambda: SCHEDULER.run_now(uuid4(), by="hand"), "run_now(definition.id, paylo"),
        (lambda: SCHEDULER.schedule(print, HOURLY), "schedule(TaskDefinition(trigger="),
        (lambda: SCHEDULER.schedule_all(1, 2), "schedule_all([definition])"),
        (lambda: SCHEDULER.retry_failed("send"), 'retry_failed(name="send")'),
        (lambda: SCHEDULER.backfill(uuid4()), "backfill(definition.id, start, end)"),
        (lambda: SCHEDULER.declare([], "shop"), 'declare([definition], owner="shop")'),
        (lambda: asyncio.run(SCHEDULER.aenqueue("a", "b")), 'enqueue("send", order=7)'),
        (lambda: asyncio.run(SCHEDULER.aschedule()), "aschedule(TaskDefinition("),
        (lambda: asyncio.run(SCHEDULER.aschedule_all()), "aschedule_all([definition])"),
        (lambda: asyncio.run(SCHEDULER.adeclare([])), "adeclare([definition], owner="),
    ],
)
def test_a_call_that_cannot_be_is_answered_by_one_that_can(
    wrong: Callable[[], object], example: str
) -> None:
    with pytest.raises(TypeError, match="argument") as caught:
        wrong()
    [note] = caught.value.__notes__
    assert f"scheduler.{example}" in note


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
