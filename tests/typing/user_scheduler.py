"""User code that must type-check: a scheduler, all of what is done with it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, assert_type
from uuid import UUID

from go_scheduler import (
    CatchUp,
    ConflictError,
    Deleted,
    GoSchedulerError,
    IntervalTrigger,
    MemoryStore,
    RetryPolicy,
    Scheduler,
    TaskDefinition,
    TaskDefinitionNotFoundError,
    TaskInstance,
)
from go_scheduler.testing import InlineExecutor, ManualClock

if TYPE_CHECKING:
    from collections.abc import Sequence


def use(handler: list[TaskInstance]) -> None:
    clock = ManualClock()
    scheduler = Scheduler(
        handler.append,
        MemoryStore(clock),
        schedule_window=timedelta(seconds=1),
        runner_window=timedelta(seconds=1),
        cleanup_window=timedelta(minutes=1),
        queues=["default", "reports"],
        max_workers=8,
        max_held=100,
        expire_after=timedelta(minutes=5),
        lease=timedelta(seconds=20),
        retention=timedelta(days=1),
        clock=clock,
        executor=InlineExecutor(),
    )
    with scheduler as same:
        assert_type(same, Scheduler)
        stored = same.schedule(
            TaskDefinition(
                id=TaskDefinition.id_for("nightly report"),
                trigger=IntervalTrigger(timedelta(hours=1)),
                name="report",
                queue="reports",
                metadata={
                    "to": ["a@example.org"],
                    "options": {"pages": 3, "all": None},
                },
                expire_after=timedelta(minutes=10),
                retry=RetryPolicy(max_attempts=3),
                catch_up=CatchUp(grace=timedelta(minutes=5)),
            )
        )
        assert_type(stored, TaskDefinition)
        assert_type(stored.next_fire_time, datetime | None)
        clock.advance(timedelta(hours=1))
        manage(same, stored)


def manage(scheduler: Scheduler, stored: TaskDefinition) -> None:
    assert_type(scheduler.get_definition(stored.id), TaskDefinition)
    page = scheduler.list_definitions(
        ids=[stored.id], metadata={"to": ["a@example.org"]}, name="report", limit=10
    )
    definitions: Sequence[TaskDefinition] = page
    assert_type(page.next, str | None)
    scheduler.list_definitions(state="paused", soonest_first=True, after=page.next)
    scheduler.list_instances(state="failed", since=definitions[0].next_fire_time)
    assert_type(scheduler.schedule_all(definitions), list[TaskDefinition])
    declared = scheduler.declare(definitions, owner="shop", version=7, removed="pause")
    assert_type(declared, list[TaskDefinition])
    assert_type(stored.owner, str | None)
    scheduler.pause(stored.id, "holidays")
    scheduler.resume(stored.id)
    found: Sequence[TaskInstance] = scheduler.list_instances(definition_id=stored.id)
    for instance in found:
        assert_type(scheduler.get_instance(instance.id), TaskInstance)
        answer = scheduler.cancel(instance.id)
        print(answer)  # noqa: T201 - a user's program
    assert_type(scheduler.delete_definition(stored.id), Deleted | None)
    assert_type(scheduler.delete_definitions(metadata={"to": ["a@example.org"]}), int)
    assert_type(scheduler.health().ok, bool)
    assert_type(scheduler.stop(timedelta(seconds=5)), bool)


async def awaited(scheduler: Scheduler, definition: TaskDefinition) -> None:
    async with scheduler as same:
        assert_type(same, Scheduler)
        stored = await same.aschedule(definition)
        assert_type(stored, TaskDefinition)
        await same.adeclare([definition], owner="shop", adopt=True)
        await same.aschedule_all(each for each in [definition])
        assert_type(await same.aget_definition(stored.id), TaskDefinition)
        page: Sequence[TaskDefinition] = await same.alist_definitions(limit=10)
        await same.apause(page[0].id, note="holidays")
        assert_type(await same.adelete_definition(stored.id), Deleted | None)
        await same.aget_definition("nightly report")  # type: ignore[arg-type]
        await same.alist_definitions(100)  # type: ignore[arg-type, call-arg]
        assert_type(await same.astop(timedelta(seconds=5)), bool)


def errors(scheduler: Scheduler, definition: TaskDefinition) -> None:
    try:
        scheduler.schedule(definition)
    except ConflictError as error:
        assert_type(error.revision, int | None)
    except TaskDefinitionNotFoundError as error:
        assert_type(error.definition_id, UUID)
    except GoSchedulerError as error:
        raise SystemExit(str(error)) from error


def threads(handler: list[TaskInstance]) -> None:
    with ThreadPoolExecutor() as executor:
        Scheduler(handler.append, executor=executor).run()


def wrong(scheduler: Scheduler, definition: TaskDefinition) -> None:
    Scheduler(None, lease=20)  # type: ignore[arg-type]
    Scheduler(None, None, timedelta(seconds=1))  # type: ignore[call-arg]
    scheduler.schedule(IntervalTrigger(timedelta(hours=1)))  # type: ignore[arg-type]
    scheduler.get_definition("nightly report")  # type: ignore[arg-type]
    scheduler.list_definitions(100)  # type: ignore[arg-type, call-arg]
    scheduler.declare([definition])  # type: ignore[call-arg]
    scheduler.declare([definition], owner="shop", removed="forget")  # type: ignore[arg-type]
    definition.name = "other"  # type: ignore[misc]
