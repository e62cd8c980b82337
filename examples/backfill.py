"""Backfill: a schedule that begins today is made up for, for the week before.

Each day of it runs once, one after another, and asked again nothing runs twice. It
prints::

    7 days made, in their order
    0 days made, 7 were there
"""

import threading
from datetime import UTC, datetime, timedelta

from go_scheduler import (
    CronTrigger,
    Overlap,
    Scheduler,
    TaskDefinition,
    TaskInstance,
)

days: list[datetime | None] = []
ended = threading.Semaphore(0)


def handler(instance: TaskInstance) -> None:
    # The day that is meant is not the day on which it runs.
    days.append(instance.fire_time)
    ended.release()


nightly = TaskDefinition(
    id=TaskDefinition.id_for("nightly figures"),
    trigger=CronTrigger(hour=2),
)
now = datetime.now(UTC)
week = now - timedelta(days=7), now

with Scheduler(handler) as scheduler:
    scheduler.schedule(nightly)
    found = scheduler.backfill(nightly.id, *week, overlap=Overlap.BUFFER_ALL)
    for _ in range(found.made):
        ended.acquire()
    again = scheduler.backfill(nightly.id, *week)
in_order = days == sorted(each for each in days if each is not None)
print(f"{found.made} days made, {'in' if in_order else 'not in'} their order")
print(f"{again.made} days made, {again.there} were there")
