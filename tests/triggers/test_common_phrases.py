"""Phrases as people write them who have not read the grammar."""

from __future__ import annotations

import re
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers.phrases import parse_phrase

NEW_YORK = "America/New_York"
ZONE = ZoneInfo(NEW_YORK)
# A Wednesday.
NOW = datetime(2025, 1, 15, 10, tzinfo=ZONE)

# Each with its canonical phrase and the first time.
UNDERSTOOD = [
    *(
        (text, "the last day of every month at 17:00", "Fri 01-31 17:00")
        for text in (
            "end of month at 5pm",
            "at the end of the month at 5pm",
            "the end of each month at 5pm",
            "every month end at 5pm",
            "5pm at the end of every month",
            "last day of the month at 17:00",
        )
    ),
    *(
        (text, "every hour at :15", "Wed 01-15 10:15")
        for text in ("at quarter past", "every hour at a quarter past the hour")
    ),
    ("half past", "every hour at :30", "Wed 01-15 10:30"),
    ("at half past every hour", "every hour at :30", "Wed 01-15 10:30"),
    ("every hour at quarter to", "every hour at :45", "Wed 01-15 10:45"),
    ("a week from tomorrow", "at 2025-01-23 15:00Z", "Thu 01-23 10:00"),
    ("a week from tomorrow at 9am", "at 2025-01-23 14:00Z", "Thu 01-23 09:00"),
    ("2 days from tomorrow at noon", "at 2025-01-18 17:00Z", "Sat 01-18 12:00"),
    ("a fortnight from tomorrow at 9am", "at 2025-01-30 14:00Z", "Thu 01-30 09:00"),
    (
        "whenever both every friday at 09:00 and the 13th of every month at 09:00",
        "whenever both every friday at 09:00 and the 13th of every month at 09:00",
        "Fri 06-13 09:00",
    ),
    (
        "every 2 days at 9am, 17:30 starting 2025-02-01 10:00",
        "every 2 days at 09:00 starting 2025-02-03 09:00:00"
        " or every 2 days at 17:30 starting 2025-02-01 17:30:00",
        "Sat 02-01 17:30",
    ),
    *(
        (text, "the first monday of every month at 10:00", "Mon 02-03 10:00")
        for text in (
            "every first monday at 10:00",
            "each 1st mon at 10am",
            "every first monday monthly at 10:00",
            "at 10:00 every first monday",
        )
    ),
    (
        "every last friday at 5pm",
        "the last friday of every month at 17:00",
        "Fri 01-31 17:00",
    ),
    (
        "every first working day at 9am",
        "the first weekday of every month at 09:00",
        "Mon 02-03 09:00",
    ),
    ("every 1st at 9am", "the 1st of every month at 09:00", "Sat 02-01 09:00"),
    (
        "every 1st and 15th at 9am",
        "the 1st and 15th of every month at 09:00",
        "Sat 02-01 09:00",
    ),
    (
        "every first and third monday at 9am",
        "the first monday and the third monday of every month at 09:00",
        "Mon 01-20 09:00",
    ),
    (
        "every first monday in june at 9am",
        "the first monday of june at 09:00",
        "Mon 06-02 09:00",
    ),
    ("once every 2 hours", "every 2 hours", "Wed 01-15 12:00"),
    ("once every hour", "every hour", "Wed 01-15 11:00"),
    ("once an hour", "every hour", "Wed 01-15 11:00"),
    ("once a minute", "every minute", "Wed 01-15 10:01"),
    ("once every day at 6am", "every day at 06:00", "Thu 01-16 06:00"),
    ("once a day at 6am", "every day at 06:00", "Thu 01-16 06:00"),
    ("once per day at noon", "every day at 12:00", "Wed 01-15 12:00"),
    ("once daily at 9am", "every day at 09:00", "Thu 01-16 09:00"),
    ("once weekly on monday at 9am", "every monday at 09:00", "Mon 01-20 09:00"),
    ("once a week on friday at 5pm", "every friday at 17:00", "Fri 01-17 17:00"),
    ("once every monday at 9am", "every monday at 09:00", "Mon 01-20 09:00"),
    (
        "once every 2 weeks on friday at 5pm",
        "every other friday at 17:00",
        "Fri 01-17 17:00",
    ),
    ("once every other day at 8am", "every 2 days at 08:00", "Thu 01-16 08:00"),
    (
        "once a month on the 1st at 9am",
        "the 1st of every month at 09:00",
        "Sat 02-01 09:00",
    ),
    (
        "once a month on the last friday at 5pm",
        "the last friday of every month at 17:00",
        "Fri 01-31 17:00",
    ),
    (
        "once a year on 25 december at 8am",
        "every year on 25 december at 08:00",
        "Thu 12-25 08:00",
    ),
    (
        "once every year on january 1 at midnight",
        "every year on 1 january at 00:00",
        "Thu 01-01 00:00",
    ),
    ("once an hour at :15", "every hour at :15", "Wed 01-15 10:15"),
    ("once hourly", "every hour", "Wed 01-15 11:00"),
    ("twice a day at 9am and 5pm", "every day at 09:00 and 17:00", "Wed 01-15 17:00"),
    (
        "twice daily at 8:00 and 20:00",
        "every day at 08:00 and 20:00",
        "Wed 01-15 20:00",
    ),
    (
        "three times a day at 8am, noon and 6pm",
        "every day at 08:00, 12:00 and 18:00",
        "Wed 01-15 12:00",
    ),
    (
        "3 times a day at 08:00, 12:00 and 18:00",
        "every day at 08:00, 12:00 and 18:00",
        "Wed 01-15 12:00",
    ),
    (
        "twice a week on monday and thursday at 9am",
        "every monday and thursday at 09:00",
        "Thu 01-16 09:00",
    ),
    (
        "twice a month on the 1st and 15th at 9am",
        "the 1st and 15th of every month at 09:00",
        "Sat 02-01 09:00",
    ),
    (
        "three times a week on mon, wed and fri at 7am",
        "every monday, wednesday and friday at 07:00",
        "Fri 01-17 07:00",
    ),
    (
        "two times per day at 6am and 6pm",
        "every day at 06:00 and 18:00",
        "Wed 01-15 18:00",
    ),
    ("every day at 9am, 5 times", "every day at 09:00, 5 times", "Thu 01-16 09:00"),
    ("every day at 6am once", "every day at 06:00, once", "Thu 01-16 06:00"),
    ("every monday morning at 9", "every monday at 09:00", "Mon 01-20 09:00"),
    ("every friday afternoon at 4", "every friday at 16:00", "Fri 01-17 16:00"),
    ("every sunday evening at 7pm", "every sunday at 19:00", "Sun 01-19 19:00"),
    ("every weekday morning at 8", "every weekday at 08:00", "Thu 01-16 08:00"),
    ("weekday mornings at 8am", "every weekday at 08:00", "Thu 01-16 08:00"),
    ("monday mornings at 9am", "every monday at 09:00", "Mon 01-20 09:00"),
    ("every saturday night at 11", "every saturday at 23:00", "Sat 01-18 23:00"),
    ("tomorrow morning at 9", "at 2025-01-16 14:00Z", "Thu 01-16 09:00"),
    ("tomorrow afternoon at 3", "at 2025-01-16 20:00Z", "Thu 01-16 15:00"),
    ("tomorrow evening at 7:30", "at 2025-01-17 00:30Z", "Thu 01-16 19:30"),
    ("tomorrow night at 10pm", "at 2025-01-17 03:00Z", "Thu 01-16 22:00"),
    ("tonight at 8", "at 2025-01-16 01:00Z", "Wed 01-15 20:00"),
    ("tonight at 8pm", "at 2025-01-16 01:00Z", "Wed 01-15 20:00"),
    ("tonight at 11:30pm", "at 2025-01-16 04:30Z", "Wed 01-15 23:30"),
    ("this evening at 7", "at 2025-01-16 00:00Z", "Wed 01-15 19:00"),
    ("this afternoon at 3", "at 2025-01-15 20:00Z", "Wed 01-15 15:00"),
    ("this friday afternoon at 4", "at 2025-01-17 21:00Z", "Fri 01-17 16:00"),
    ("nightly at 2am", "every day at 02:00", "Thu 01-16 02:00"),
    ("nightly at 11pm", "every day at 23:00", "Wed 01-15 23:00"),
    ("nightly at 23:30", "every day at 23:30", "Wed 01-15 23:30"),
    ("every night at 2am", "every day at 02:00", "Thu 01-16 02:00"),
    ("every night at midnight", "every day at 00:00", "Thu 01-16 00:00"),
    ("mornings at 8", "every day at 08:00", "Thu 01-16 08:00"),
    ("every evening at 6", "every day at 18:00", "Wed 01-15 18:00"),
    ("every thirty minutes", "every 30 minutes", "Wed 01-15 10:30"),
    ("every forty five minutes", "every 45 minutes", "Wed 01-15 10:45"),
    ("every forty-five minutes", "every 45 minutes", "Wed 01-15 10:45"),
    ("every ninety seconds", "every 90 seconds", "Wed 01-15 10:01"),
    ("in thirty minutes", "at 2025-01-15 15:30Z", "Wed 01-15 10:30"),
    ("in forty-five minutes", "at 2025-01-15 15:45Z", "Wed 01-15 10:45"),
    ("in sixty seconds", "at 2025-01-15 15:01Z", "Wed 01-15 10:01"),
    ("every twenty four hours", "every 24 hours", "Thu 01-16 10:00"),
    (
        "the fifteenth of every month at 9am",
        "the 15th of every month at 09:00",
        "Sat 02-15 09:00",
    ),
    (
        "the twenty-first of every month at 9am",
        "the 21st of every month at 09:00",
        "Tue 01-21 09:00",
    ),
    (
        "on the thirtieth of each month at noon",
        "the 30th of every month at 12:00",
        "Thu 01-30 12:00",
    ),
    ("20 minutes from now", "at 2025-01-15 15:20Z", "Wed 01-15 10:20"),
    ("in 20 minutes from now", "at 2025-01-15 15:20Z", "Wed 01-15 10:20"),
    ("an hour from now", "at 2025-01-15 16:00Z", "Wed 01-15 11:00"),
    ("half an hour from now", "at 2025-01-15 15:30Z", "Wed 01-15 10:30"),
    ("2 days from now at 9am", "at 2025-01-17 14:00Z", "Fri 01-17 09:00"),
    ("a week from now at noon", "at 2025-01-22 17:00Z", "Wed 01-22 12:00"),
    ("three weeks from today at 9am", "at 2025-02-05 14:00Z", "Wed 02-05 09:00"),
    ("5th of june 2026 at 9am", "at 2026-06-05 13:00Z", "Fri 06-05 09:00"),
    ("every 5th of june at 9am", "every year on 5 june at 09:00", "Thu 06-05 09:00"),
    (
        "every june on the 5th at 9am",
        "every year on 5 june at 09:00",
        "Thu 06-05 09:00",
    ),
    ("every day in june at 9am", "every day in june at 09:00", "Sun 06-01 09:00"),
    (
        "the 1st and 15th at 9am",
        "the 1st and 15th of every month at 09:00",
        "Sat 02-01 09:00",
    ),
    (
        "the last friday of the month at 5pm",
        "the last friday of every month at 17:00",
        "Fri 01-31 17:00",
    ),
    (
        "every last friday of the month at 5pm",
        "the last friday of every month at 17:00",
        "Fri 01-31 17:00",
    ),
    (
        "every day at 9am until 9999-12-31",
        "every day at 09:00 until 9999-12-31 18:59:59.999999",
        "Thu 01-16 09:00",
    ),
    ("every minute", "every minute", "Wed 01-15 10:01"),
    ("every 5 minutes", "every 5 minutes", "Wed 01-15 10:05"),
    ("every 10 mins", "every 10 minutes", "Wed 01-15 10:10"),
    ("every hour", "every hour", "Wed 01-15 11:00"),
    ("every 6 hours", "every 6 hours", "Wed 01-15 16:00"),
    ("every day at 9am", "every day at 09:00", "Thu 01-16 09:00"),
    ("every day at noon", "every day at 12:00", "Wed 01-15 12:00"),
    ("every day at midnight", "every day at 00:00", "Thu 01-16 00:00"),
    ("daily at 17:30", "every day at 17:30", "Wed 01-15 17:30"),
    ("every morning at 7", "every day at 07:00", "Thu 01-16 07:00"),
    ("every weekday at 9am", "every weekday at 09:00", "Thu 01-16 09:00"),
    (
        "every weekday at 09:00 and 17:00",
        "every weekday at 09:00 and 17:00",
        "Wed 01-15 17:00",
    ),
    ("weekdays at 8:30am", "every weekday at 08:30", "Thu 01-16 08:30"),
    ("weekends at 10am", "every weekend at 10:00", "Sat 01-18 10:00"),
    ("every weekend at 10am", "every weekend at 10:00", "Sat 01-18 10:00"),
    ("monday to friday at 9am", "every weekday at 09:00", "Thu 01-16 09:00"),
    ("mon-fri at 9am", "every weekday at 09:00", "Thu 01-16 09:00"),
    ("every monday at 9am", "every monday at 09:00", "Mon 01-20 09:00"),
    (
        "every monday and wednesday at 6pm",
        "every monday and wednesday at 18:00",
        "Wed 01-15 18:00",
    ),
    (
        "every tuesday and thursday at 3:15 pm",
        "every tuesday and thursday at 15:15",
        "Thu 01-16 15:15",
    ),
    ("mondays at 9am", "every monday at 09:00", "Mon 01-20 09:00"),
    ("every other monday at 9am", "every other monday at 09:00", "Mon 01-20 09:00"),
    (
        "every two weeks on monday at 9am",
        "every other monday at 09:00",
        "Mon 01-20 09:00",
    ),
    ("every 3 days at 8am", "every 3 days at 08:00", "Thu 01-16 08:00"),
    (
        "every month on the 1st at midnight",
        "the 1st of every month at 00:00",
        "Sat 02-01 00:00",
    ),
    (
        "on the first of every month at 9am",
        "the 1st of every month at 09:00",
        "Sat 02-01 09:00",
    ),
    (
        "first monday of every month at 10am",
        "the first monday of every month at 10:00",
        "Mon 02-03 10:00",
    ),
    (
        "the first business day of the month at 9am",
        "the first weekday of every month at 09:00",
        "Mon 02-03 09:00",
    ),
    (
        "the last day of the month at 6pm",
        "the last day of every month at 18:00",
        "Fri 01-31 18:00",
    ),
    (
        "on the last day of every month at 23:59",
        "the last day of every month at 23:59",
        "Fri 01-31 23:59",
    ),
    (
        "every last day of the month at 6pm",
        "the last day of every month at 18:00",
        "Fri 01-31 18:00",
    ),
    ("every quarter hour", "every 15 minutes", "Wed 01-15 10:15"),
    (
        "every 15 minutes between 9am and 5pm",
        "every 15 minutes between 09:00 and 16:45 or every day at 17:00",
        "Wed 01-15 10:15",
    ),
    (
        "every hour between 8am and 6pm on weekdays",
        "every hour between 08:00 and 18:00 on weekdays",
        "Wed 01-15 11:00",
    ),
    (
        "every 30 minutes from 9am to 5pm monday to friday",
        "every 30 minutes between 09:00 and 16:30 on weekdays or every weekday at"
        " 17:00",
        "Wed 01-15 10:30",
    ),
    (
        "every year on july 4 at noon",
        "every year on 4 july at 12:00",
        "Fri 07-04 12:00",
    ),
    ("every 4th of july at noon", "every year on 4 july at 12:00", "Fri 07-04 12:00"),
    (
        "yearly on 31 december at 23:00",
        "every year on 31 december at 23:00",
        "Wed 12-31 23:00",
    ),
    ("tomorrow at 3pm", "at 2025-01-16 20:00Z", "Thu 01-16 15:00"),
    ("today at 5pm", "at 2025-01-15 22:00Z", "Wed 01-15 17:00"),
    ("in 2 hours", "at 2025-01-15 17:00Z", "Wed 01-15 12:00"),
    ("in 3 days at 9am", "at 2025-01-18 14:00Z", "Sat 01-18 09:00"),
    ("this friday at 9am", "at 2025-01-17 14:00Z", "Fri 01-17 09:00"),
    ("2025-03-01 at 9am", "at 2025-03-01 14:00Z", "Sat 03-01 09:00"),
    ("march 1 2025 at 9am", "at 2025-03-01 14:00Z", "Sat 03-01 09:00"),
    ("1 march 2025 at 9am", "at 2025-03-01 14:00Z", "Sat 03-01 09:00"),
    (
        "every day at 9am starting tomorrow",
        "every day at 09:00 from now on",
        "Thu 01-16 09:00",
    ),
    ("every hour until 6pm", "every hour until 2025-01-15 23:00Z", "Wed 01-15 11:00"),
    ("every 10 minutes for 2 hours", "every 10 minutes for 2 hours", "Wed 01-15 10:10"),
    (
        "every day except sunday at 9am",
        "every monday, tuesday, wednesday, thursday, friday and saturday at 09:00",
        "Thu 01-16 09:00",
    ),
    ("every day at 9am except weekends", "every weekday at 09:00", "Thu 01-16 09:00"),
    (
        "every weekday at 9am except in august",
        "every weekday in january to july and september to december at 09:00",
        "Thu 01-16 09:00",
    ),
    (
        "every 5 minutes on weekdays between 9am and 5pm",
        "every 5 minutes between 09:00 and 16:55 on weekdays or every weekday at 17:00",
        "Wed 01-15 10:05",
    ),
    ("every hour on the hour", "every hour on the hour", "Wed 01-15 11:00"),
    ("at 9am every day", "every day at 09:00", "Thu 01-16 09:00"),
    ("at 9 in the morning every day", "every day at 09:00", "Thu 01-16 09:00"),
    ("every day at 9 in the morning", "every day at 09:00", "Thu 01-16 09:00"),
    ("every sunday at midnight", "every sunday at 00:00", "Sun 01-19 00:00"),
    ("hourly at :30", "every hour at :30", "Wed 01-15 10:30"),
    ("every half hour", "every 30 minutes", "Wed 01-15 10:30"),
    ("every 2 hours on weekdays", "every 2 hours on weekdays", "Wed 01-15 12:00"),
    (
        "every 1st and 15th of the month at 8am",
        "the 1st and 15th of every month at 08:00",
        "Sat 02-01 08:00",
    ),
    (
        "every second tuesday of the month at 8pm",
        "the second tuesday of every month at 20:00",
        "Tue 02-11 20:00",
    ),
    (
        "the third thursday of november at noon",
        "the third thursday of november at 12:00",
        "Thu 11-20 12:00",
    ),
    (
        "every 6 months on the 1st at 9am",
        "every 6 months on the 1st at 09:00",
        "Sat 02-01 09:00",
    ),
    (
        "every 3 months on the 15th at noon",
        "every 3 months on the 15th at 12:00",
        "Wed 01-15 12:00",
    ),
    ("every 90 minutes", "every 90 minutes", "Wed 01-15 11:30"),
    ("every 2 days at 7pm", "every 2 days at 19:00", "Wed 01-15 19:00"),
    ("alternate mondays at 9am", "every other monday at 09:00", "Mon 01-20 09:00"),
    (
        "every fortnight on friday at 5pm",
        "every other friday at 17:00",
        "Fri 01-17 17:00",
    ),
    ("5 minutes after each run", "5 minutes after each run", "Wed 01-15 10:05"),
    ("once tomorrow at 3pm", "at 2025-01-16 20:00Z", "Thu 01-16 15:00"),
    ("once, tomorrow at 3pm", "at 2025-01-16 20:00Z", "Thu 01-16 15:00"),
    ("every day at 5 pm", "every day at 17:00", "Wed 01-15 17:00"),
    ("every evening at 8 o'clock", "every day at 20:00", "Wed 01-15 20:00"),
    (
        "every mon, wed, fri at 9am",
        "every monday, wednesday and friday at 09:00",
        "Fri 01-17 09:00",
    ),
    (
        "tuesdays and thursdays at 2pm",
        "every tuesday and thursday at 14:00",
        "Thu 01-16 14:00",
    ),
    ("first of the month at 9am", "the 1st of every month at 09:00", "Sat 02-01 09:00"),
    ("every working day at 9am", "every weekday at 09:00", "Thu 01-16 09:00"),
    (
        "annually on 1 april at noon",
        "every year on 1 april at 12:00",
        "Tue 04-01 12:00",
    ),
    ("every evening at 6:30", "every day at 18:30", "Wed 01-15 18:30"),
    ("tonight at 7:30", "at 2025-01-16 00:30Z", "Wed 01-15 19:30"),
    ("tomorrow at 7:30 in the evening", "at 2025-01-17 00:30Z", "Thu 01-16 19:30"),
    ("every morning at 6:45", "every day at 06:45", "Thu 01-16 06:45"),
    ("at 7:30pm every night", "every day at 19:30", "Wed 01-15 19:30"),
    ("every night at 7:30", "every day at 19:30", "Wed 01-15 19:30"),
    ("in a quarter of an hour", "at 2025-01-15 15:15Z", "Wed 01-15 10:15"),
    ("every quarter of an hour", "every 15 minutes", "Wed 01-15 10:15"),
    ("every third day at noon", "every 3 days at 12:00", "Wed 01-15 12:00"),
    (
        "every sunday at 3am and 3pm",
        "every sunday at 03:00 and 15:00",
        "Sun 01-19 03:00",
    ),
    (
        "every other week on tuesday at 10:30",
        "every other tuesday at 10:30",
        "Tue 01-21 10:30",
    ),
    ("every 45 seconds", "every 45 seconds", "Wed 01-15 10:00"),
    (
        "every 1st of january at midnight",
        "every year on 1 january at 00:00",
        "Thu 01-01 00:00",
    ),
    (
        "every last business day of the month at 6pm",
        "the last weekday of every month at 18:00",
        "Fri 01-31 18:00",
    ),
    (
        "every tuesday at 14:00 starting 2025-03-01",
        "every tuesday at 14:00 starting 2025-03-01 00:00",
        "Tue 03-04 14:00",
    ),
    (
        "every hour from 8 am to 8 pm",
        "every hour between 08:00 and 20:00",
        "Wed 01-15 11:00",
    ),
    (
        "every 20 minutes during weekdays",
        "every 20 minutes on weekdays",
        "Wed 01-15 10:20",
    ),
    ("weekly on friday at 4pm", "every friday at 16:00", "Fri 01-17 16:00"),
    (
        "monthly on the 15th at 9am",
        "the 15th of every month at 09:00",
        "Sat 02-15 09:00",
    ),
]

# What may be read in two ways, does not say all, or is in no common grammar.
REFUSED = [
    "3 times at 9am every day",
    "once at 9am every day",
    "3 times 2 days at 9am",
    "45th of june 2030 at 9am",
    "twice a day",
    "twice a day at 9am",
    "5 times every day at 9am",
    "5 times a day at 9am",
    "monday morning at 9am",
    "every saturday night at 2am",
    "tomorrow night at 1am",
    "tonight at 1am",
    "nightly",
    "on the 5th at 9am",
    "the 5th at 9am",
    "5th of june at 9am",
    "the 5th of june at 9am",
    "5 june at 9am",
    "on monday at 9am",
    "every june at 9am",
    "last friday at 5pm",
    "every monday at 9am until friday",
    "every day at 9am until 2020-01-01",
    "next friday at 9am",
    "biweekly on friday at 5pm",
    "only once at 2030-01-01 09:00",
    "every day at 5 o'clock",
    "daily at 9",
    "at 7:30am in the evening every day",
    "every day between 9am and 5pm",
    "every friday the 13th at 9am",
]


@pytest.mark.parametrize(("text", "canonical", "first"), UNDERSTOOD)
def test_it_is_understood(text: str, canonical: str, first: str) -> None:
    trigger = parse_phrase(text, NEW_YORK, NOW)
    assert trigger.describe() == canonical
    found = trigger.next_fire_time(NOW)
    assert found is not None
    assert f"{found.astimezone(ZONE):%a %m-%d %H:%M}" == first


# What is not clear, and what it is told to write, which is a phrase.
ADVICE = [
    ("every friday the 13th at 9am", "write 'whenever both every friday at 09:00"),
    ("friday the 13th", "write 'whenever both every friday at 09:00"),
    ("every day at the end of the day", "write 'the last day of every month at 17:00'"),
    ("every second tue at 9am", "write 'the second tue of every month' or 'every 2 we"),
    ("every third weekday at 9am", "write 'the third weekday of every month'"),
    ("every 15th at 9am", "write 'every 15 days' or 'the 15th of every month'"),
    ("first monday at 9am", "write 'the first monday of every month', or a date"),
    ("end of the week", "or 'every day at 23:59'"),
    ("start of the month at 9am", "write 'the 1st of every month at 09:00'"),
    ("quarterly", "write 'every 3 months on the 1st at 09:00'"),
    ("a month from tomorrow", "only days and weeks can be counted"),
    ("2 hours from tomorrow", "only days and weeks can be counted"),
    ("twice a day", "as in 'every day at 09:00 and 17:00'"),
    ("twice an hour", "as in 'every hour at :15 and :45'"),
    ("twice a week", "as in 'every monday and thursday at 09:00'"),
    ("twice a month", "as in 'the 1st and 15th of every month at 09:00'"),
    ("twice a year", "as in 'every 1 january and 1 july at 09:00'"),
    ("twice a fortnight", "as in 'every day at 09:00 and 17:00'"),
    ("every day at half past nine", "write '09:30' or '21:30'"),
    ("at quarter past 12 every day", "write '00:15' or '12:15'"),
    ("a quarter to one on monday", "write '00:45' or '12:45'"),
    ("quarter to twelve on mondays", "write '11:45' or '23:45'"),
    ("half past thirteen every day", "does not fit there"),
]


@pytest.mark.parametrize(("text", "message"), ADVICE)
def test_it_is_told_what_to_write(text: str, message: str) -> None:
    with pytest.raises(InvalidTriggerError) as caught:
        parse_phrase(text, NEW_YORK, NOW)
    assert message in str(caught.value)
    advice = str(caught.value).partition(" write ")[2].partition("; understood")[0]
    for advised in re.findall(r"'([a-z][^']+ at [^']+)'", advice):
        parse_phrase(advised, NEW_YORK, NOW)


@pytest.mark.parametrize("text", REFUSED)
def test_it_is_refused_and_not_guessed(text: str) -> None:
    with pytest.raises(InvalidTriggerError):
        parse_phrase(text, NEW_YORK, NOW)
