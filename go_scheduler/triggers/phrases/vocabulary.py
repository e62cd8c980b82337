"""The words that phrases are made of, and what each of them stands for."""

from __future__ import annotations

from datetime import time
from typing import TYPE_CHECKING, TypeAlias

from go_scheduler.triggers.words import MONTHS, WEEKDAYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_Entries: TypeAlias = "Iterator[tuple[str, str, object]]"
"""A terminal, its spellings, and the value that these stand for."""


def _days_and_months() -> _Entries:
    for number, day in enumerate(WEEKDAYS):
        yield "WEEKDAY", f"{day},{day}s,{day[:3]}", frozenset({number})
    yield "WEEKDAY", "tues", frozenset({1})
    yield "WEEKDAY", "thur,thurs", frozenset({3})
    for kind in ("weekday", "working day", "business day"):
        yield "WEEKDAY", f"{kind},{kind}s,during {kind}s", frozenset(range(5))
    yield "WEEKDAY", "weekend,weekends,during weekends", frozenset({5, 6})
    for number, month in enumerate(MONTHS, 1):
        yield "MONTH", f"{month},{month[:3]}", number
    yield "MONTH", "sept", 9
    for month in ("month", "the month", "each month", "every month"):
        end = f"end of {month}"
        yield "MONTH_END", f"{end},at {end},at the {end}", None
    yield "MONTH_END", "month end,month-end,every month end,each month end", None
    yield "TODAY", "today", 0
    yield "TODAY", "tomorrow", 1


def _amounts() -> _Entries:
    for unit, spellings in _UNITS.items():
        yield "UNIT", spellings, unit
    for number, text in _numbers():
        yield "NUMBER", text, number
    yield "NUMBER", "a,an", 1
    for number, text in _ordinals():
        yield "ORDINAL", text, number
    yield "ORDINAL", "last", -1
    yield "HALF", "half,half an,half a", 0.5
    yield "HALF", "quarter,quarter of an,a quarter,a quarter of an", 0.25
    for unit, spellings in _ADVERBS.items():
        for spelling in spellings.split(","):
            yield "ADVERB", f"{spelling},once {spelling}", unit
    yield "COUNT", "once,one time", 1
    yield "COUNT", "twice", 2


def _times_of_day() -> _Entries:
    for part in ("morning", "afternoon", "evening", "night"):
        yield "PART", part, part
        yield "DAY_PARTS", f"{part}s,in the {part}s", part
        yield "IN_PART", f"in the {part},at {part}", part
    for words, minute in (("quarter past", 15), ("half past", 30), ("quarter to", 45)):
        for before in ("", "a "):
            for after in ("", " the hour", " each hour", " every hour"):
                yield "MINUTE", f"{before}{words}{after}", minute
    yield "TIME", "noon,midday", time(12)
    yield "TIME", "midnight", time(0)
    yield "ALIGNED", "on the clock", None
    yield "ALIGNED", "on the hour", 0
    yield "ALIGNED", "on the half hour", 30


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


VOCABULARY: Mapping[tuple[str, ...], tuple[str, object]] = {
    tuple(spelling.split()): (terminal, value)
    for terminal, spellings, value in (
        *_days_and_months(),
        *_amounts(),
        *_times_of_day(),
        *((terminal, spellings, None) for terminal, spellings in _PLAIN.items()),
    )
    for spelling in spellings.split(",")
}
"""Each word, or several that belong together, with its terminal and its value."""

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
"""Words that people read in several ways, and what to write instead."""
