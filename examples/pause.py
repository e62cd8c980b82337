"""Pause with a note, change what is paused, and catch up at the resume.

The clock is one that is turned by hand, so that hours pass at once. It prints::

    09:00 from the old address
    paused since 09:30: the supplier moves house
    10:00 from the new address
    11:00 from the new address
    12:00 from the new address
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from go_scheduler import CatchUp, CronTrigger, Scheduler, TaskDefinition, TaskInstance
from go_scheduler.testing import ManualClock


def fetch(instance: TaskInstance) -> None:
    assert instance.fire_time is not None
    print(f"{instance.fire_time:%H:%M} from {instance.metadata['address']}")


clock = ManualClock(datetime(2030, 1, 1, 8, 30, tzinfo=UTC))
prices = TaskDefinition(
    trigger=CronTrigger("0 * * * *"),
    metadata={"address": "the old address"},
    catch_up=CatchUp(mode="all"),  # without it, the latest alone
)

with Scheduler(fetch, clock=clock) as scheduler:
    scheduler.schedule(prices)
    clock.advance(timedelta(hours=1))

    scheduler.pause(prices.id, note="the supplier moves house")
    clock.advance(timedelta(hours=3))
    paused = scheduler.get_definition(prices.id)
    print(f"paused since {paused.paused_at:%H:%M}: {paused.note}")

    # What was missed runs as the definition says when it starts.
    scheduler.schedule(replace(paused, metadata={"address": "the new address"}))
    scheduler.resume(prices.id)
    clock.advance(timedelta(minutes=1))
