"""User code that must type-check: handlers, sync and async, and a registry."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, assert_type
from uuid import UUID

from go_scheduler import HandlerRegistry, Scheduler, TaskInstance, current_run

if TYPE_CHECKING:
    from collections.abc import Callable


def plain(instance: TaskInstance) -> None:
    assert_type(instance.id, UUID)
    assert_type(instance.fire_time, datetime | None)
    assert_type(instance.execute_at, datetime)
    assert_type(instance.attempt, int)
    for value in instance.metadata.values():
        print(value)  # noqa: T201 - what handlers do in examples


async def coroutine(instance: TaskInstance) -> str:
    run = current_run()
    assert_type(run.token, tuple[UUID, int])
    while not run.cancelled:
        run.extend(timedelta(minutes=1))
    return "done"


class Mailer:
    def __call__(self, instance: TaskInstance) -> int:
        return instance.runs

    def send(self, instance: TaskInstance) -> None:
        """A method is a handler as well."""


handlers = HandlerRegistry()


@handlers.register("send report")
def send_report(instance: TaskInstance) -> str:
    return str(instance.fire_time)


@handlers.register("fetch")
async def fetch(instance: TaskInstance) -> None:
    """Decorating changes no type."""


same: Callable[[TaskInstance], str] = send_report

received: list[TaskInstance] = []


def schedulers() -> list[Scheduler]:
    return [
        Scheduler(plain),
        Scheduler(coroutine),
        Scheduler(Mailer()),
        Scheduler(Mailer().send),
        Scheduler(received.append),
        Scheduler(lambda instance: instance.metadata["to"]),
        Scheduler(handlers),
        Scheduler(None),
    ]


def takes_nothing() -> None:
    """No handler: nobody would tell it what to do."""


def wrong() -> None:
    Scheduler(takes_nothing)  # type: ignore[arg-type]
    Scheduler("send report")  # type: ignore[arg-type]
    handlers.register("nothing")(takes_nothing)  # type: ignore[type-var]
