"""User code that must type-check: tasks, and what they are enqueued with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

from go_scheduler import (
    CronTrigger,
    HandlerRegistry,
    RetryPolicy,
    Scheduler,
    TaskInstance,
)


@dataclass
class Order:
    number: int


handlers = HandlerRegistry()
scheduler = Scheduler(handlers)


@handlers.task("send", queue="mail", retry=RetryPolicy(max_attempts=5))
def send(order: Order, *, urgent: bool = False) -> str:
    return f"{order.number} {urgent}"


@scheduler.task("report", CronTrigger(hour=9))
async def report(instance: TaskInstance, pages: int = 3) -> int:
    return pages + instance.runs


async def enqueued(instance: TaskInstance) -> None:
    assert_type(send.enqueue(Order(7), urgent=True), TaskInstance)
    assert_type(await send.aenqueue(order=Order(7)), TaskInstance)
    assert_type(report.enqueue(pages=5), TaskInstance)
    assert_type(send(Order(7)), str)
    assert_type(await report(instance, 5), int)
    assert_type(scheduler.enqueue("send", order=Order(7), key="7"), TaskInstance)


def wrong(instance: TaskInstance) -> None:
    send.enqueue(order=7)  # type: ignore[arg-type]
    send.enqueue()  # type: ignore[call-arg]
    send.enqueue(Order(7), number=7)  # type: ignore[call-arg]
    report.enqueue(instance, 5)  # type: ignore[call-arg, arg-type]
    report(5)  # type: ignore[arg-type, unused-coroutine]
