"""Phrases: schedules in English, and what they will do when the clocks change.

Every phrase becomes one of the package's triggers; nothing is guessed. It prints::

    every other tuesday at 09:34
      Tue 2030-03-05 09:34:00-05:00
      Tue 2030-03-19 09:34:00-04:00
      Tue 2030-04-02 09:34:00-04:00
    every day at 02:30
      Sat 2030-03-09 02:30:00-05:00
      Sun 2030-03-10 03:00:00-04:00  (02:30 does not exist that day)
      Mon 2030-03-11 02:30:00-04:00
    every weekday at 17:00 except on holidays
      Thu 2030-03-07 17:00:00-05:00
      Mon 2030-03-11 17:00:00-04:00
      Tue 2030-03-12 17:00:00-04:00
    "9" is not clear: write '09:00' or '21:00'
"""

from datetime import date, datetime
from zoneinfo import ZoneInfo

from go_scheduler import InvalidTriggerError
from go_scheduler.triggers import (
    DateCalendar,
    parse_phrase,
    preview,
    register_calendar,
)

register_calendar("holidays", DateCalendar([date(2030, 3, 8)]))

for phrase, day in (
    ("every other Tuesday at 9:34am", 1),
    ("daily at 2:30 am", 9),
    ("weekdays at 5pm except on holidays", 7),
):
    now = datetime(2030, 3, day, tzinfo=ZoneInfo("America/New_York"))
    trigger = parse_phrase(phrase, "America/New_York", now)
    print(trigger.describe())
    for time in preview(trigger, 3, now):
        print(f"  {time}")

try:
    parse_phrase("every day at 9", "America/New_York")
except InvalidTriggerError as error:
    print(str(error).removeprefix("phrase 'every day at 9': ").split(";")[0])
