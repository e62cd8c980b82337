"""The words of phrases: what each stands for, and how a text is split into them."""

from __future__ import annotations

import re
from datetime import date, datetime, time
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from go_scheduler.triggers.base import RefusedError
from go_scheduler.triggers.words import MONTHS, WEEKDAYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

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


LONGEST = 512
"""The most characters a phrase may have."""

_MOST_BRACKETS = 20


class PhraseError(RefusedError):
    """A mistake in a phrase, and where it is.

    Args:
        message: For a person to read.
        understood: How many characters before were understood.
    """

    def __init__(self, message: str, understood: int | None = None) -> None:
        super().__init__(message)
        self.understood = understood


class Word(NamedTuple):
    """One word of a phrase, or several that belong together.

    Attributes:
        type: Its terminal in the grammar.
        value: What it stands for.
        text: As it was written.
        start: Where it begins in the phrase.
        end: Where it ends.
    """

    type: str
    value: Any
    text: str
    start: int
    end: int


def read_words(text: str) -> Sequence[Word]:
    """The words of a phrase.

    Raises:
        PhraseError: It holds what is no word, or one that has several meanings.
    """
    if text.count("(") > _MOST_BRACKETS:
        raise PhraseError(f"it has more than {_MOST_BRACKETS} brackets")
    return _without_commas(_with_ordinals(list(_known(list(_split(text)), text))))


# Times, dates and names: in a phrase, and no words of English.


def _time_of(match: re.Match[str]) -> time:
    hour, minute = int(match["hour"]), int(match["minute"] or 0)
    half = match["half"].lower()[0] if match["half"] else None
    if half is not None:
        if not 1 <= hour <= 12:
            raise ValueError(f"hour {hour} is not in 1–12 with am or pm")
        hour = hour % 12 + (12 if half == "p" else 0)
    # Without am or pm, a part of the day may say that it is the later one.
    return time(hour, minute, int(match["second"] or 0), fold=half is None)


def _instant_of(match: re.Match[str]) -> datetime:
    return datetime.fromisoformat(match[0].upper().replace("Z", "+00:00"))


_SHAPES: Sequence[tuple[str, str, Callable[[re.Match[str]], object]]] = (
    (
        "INSTANT",
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
        r"([Zz]|[+-][0-9]{2}:[0-9]{2})?(?!\w)",
        _instant_of,
    ),
    (
        "DATE",
        r"[0-9]{4}-[0-9][0-9]-[0-9][0-9](?!\w)",
        lambda match: date.fromisoformat(match[0]),
    ),
    (
        "SLASHED",
        r"[0-9]{1,4}[/.][0-9]{1,2}[/.][0-9]{1,4}|[0-9]{1,2}/[0-9]{1,2}(?!\w)",
        str,
    ),
    (
        "TIME",
        r"(?P<hour>[0-9]{1,2})([:.](?P<minute>[0-9][0-9])(:(?P<second>[0-9][0-9]))?)?\s?"
        r"(?P<half>[ap]\.?m\b\.?)",
        _time_of,
    ),
    (
        "TIME",
        r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9][0-9])(:(?P<second>[0-9][0-9]))?(?!\w)(?P<half>)",
        _time_of,
    ),
    ("MINUTE", r":(?P<minute>[0-5][0-9])(?!\w)", lambda match: int(match["minute"])),
    ("ORDINAL", r"(?P<number>[0-9]{1,9})(st|nd|rd|th)\b", lambda match: int(match[1])),
    ("NUMBER", r"[0-9]{1,9}\.[0-9]{1,6}(?!\w)", lambda match: float(match[0])),
    (
        "NUMBER",
        # Units may follow at once: 5min, 90s.
        r"[0-9]{1,18}(?![\w.])|[0-9]{1,18}(?=\.?(\s|$))"
        r"|[0-9]{1,18}(?=(ms|s|secs?|m|mins?|h|hrs?|d|w)\b)",
        lambda match: int(match[0]),
    ),
    ("NAME", r'"[^"]+"', lambda match: match[0][1:-1]),
    ("NAME", r"[^\W\d_][\w'.-]*", lambda match: match[0]),
    ("COMMA", r"[,;]", lambda match: None),
    ("OPEN", r"\(", lambda match: None),
    ("CLOSE", r"\)", lambda match: None),
    ("TO", r"[-–]", lambda match: None),
)
_SPACE = re.compile(r"\s+|\.(?=\s|$)")
_COMPILED = [
    (type, re.compile(pattern, re.IGNORECASE), value)
    for type, pattern, value in _SHAPES
]


def _split(text: str) -> Iterator[Word]:
    at = 0
    while at < len(text):
        if (space := _SPACE.match(text, at)) is not None:
            at = space.end()
            continue
        word = _word_at(text, at)
        if word is None:
            raise PhraseError(f"{text[at]!r} is no part of a phrase", at)
        yield from _unhyphened(word)
        at = word.end


def _word_at(text: str, at: int) -> Word | None:
    for type, pattern, value in _COMPILED:
        if (match := pattern.match(text, at)) is None:
            continue
        if type == "SLASHED":
            raise PhraseError(
                f'"{match[0]}" may be read day first or month first: write it as in'
                " 2030-12-31 or 31 december",
                at,
            )
        try:
            return Word(type, value(match), match[0], at, match.end())
        except ValueError as error:
            raise PhraseError(f'"{match[0]}" does not exist: {error}', at) from None
    return None


def _unhyphened(word: Word) -> Iterator[Word]:
    """The words that hyphens join, as in ``mon-fri``, unless they make a name."""
    parts = word.text.lower().rstrip(".").split("-")
    is_one = (word.text.lower(),) in VOCABULARY
    if (
        word.type != "NAME"
        or is_one
        or not all((part,) in VOCABULARY for part in parts)
    ):
        yield word
        return
    at = word.start
    for number, part in enumerate(parts):
        if number:
            yield Word("TO", None, "-", at - 1, at)
        yield Word("NAME", part, part, at, at + len(part))
        at += len(part) + 1


_LONGEST_ENTRY = max(map(len, VOCABULARY))


def _known(words: Sequence[Word], text: str) -> Iterator[Word]:
    """The words with their meanings, the longest entries of the vocabulary first."""
    at = 0
    while at < len(words):
        word, count = _entry_at(words, at, text)
        at += count
        yield word


def _entry_at(words: Sequence[Word], at: int, text: str) -> tuple[Word, int]:
    first = words[at]
    if first.type == "NUMBER" and isinstance(first.value, int):
        return _number(words, at)
    if first.type != "NAME" or first.text.startswith('"'):
        return first, 1
    for count in range(_LONGEST_ENTRY, 0, -1):
        some = words[at : at + count]
        entry = VOCABULARY.get(tuple(each.text.lower().rstrip(".") for each in some))
        if entry is not None and len(some) == count:
            start, end = first.start, some[-1].end
            word = Word(*entry, text[start:end], start, end)
            if word.type == "MINUTE":
                _check_hour(word, words[at + count : at + count + 1])
            if word.type == "NUMBER" and _is_times(words, at + count):
                end = words[at + count].end
                text = text[start:end]
                return Word("COUNT", word.value, text, start, end), count + 1
            return word, count
    if (readings := AMBIGUOUS.get(first.text.lower())) is not None:
        raise PhraseError(ambiguous(first.text, readings), first.start)
    return first, 1


def _check_hour(minute: Word, after: Sequence[Word]) -> None:
    """Refuse an hour after its minutes, as in ``half past nine``: there are two."""
    text = after[0].text.lower() if after else ""
    _, hour = VOCABULARY.get((text,), ("", int(text) if text.isdecimal() else 0))
    if not isinstance(hour, int) or not 1 <= hour <= 12:
        return
    first = (hour - (minute.value == 45)) % 12
    readings = [f"{each:02}:{minute.value}" for each in (first, first + 12)]
    raise PhraseError(ambiguous(f"{minute.text} {text}", readings), minute.start)


def _number(words: Sequence[Word], at: int) -> tuple[Word, int]:
    number = words[at]
    after = words[at + 1].text.lower() if at + 1 < len(words) else ""
    if _is_times(words, at + 1):
        end = words[at + 1].end
        return Word(
            "COUNT", number.value, f"{number.text} {after}", number.start, end
        ), 2
    if after in ("o'clock", "oclock"):
        return number, 2
    if len(number.text) == 4 and VOCABULARY.get((after,), ("",))[0] != "UNIT":
        return number._replace(type="YEAR"), 1
    return number, 1


def _is_times(words: Sequence[Word], at: int) -> bool:
    return at < len(words) and words[at].text.lower() in ("times", "time")


def ambiguous(text: str, readings: Sequence[str]) -> str:
    """The message for what may be read in several ways."""
    return f'"{text}" is not clear: write {" or ".join(map(repr, readings))}'


_LISTS = (
    {"TIME", "NUMBER"},
    {"WEEKDAY"},
    {"ORDINAL"},
    {"MONTH"},
    {"DATE", "INSTANT"},
    {"NAME"},
    {"MINUTE"},
    {"YEAR"},
)
# The last word of an item, and the first of the next, where they differ in kind.
_CROSSING = {
    ("WEEKDAY", "ORDINAL"),
    ("UNIT", "ORDINAL"),
    ("MONTH", "NUMBER"),
    ("MONTH", "ORDINAL"),
    ("NUMBER", "MONTH"),
    ("ORDINAL", "MONTH"),
}
_AFTER_ORDINAL = {"WEEKDAY", "UNIT", "MONTH", "OF", "TO"}


def _with_ordinals(words: Sequence[Word]) -> Sequence[Word]:
    """The words, where each ``second`` is either a unit or an ordinal."""
    types = [each.type for each in words]
    return [
        word._replace(type="UNIT", value="second")
        if word.text.lower() == "second" and not _has_ordinal(types[number + 1 :])
        else word
        for number, word in enumerate(words)
    ]


def _has_ordinal(after: Sequence[str]) -> bool:
    """Whether what follows a word lets that be an ordinal."""
    match after:
        case ["AND" | "COMMA", *_]:
            rest = [each for each in after if each not in ("AND", "COMMA", "FILLER")]
            return rest[:1] == ["ORDINAL"]
        case [first, *_]:
            return first in _AFTER_ORDINAL
    return False


def _without_commas(words: Sequence[Word]) -> Sequence[Word]:
    """The words that count: what joins a list is AND, what joins phrases is ALSO."""
    words = [each for each in words if each.type != "FILLER"]
    whenever = any(each.type == "WHENEVER" for each in words)
    found: list[Word] = []
    for number, word in enumerate(words):
        if word.type not in ("COMMA", "AND"):
            found.append(word)
            continue
        after = words[number + 1] if number + 1 < len(words) else None
        if word.type == "COMMA" and after is not None and after.type == "AND":
            continue
        if found and after is not None and _goes_on(found[-1].type, after.type):
            found.append(word._replace(type="AND"))
        elif word.type == "AND" or whenever:
            found.append(word._replace(type="ALSO"))
    return found


def _goes_on(before: str, after: str) -> bool:
    return (before, after) in _CROSSING or any(
        before in kinds and after in kinds for kinds in _LISTS
    )
