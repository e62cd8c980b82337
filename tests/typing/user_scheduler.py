"""User code that must type-check: a scheduler, all of what is done with it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, assert_type
from uuid import UUID

from go_scheduler import (
    ConflictError,
    Deleted,
    GoSchedulerError,
    IntervalTrigger,
    MemoryStore,
    Scheduler,
    TaskDefinition,
    TaskDefinitionNotFoundError,
    TaskInstance,
)
from go_scheduler.testing import InlineExecutor, ManualClock

if TYPE_CHECKING:
    from collections.abc import Sequence


def use(handler: list[TaskInstance], definition: TaskDefinition) -> None:
    clock, executor = ManualClock(), InlineExecutor()
    scheduler = Scheduler(
        handler.append, MemoryStore(clock), clock=clock, executor=executor
    )
    with scheduler as same:
        assert_type(same, Scheduler)
        stored = same.schedule(definition)
    page = scheduler.list_definitions(metadata={"to": ["a@example.org"]}, limit=10)
    definitions: Sequence[TaskDefinition] = page
    assert_type(page.next, str | None)
    assert_type(scheduler.schedule_all(definitions), list[TaskDefinition])
    declared = scheduler.declare(definitions, owner="shop", version=7, removed="pause")
    assert_type(declared, list[TaskDefinition])
    found: Sequence[TaskInstance] = scheduler.list_instances(definition_id=stored.id)
    assert_type(found[0], TaskInstance)
    assert_type(scheduler.delete_definition(stored.id), Deleted | None)
    assert_type(scheduler.stop(timedelta(seconds=5)), bool)


async def awaited(scheduler: Scheduler, definition: TaskDefinition) -> None:
    async with scheduler as same:
        assert_type(same, Scheduler)
        stored = await same.aschedule(definition)
        assert_type(stored, TaskDefinition)
        await same.aschedule_all(each for each in [definition])
        assert_type(await same.adelete_definition(stored.id), Deleted | None)
        await same.aget_definition("nightly report")  # type: ignore[arg-type]
        await same.alist_definitions(100)  # type: ignore[arg-type, call-arg]


def errors(scheduler: Scheduler, definition: TaskDefinition) -> None:
    try:
        scheduler.schedule(definition)
    except ConflictError as error:
        assert_type(error.revision, int | None)
    except TaskDefinitionNotFoundError as error:
        assert_type(error.definition_id, UUID)
    except GoSchedulerError as error:
        raise SystemExit(str(error)) from error


def wrong(scheduler: Scheduler, definition: TaskDefinition) -> None:
    Scheduler(None, lease=20)  # type: ignore[arg-type]
    Scheduler(None, None, timedelta(seconds=1))  # type: ignore[call-arg]
    scheduler.schedule(IntervalTrigger(timedelta(hours=1)))  # type: ignore[arg-type]
    scheduler.get_definition("nightly report")  # type: ignore[arg-type]
    scheduler.list_definitions(100)  # type: ignore[arg-type, call-arg]
    scheduler.declare([definition])  # type: ignore[call-arg]
    scheduler.declare([definition], owner="shop", removed="forget")  # type: ignore[arg-type]
    definition.name = "other"  # type: ignore[misc]
