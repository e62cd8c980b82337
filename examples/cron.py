"""Cron: a local time of day, over a change of the clocks, in no time.

Nine in the morning in Berlin is eight in UTC in winter and seven in summer. A manual
clock runs four days of it at once. It prints::

    next fire times
      Fri 2030-03-29 09:00 CET
      Sat 2030-03-30 09:00 CET
      Sun 2030-03-31 09:00 CEST
      Mon 2030-04-01 09:00 CEST
    four days later
      ran at 2030-03-29 08:00 UTC
      ran at 2030-03-30 08:00 UTC
      ran at 2030-03-31 07:00 UTC
      ran at 2030-04-01 07:00 UTC
"""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from go_scheduler import CronTrigger, MemoryStore, Scheduler, TaskDefinition
from go_scheduler.testing import ManualClock

berlin = ZoneInfo("Europe/Berlin")
trigger = CronTrigger("0 9 * * *", timezone=berlin)
now = datetime(2030, 3, 28, 12, tzinfo=UTC)

print("next fire times")
after = now
for _ in range(4):
    fire_time = trigger.next_fire_time(after)
    assert fire_time is not None
    print(f"  {fire_time.astimezone(berlin):%a %Y-%m-%d %H:%M %Z}")
    after = fire_time

clock = ManualClock(now)
ran: list[datetime] = []
hour = timedelta(hours=1)
scheduler = Scheduler(
    lambda instance: ran.append(clock.now()),
    MemoryStore(clock),
    clock=clock,
    # The clock makes every turn of the loops: with wide windows there are few of them.
    schedule_window=hour,
    runner_window=hour,
    lease=hour,
)
with scheduler:
    scheduler.schedule(TaskDefinition(trigger=trigger))
    clock.advance(timedelta(days=4))

print("four days later")
for at in ran:
    print(f"  ran at {at:%Y-%m-%d %H:%M} UTC")
