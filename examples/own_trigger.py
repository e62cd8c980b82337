"""A trigger of your own: one method, and a name for it in the store.

This one fires on working days, at an hour of UTC. A manual clock runs a week of it. It
prints::

    Tue 2030-01-01 17:00
    Wed 2030-01-02 17:00
    Thu 2030-01-03 17:00
    Fri 2030-01-04 17:00
    Mon 2030-01-07 17:00
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from go_scheduler import (
    InvalidTriggerError,
    MemoryStore,
    Scheduler,
    TaskDefinition,
    TaskInstance,
    Trigger,
)
from go_scheduler.testing import ManualClock

DAY = timedelta(days=1)
SATURDAY = 5


@dataclass(frozen=True)
class WorkingDayTrigger(Trigger):
    kind: ClassVar[str] = "examples.working_day"

    hour: int

    def __post_init__(self) -> None:
        if not 0 <= self.hour <= 23:
            raise InvalidTriggerError(f"hour must be 0–23: {self.hour}")

    def next_fire_time(self, after: datetime) -> datetime | None:
        after = after.astimezone(UTC)
        day = after.replace(hour=self.hour, minute=0, second=0, microsecond=0)
        while day <= after or day.weekday() >= SATURDAY:
            day += DAY
        return day


def handler(instance: TaskInstance) -> None:
    print(f"{instance.execute_at:%a %Y-%m-%d %H:%M}")


def main() -> None:
    clock = ManualClock(datetime(2030, 1, 1, tzinfo=UTC))
    hour = timedelta(hours=1)
    scheduler = Scheduler(
        handler,
        MemoryStore(clock),
        clock=clock,
        # The clock makes every turn of the loops: wide windows have few of them.
        schedule_window=hour,
        runner_window=hour,
        lease=hour,
    )
    with scheduler:
        scheduler.schedule(TaskDefinition(trigger=WorkingDayTrigger(hour=17)))
        clock.advance(timedelta(days=7))


if __name__ == "__main__":
    main()
