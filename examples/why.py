"""Why it did, or did not: what a scheduler answers when something is not as it should.

The clock is one that the program moves, so that it shows a morning at once. It prints::

    It has completed.
    Nothing: the schedule has no fire time at 2030-01-01 09:30:00 UTC; the nearest are
    2030-01-01 09:00:00 UTC and 2030-01-02 09:00:00 UTC.
    It is paused since 2030-01-01 10:00:00 UTC (no paper), so that nothing of it starts
    until it is resumed. Its next fire time is 2030-01-02 09:00:00 UTC.
    It has been due since 2030-01-01 10:00:00 UTC, and no living node serves the queue
    'mail', nor has one within the last hour.
"""

import textwrap
from datetime import UTC, datetime, timedelta

from go_scheduler import (
    CronTrigger,
    ExecuteOnceTrigger,
    MemoryStore,
    Scheduler,
    TaskDefinition,
)
from go_scheduler.testing import ManualClock

NINE = datetime(2030, 1, 1, 9, tzinfo=UTC)


def show(text: str) -> None:
    print(textwrap.fill(text, 84))


def main() -> None:
    clock = ManualClock(datetime(2030, 1, 1, tzinfo=UTC))
    with Scheduler(lambda _: None, MemoryStore(clock), clock=clock) as scheduler:
        daily = CronTrigger(hour=9)
        report = scheduler.schedule(TaskDefinition(trigger=daily, name="report"))
        clock.advance(timedelta(hours=10))

        # What happened at an instant: whether it ran, where, and how late.
        why = scheduler.why(report.id, NINE)
        show(why.text.partition(" It was due")[0])
        # And where nothing did, when it would have.
        show(str(scheduler.why(report.id, NINE + timedelta(minutes=30))))

        # How things stand now.
        scheduler.pause(report.id, "no paper")
        show(str(scheduler.why(report.id)).partition(" Its last")[0])
        # Nobody runs what is in this queue: nodes tell what they serve.
        once = ExecuteOnceTrigger(clock.now())
        letter = scheduler.schedule(TaskDefinition(trigger=once, queue="mail"))
        clock.advance(timedelta(seconds=5))
        show(str(scheduler.why(letter.id)))


if __name__ == "__main__":
    main()
