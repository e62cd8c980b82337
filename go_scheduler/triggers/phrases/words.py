"""The words of phrases: what each stands for, and how a text is split into them."""

from __future__ import annotations

import re
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any, NamedTuple

from go_scheduler.triggers.base import RefusedError
from go_scheduler.triggers.words import MONTHS, WEEKDAYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# The terminals of the grammar whose words have no value.
_PLAIN = {
    "AFTER_RUN": "after each run,after every run,after each run ends",
    "AND": "and",
    "AT": "at",
    "BETWEEN": "between",
    "EVERY": "every,each,once every,once each,once a,once an,once per,per",
    "EXCEPT": "except,and except,except for,but not,excluding",
    "FILLER": "on,the",
    "FOR": "for,for the next",
    "FROM": "from",
    "FROM_NOW": "from now on",
    "HENCE": "from now,from right now",
    "IN": "in,during",
    "MONTH_END": "month end,month-end,every month end,each month end",
    "OF": "of",
    "ONLY": "only on,days of,on days of",
    "ON_CLOCK": "on the clock",
    "OR": "or",
    "OTHER": "other,alternate",
    "PAST": "past,after",
    "STARTING": "starting,starting from,starting at,beginning,beginning at",
    "THIS": "this,this coming",
    "TO": "to,through",
    "UNTIL": "until,till",
    "WHENEVER": "whenever both,whenever all of",
}
# Each with how often it makes of something.
_UNITS = {
    "microsecond": ("microsecond,microseconds", ""),
    "millisecond": ("millisecond,milliseconds,ms", ""),
    "second": ("seconds,sec,secs,s", ""),
    "minute": ("minute,minutes,min,mins", "minutely"),
    "hour": ("hour,hours,hr,hrs,h", "hourly"),
    "day": ("day,days,d", "daily,everyday"),
    "week": ("week,weeks,w", "weekly"),
    "fortnight": ("fortnight,fortnights", "fortnightly"),
    "month": ("month,months", "monthly"),
    "year": ("year,years", "yearly,annually"),
}
_NUMBERS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
    " fifteen sixteen seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
    " thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth"
    " twentieth twenty-first twenty-second twenty-third twenty-fourth twenty-fifth"
    " twenty-sixth twenty-seventh twenty-eighth twenty-ninth thirtieth thirty-first"
)


def _entries() -> Iterator[tuple[str, str, object]]:
    """Each terminal with its spellings, and the value that these stand for."""
    for terminal, spellings in _PLAIN.items():
        yield terminal, spellings, None
    for month in ("month", "the month", "each month", "every month"):
        end = f"end of {month}"
        yield "MONTH_END", f"{end},at {end},at the {end}", None
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
    yield "TODAY", "today", 0
    yield "TODAY", "tomorrow", 1
    for unit, (spellings, adverbs) in _UNITS.items():
        yield "UNIT", spellings, unit
        for adverb in filter(None, adverbs.split(",")):
            yield "ADVERB", f"{adverb},once {adverb}", unit
    for text, number in _numbers():
        yield "NUMBER", text, number
        yield "COUNT", f"{text} times,{text} time", number
    yield "COUNT", "once", 1
    yield "COUNT", "twice", 2
    for number, text in enumerate(_ORDINALS.split(), 1):
        yield "ORDINAL", f"{text},{text.replace('-', ' ')}", number
    yield "ORDINAL", "last", -1
    yield "HALF", "half,half an,half a", 0.5
    yield "HALF", "quarter,quarter of an,a quarter,a quarter of an", 0.25
    for part in ("morning", "afternoon", "evening", "night"):
        yield "PART", part, part
        yield "DAY_PARTS", f"{part}s,in the {part}s", part
        yield "IN_PART", f"in the {part},at {part}", part
    yield "DAY_PARTS", "nightly,once nightly", "night"
    yield "TONIGHT", "tonight", "evening"
    for words, minute in (("quarter past", 15), ("half past", 30), ("quarter to", 45)):
        for after in ("", " the hour", " each hour", " every hour"):
            yield "MINUTE", f"{words}{after},a {words}{after}", minute
    yield "ON_HOUR", "on the hour", 0
    yield "ON_HOUR", "on the half hour", 30
    yield "TIME", "noon,midday", time(12)
    yield "TIME", "midnight", time(0)


def _numbers() -> Iterator[tuple[str, int]]:
    """The numbers below a hundred, in words."""
    yield from {"a": 1, "an": 1}.items()
    below_twenty = _NUMBERS.split()
    for number, text in enumerate(below_twenty, 1):
        yield text, number
    for tens, text in enumerate(_TENS.split(), 2):
        yield text, 10 * tens
        for ones, more in enumerate(below_twenty[:9], 1):
            yield f"{text} {more}", 10 * tens + ones
            yield f"{text}-{more}", 10 * tens + ones


_VOCABULARY: Mapping[tuple[str, ...], tuple[str, object]] = {
    tuple(spelling.split()): (terminal, value)
    for terminal, spellings, value in _entries()
    for spelling in spellings.split(",")
}
_LONGEST_ENTRY = max(map(len, _VOCABULARY))

# Words that people read in several ways, and what to write instead.
_AMBIGUOUS = {
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


def ambiguous(text: str, readings: Sequence[str]) -> str:
    """The message for what may be read in several ways."""
    return f'"{text}" is not clear: write {" or ".join(map(repr, readings))}'


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
    words = list(_with_meanings(list(_split(text)), text))
    return _without_commas(list(_in_context(words)))


def _time_of(text: str) -> time:
    hour, minute, second, *_ = *map(int, re.findall("[0-9]+", text)), 0, 0
    half = re.search("[ap]", text.lower())
    if half is not None:
        if not 1 <= hour <= 12:
            raise ValueError(f"hour {hour} is not in 1–12 with am or pm")
        hour = hour % 12 + (12 if half[0] == "p" else 0)
    # Without am or pm, a part of the day may say that it is the later one.
    return time(hour, minute, second, fold=half is None)


# Times, dates, names and marks, and what makes a value of their first group. A match of
# SLASHED is no word, but a mistake.
_SHAPES = [
    (type, re.compile(pattern, re.IGNORECASE), value)
    for type, pattern, value in (
        (
            "INSTANT",
            r"([0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}"
            r"(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?)(?!\w)",
            lambda text: datetime.fromisoformat(text.upper()),
        ),
        ("DATE", r"([0-9]{4}-[0-9][0-9]-[0-9][0-9])(?!\w)", date.fromisoformat),
        (
            "SLASHED",
            r"([0-9]{1,4}[/.][0-9]{1,2}[/.][0-9]{1,4}|[0-9]{1,2}/[0-9]{1,2}(?!\w))",
            str,
        ),
        (
            "TIME",
            r"([0-9]{1,2}([:.][0-9][0-9](:[0-9][0-9])?)?\s?[ap]\.?m\b\.?"
            r"|[0-9]{1,2}:[0-9][0-9](:[0-9][0-9])?(?!\w))",
            _time_of,
        ),
        ("MINUTE", r":([0-5][0-9])(?!\w)", int),
        ("ORDINAL", r"([0-9]{1,9})(st|nd|rd|th)\b", int),
        ("COUNT", r"([0-9]{1,18})\.?\s+times?(?![\w'.-])", int),
        ("NUMBER", r"([0-9]{1,9}\.[0-9]{1,6})(?!\w)", float),
        (
            "NUMBER",
            # Units may follow at once: 5min, 90s.
            r"([0-9]{1,18})((?![\w.])|(?=\.?(\s|$))|(?=(ms|s|secs?|m|mins?|h|hrs?|d|w)\b))"
            r"(\.?\s+o'?clock(?![\w'.-]))?",
            int,
        ),
        ("NAME", r'"([^"]+)"', str),
        ("NAME", r"([^\W\d_]([\w'.-]*[\w'-])?)", str),
        ("COMMA", r"([,;])", None),
        ("OPEN", r"(\()", None),
        ("CLOSE", r"(\))", None),
        ("TO", r"([-–])", None),
    )
]
_SPACE = re.compile(r"\s+|\.+(?=[\s),;]|$)")


def _split(text: str) -> Iterator[Word]:
    """The words by their shapes; those without a shape of their own are names."""
    at = 0
    while at < len(text):
        if (space := _SPACE.match(text, at)) is not None:
            at = space.end()
            continue
        for type, pattern, value in _SHAPES:
            if (match := pattern.match(text, at)) is None:
                continue
            if type == "SLASHED":
                raise PhraseError(
                    f'"{match[0]}" may be read day first or month first: write it as in'
                    " 2030-12-31 or 31 december",
                    at,
                )
            try:
                meaning = None if value is None else value(match[1])
            except ValueError as error:
                raise PhraseError(f'"{match[0]}" does not exist: {error}', at) from None
            yield from _unhyphened(Word(type, meaning, match[0], at, match.end()))
            at = match.end()
            break
        else:
            raise PhraseError(f"{text[at]!r} is no part of a phrase", at)


def _unhyphened(word: Word) -> Iterator[Word]:
    """The words that hyphens join, as in ``mon-fri``, unless they make a name."""
    text = word.text.lower()
    parts = text.split("-")
    known = all((part,) in _VOCABULARY for part in parts)
    if word.type != "NAME" or (text,) in _VOCABULARY or not known:
        yield word
        return
    at = word.start
    for number, part in enumerate(parts):
        if number:
            yield Word("TO", None, "-", at - 1, at)
        yield Word("NAME", part, part, at, at + len(part))
        at += len(part) + 1


def _with_meanings(words: Sequence[Word], text: str) -> Iterator[Word]:
    """The words with their meanings, the longest entries of the vocabulary first."""
    keys = [each.text.lower() if each.type == "NAME" else "" for each in words]
    at = 0
    while at < len(words):
        word = words[at]
        end = at + 1
        if keys[at]:
            for end in range(min(at + _LONGEST_ENTRY, len(words)), at, -1):
                if (entry := _VOCABULARY.get(tuple(keys[at:end]))) is not None:
                    begin, stop = word.start, words[end - 1].end
                    word = Word(*entry, text[begin:stop], begin, stop)
                    break
            else:
                if (readings := _AMBIGUOUS.get(keys[at])) is not None:
                    raise PhraseError(ambiguous(word.text, readings), word.start)
        yield word
        at = end


_AFTER_ORDINAL = {"WEEKDAY", "UNIT", "MONTH", "OF", "TO"}


def _in_context(words: Sequence[Word]) -> Iterator[Word]:
    """The words, of which some have another meaning by what follows them."""
    types = [each.type for each in words]
    for number, word in enumerate(words):
        after = types[number + 1 :]
        if word.text.lower() == "second" and not _is_ordinal_before(after):
            yield word._replace(type="UNIT", value="second")
        elif word.type == "NUMBER" and re.fullmatch("[0-9]{4}", word.text):
            is_year = after[:1] != ["UNIT"]
            yield word._replace(type="YEAR") if is_year else word
        else:
            if word.type == "MINUTE" and after:
                _check_hour(word, words[number + 1])
            yield word


def _is_ordinal_before(after: Sequence[str]) -> bool:
    """Whether what follows a word lets that be an ordinal."""
    if after[:1] in (["AND"], ["COMMA"]):
        rest = [each for each in after if each not in ("AND", "COMMA", "FILLER")]
        return rest[:1] == ["ORDINAL"]
    return after[:1] != [] and after[0] in _AFTER_ORDINAL


def _check_hour(minute: Word, hour: Word) -> None:
    """Refuse an hour after its minutes, as in ``half past nine``: there are two."""
    is_word = hour.type == "ORDINAL" and hour.text.isalpha()
    if minute.text[0] == ":" or not (is_word or hour.type in ("NUMBER", "COUNT")):
        return
    if hour.value not in range(1, 13):
        return
    first = (hour.value - (minute.value == 45)) % 12
    readings = [f"{each:02}:{minute.value}" for each in (first, first + 12)]
    text = f"{minute.text} {hour.text.split()[0]}"
    raise PhraseError(ambiguous(text, readings), minute.start)


# What can be listed; and the last word of an item with the first of the next, where
# they differ.
_LISTED = {
    *("TIME", "NUMBER", "WEEKDAY", "ORDINAL", "MONTH"),
    *("DATE", "INSTANT", "NAME", "MINUTE", "YEAR"),
}
_CROSSING = {
    ("TIME", "NUMBER"),
    ("NUMBER", "TIME"),
    ("DATE", "INSTANT"),
    ("INSTANT", "DATE"),
    ("WEEKDAY", "ORDINAL"),
    ("UNIT", "ORDINAL"),
    ("MONTH", "NUMBER"),
    ("MONTH", "ORDINAL"),
    ("NUMBER", "MONTH"),
    ("ORDINAL", "MONTH"),
}


def _without_commas(words: Sequence[Word]) -> Sequence[Word]:
    """The words that count: what joins a list is AND, what joins phrases is ALSO."""
    words = [each for each in words if each.type != "FILLER"]
    whenever = any(each.type == "WHENEVER" for each in words)
    found: list[Word] = []
    for number, word in enumerate(words):
        if word.type not in ("COMMA", "AND"):
            found.append(word)
            continue
        before = found[-1].type if found else ""
        after = words[number + 1].type if number + 1 < len(words) else ""
        if word.type == "COMMA" and after == "AND":
            continue
        if (before == after and before in _LISTED) or (before, after) in _CROSSING:
            found.append(word._replace(type="AND"))
        elif word.type == "AND" or whenever:
            found.append(word._replace(type="ALSO"))
    return found
