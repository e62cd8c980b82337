"""The words that phrases are made of, and what each of them stands for."""

from __future__ import annotations

from datetime import time
from typing import TYPE_CHECKING

from go_scheduler.triggers.words import MONTHS, WEEKDAYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_Entry = tuple[str, object]


def _vocabulary() -> Mapping[tuple[str, ...], _Entry]:
    found: dict[tuple[str, ...], _Entry] = {}

    def add(type: str, spellings: str, value: object = None) -> None:
        for spelling in spellings.split(","):
            found[tuple(spelling.split())] = type, value

    for number, day in enumerate(WEEKDAYS):
        add("WEEKDAY", f"{day},{day}s,{day[:3]}", frozenset({number}))
    add("WEEKDAY", "tues", frozenset({1}))
    add("WEEKDAY", "thur,thurs", frozenset({3}))
    for kind in ("weekday", "working day", "business day"):
        add("WEEKDAY", f"{kind},{kind}s,during {kind}s", frozenset(range(5)))
    add("WEEKDAY", "weekend,weekends,during weekends", frozenset({5, 6}))
    for number, month in enumerate(MONTHS, 1):
        add("MONTH", f"{month},{month[:3]}", number)
    add("MONTH", "sept", 9)
    for unit, spellings in _UNITS.items():
        add("UNIT", spellings, unit)
    for number, text in _numbers():
        add("NUMBER", text, number)
    add("NUMBER", "a,an", 1)
    for number, text in _ordinals():
        add("ORDINAL", text, number)
    add("ORDINAL", "last", -1)
    for part in ("morning", "afternoon", "evening", "night"):
        add("PART", part, part)
        add("DAY_PARTS", f"{part}s,in the {part}s", part)
        add("IN_PART", f"in the {part},at {part}", part)
    for month in ("month", "the month", "each month", "every month"):
        end = f"end of {month}"
        add("MONTH_END", f"{end},at {end},at the {end}")
    add("MONTH_END", "month end,month-end,every month end,each month end")
    for words, minute in (("quarter past", 15), ("half past", 30), ("quarter to", 45)):
        for before in ("", "a "):
            for after in ("", " the hour", " each hour", " every hour"):
                add("MINUTE", f"{before}{words}{after}", minute)
    add("HALF", "half,half an,half a", 0.5)
    add("HALF", "quarter,quarter of an,a quarter,a quarter of an", 0.25)
    for type, spellings in _PLAIN.items():
        add(type, spellings)
    for unit, spellings in _ADVERBS.items():
        for spelling in spellings.split(","):
            add("ADVERB", f"{spelling},once {spelling}", unit)
    add("TIME", "noon,midday", time(12))
    add("TIME", "midnight", time(0))
    add("TODAY", "today", 0)
    add("TODAY", "tomorrow", 1)
    add("ALIGNED", "on the clock", None)
    add("ALIGNED", "on the hour", 0)
    add("ALIGNED", "on the half hour", 30)
    add("COUNT", "once,one time", 1)
    add("COUNT", "twice", 2)
    return found


_UNITS = {
    "microsecond": "microsecond,microseconds",
    "millisecond": "millisecond,milliseconds,ms",
    "second": "seconds,sec,secs,s",
    "minute": "minute,minutes,min,mins",
    "hour": "hour,hours,hr,hrs,h",
    "day": "day,days,d",
    "week": "week,weeks,w",
    "fortnight": "fortnight,fortnights",
    "month": "month,months",
    "year": "year,years",
}
_NUMBERS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
    " fifteen sixteen seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
    " thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth"
)


def _numbers() -> Iterator[tuple[int, str]]:
    """The numbers below a hundred, in words."""
    yield from enumerate(_NUMBERS.split(), 1)
    for tens, text in enumerate(_TENS.split(), 2):
        yield 10 * tens, text
        for ones, more in enumerate(_NUMBERS.split()[:9], 1):
            yield 10 * tens + ones, f"{text} {more}"
            yield 10 * tens + ones, f"{text}-{more}"


def _ordinals() -> Iterator[tuple[int, str]]:
    """The ordinals that count the days of a month, in words."""
    yield from enumerate(_ORDINALS.split(), 1)
    for tens, text, last in ((20, "twent", 9), (30, "thirt", 1)):
        yield tens, f"{text}ieth"
        for ones, more in enumerate(_ORDINALS.split()[:last], 1):
            yield tens + ones, f"{text}y {more}"
            yield tens + ones, f"{text}y-{more}"


_PLAIN = {
    "EVERY": "every,each,once every,once each,once a,once an,once per,per",
    "OTHER": "other,alternate",
    "THIS": "this,this coming",
    "TONIGHT": "tonight",
    "NIGHTLY": "nightly,once nightly",
    "HENCE": "from now,from right now",
    "AT": "at",
    "OF": "of",
    "IN": "in,during",
    "AND": "and",
    "OR": "or",
    "TO": "to,through",
    "BETWEEN": "between",
    "FROM": "from",
    "FROM_NOW": "from now on",
    "UNTIL": "until,till",
    "STARTING": "starting,starting from,starting at,beginning,beginning at",
    "FOR": "for,for the next",
    "EXCEPT": "except,and except,except for,but not,excluding",
    "ONLY": "only on,days of,on days of",
    "AFTER_RUN": "after each run,after every run,after each run ends",
    "PAST": "past,after",
    "WHENEVER": "whenever both,whenever all of",
    "FILLER": "on,the",
}
_ADVERBS = {
    "minute": "minutely",
    "hour": "hourly",
    "day": "daily,everyday",
    "week": "weekly",
    "fortnight": "fortnightly",
    "month": "monthly",
    "year": "yearly,annually",
}


VOCABULARY = _vocabulary()
"""Of a word, or of several that belong together, its terminal and its value."""

AMBIGUOUS = {
    "biweekly": ("every 2 weeks", "twice a week, on days that you name"),
    "bimonthly": ("every 2 months", "twice a month, on days that you name"),
    "biannual": ("every 2 years", "twice a year, on dates that you name"),
    "biannually": ("every 2 years", "twice a year, on dates that you name"),
    "semiweekly": ("on two days of the week that you name",),
    "semimonthly": ("on two days of the month that you name",),
    "m": ("minutes", "months"),
    "end": ("the last day of every month at 17:00", "every day at 23:59"),
    "start": ("the 1st of every month at 09:00", "starting 2030-12-31"),
    "quarterly": (
        "every 3 months on the 1st at 09:00",
        "on the 1st of january, april, july and october at 09:00",
    ),
    "next": ("this friday", "2030-12-31"),
}
"""Of a word that people read in several ways, what to write instead."""
