"""From the text of a phrase to its parts, by the grammar."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedToken, VisitError
from lark.lexer import Lexer

from go_scheduler.triggers.phrases.parts import (
    AllOf,
    AnyOf,
    Every,
    Moment,
    Nth,
    Parts,
    YearDay,
)
from go_scheduler.triggers.phrases.words import PhraseError, Word, ambiguous, read_words
from go_scheduler.triggers.words import MONTHS, WEEKDAYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lark.common import LexerConf

    from go_scheduler.triggers.phrases.parts import Phrase

Said: TypeAlias = Mapping[str, object]
"""The answer of one rule of the grammar, by the names of ``Parts``."""


def values_of(children: Sequence[Any]) -> list[Any]:
    """The values that the words of a list stand for."""
    return [
        each.value if isinstance(each, Word) else each
        for each in children
        if type_of(each) not in ("AND", "AT")
    ]


def type_of(child: object) -> str | None:
    """The terminal of a word; None for what has been read already."""
    return child.type if isinstance(child, Word) else None


class BoundsReader(Transformer[Token, object]):
    """Reads at what time, and within which bounds."""

    def at(self, children: list[Any]) -> Said:
        """Times of day."""
        return {"times": tuple(values_of(children))}

    def past(self, children: list[Any]) -> Said:
        """Minutes of the hour."""
        minutes = [each.value for each in children if each.type in ("MINUTE", "NUMBER")]
        units = [each.value for each in children if each.type == "UNIT"]
        if any(minute not in range(60) for minute in minutes):
            raise PhraseError(f"{minutes[0]} is no minute of the hour: write 0 to 59")
        if units not in ([], ["hour"], ["minute", "hour"]):
            raise PhraseError("only minutes past the hour can be given")
        return {"minutes": tuple(minutes)}

    def window(self, children: list[Any]) -> Said:
        """The first and the last time of day."""
        first, last = (
            each.value for each in children if each.type in ("TIME", "NUMBER")
        )
        return {"window": (first, last)}

    def part(self, children: list[Any]) -> Said:
        """In which part of the day."""
        return {"part": children[0].value}

    def aligned(self, children: list[Any]) -> Said:
        """By the clock on the wall, and at which minute of the hour."""
        minute = children[0].value
        return {"aligned": True} if minute is None else {"minutes": (minute,)}

    def except_weekdays(self, children: list[Any]) -> Said:
        """Not on some days of the week."""
        said = children[-1]
        return {"excluded": {name: said[name] for name in said if name != "lone"}}

    except_months = except_dates = except_group = except_weekdays

    def except_names(self, children: list[Any]) -> Said:
        """Not on the days of some calendars."""
        return {"excluded": {"names": children[-1]}}

    def only_names(self, children: list[Any]) -> Said:
        """On the days of some calendars."""
        return {"names": children[-1]}

    def names(self, children: list[Any]) -> Sequence[str]:
        """The names of calendars."""
        return tuple(values_of(children))

    def starting(self, children: list[Any]) -> Said:
        """When it starts."""
        return {"starting": children[1]}

    def span(self, children: list[Any]) -> Said:
        """When it starts and when it ends."""
        return {"starting": children[1], "until": children[3]}

    def until(self, children: list[Any]) -> Said:
        """When it ends."""
        return {"until": children[1]}

    def moment(self, children: list[Any]) -> Moment:
        """A day, a time of it, or both."""
        said: dict[str, Any] = {}
        for each in children:
            match each:
                case YearDay():
                    said["day"] = each
                case Word("TIME", value):
                    said["time"] = value
                case Word("INSTANT" | "DATE" | "TODAY" | "WEEKDAY", value):
                    said["day"] = value
        return Moment(**said)

    def in_duration(self, children: list[Any]) -> Moment:
        """So long from now."""
        return Moment(length=Every(children[1].value, children[2].value))

    def lasting(self, children: list[Any]) -> Said:
        """How long it goes on."""
        return {"lasting": Every(children[1].value, children[2].value)}

    def count(self, children: list[Any]) -> Said:
        """How many times it fires."""
        return {"count": children[0].value}

    def from_now(self, children: list[Any]) -> Said:
        """That it starts when it is scheduled."""
        return {"from_now": True}


class DaysReader(Transformer[Token, object]):
    """Reads on which days."""

    def weekdays(self, children: list[Any]) -> Said:
        """Days of the week."""
        days = frozenset().union(*values_of(children))
        if len(children) == 1 and len(days) == 1 and not _is_plural(children[0]):
            return {"weekdays": days, "lone": children[0].text}
        return {"weekdays": days}

    def weekday_range(self, children: list[Any]) -> frozenset[int]:
        """From one day of the week to another."""
        first, last = (each for each in children if each.type == "WEEKDAY")
        ((low,), (high,)) = _single(first), _single(last)
        if low == high:
            raise PhraseError(
                f'"{first.text} to {last.text}" is one day: write "every {first.text}"',
                first.start,
            )
        return frozenset((low + step) % 7 for step in range((high - low) % 7 + 1))

    def nth(self, children: list[Any]) -> Said:
        """Days of the month, and of which months; or a step, as in ``third hour``."""
        match children:
            case [[[number], Word("UNIT", unit), _]] if number > 1:
                return {"step": Every(number, unit)}
            case [Word("MONTH_END")]:
                return {"nth": (Nth(-1),), "every": Every(1, "month")}
        scope: Said = {}
        found: list[Nth] = []
        pending: list[int] = []
        for each in children:
            if isinstance(each, dict):
                scope = each
            elif isinstance(each, list):
                days, kind, _ = each
                pending += days
                if kind is not None:
                    found += [Nth(day, _kind(kind)) for day in pending]
                    pending = []
        found += [Nth(day) for day in pending]
        if len(found) == 1 and not scope:
            return {"nth": tuple(found), "lone": children[0][-1]}
        return _date_of(found, scope) or {"nth": tuple(found), **scope}

    def nth_day(self, children: list[Any]) -> list[Any]:
        """One of the days of the month."""
        ordinal, *kind = children
        if not ordinal.value:
            raise PhraseError(f'"{ordinal.text}" is none: days begin with the first')
        text = " ".join(each.text for each in children)
        return [[ordinal.value], kind[0] if kind else None, text]

    def nth_range(self, children: list[Any]) -> list[Any]:
        """From one day of the month to another."""
        first, _, last = children
        if not 0 < first.value < last.value:
            raise PhraseError(
                f'"{first.text} to {last.text}" runs backwards', first.start
            )
        text = f"{first.text} to {last.text}"
        return [list(range(first.value, last.value + 1)), None, text]

    def scope(self, children: list[Any]) -> Said:
        """The months that days are counted in."""
        match [each for each in children[1:] if type_of(each) != "EVERY"]:
            case [Word("UNIT", unit)]:
                return {"every": Every(1, unit)}
            case [Word("OTHER"), Word("UNIT", unit)]:
                return {"every": Every(2, unit)}
            case [Word("NUMBER" | "ORDINAL", count), Word("UNIT", unit)]:
                return {"every": Every(count, unit)}
            case [{"months": months}, Word("YEAR", year)]:
                return {"months": months, "years": (year,)}
        return {"months": children[-1]["months"]}

    def dates(self, children: list[Any]) -> Said:
        """Dates of the year."""
        return {"dates": tuple(each for each in children if isinstance(each, YearDay))}

    def date(self, children: list[Any]) -> YearDay:
        """A date of every year, or of one."""
        day, month, *year = sorted(children, key=_date_order)
        _check_date(day.value, month.value)
        return YearDay(day.value, month.value, year[0].value if year else None)

    def months(self, children: list[Any]) -> Said:
        """In which months."""
        match children:
            case [_, first, _, last]:
                return {"months": _month_span(first.value, last.value)}
        return {"months": children[-1]["months"]}

    def month_list(self, children: list[Any]) -> Said:
        """Several months."""
        found: set[int] = set()
        for each in children:
            if isinstance(each, frozenset):
                found |= each
            elif each.type == "MONTH":
                found.add(each.value)
        return {"months": frozenset(found)}

    def month_range(self, children: list[Any]) -> frozenset[int]:
        """From one month to another."""
        return _month_span(children[0].value, children[2].value)

    def years(self, children: list[Any]) -> Said:
        """In which years."""
        years = [each.value for each in children if each.type == "YEAR"]
        if any(each.type == "TO" for each in children):
            years = list(range(years[0], years[1] + 1))
            if not years:
                raise PhraseError("its years run backwards")
        return {"years": tuple(sorted(set(years)))}


def _is_plural(word: Word) -> bool:
    text = word.text.lower()
    return len(text) > 5 and text.endswith("s")


def _single(word: Word) -> frozenset[int]:
    days: frozenset[int] = word.value
    if len(days) != 1:
        raise PhraseError(f'a range cannot begin or end with "{word.text}"', word.start)
    return days


def _kind(word: Word) -> frozenset[int] | None:
    if word.type == "WEEKDAY":
        if len(word.value) == 2:
            readings = ("the first saturday of the month", "the first sunday")
            raise PhraseError(ambiguous(f"first {word.text}", readings))
        return cast("frozenset[int]", word.value)
    if word.value == "day":
        return None
    raise PhraseError(
        f'"{word.text}" is no kind of day: write one such as "day", "friday" or'
        ' "weekday"',
        word.start,
    )


def _date_of(days: Sequence[Nth], scope: Mapping[str, Any]) -> Said | None:
    """A day of one month, as in ``5th of june``: a date as any other."""
    months = scope.get("months", ())
    if len(days) > 1 or len(months) != 1 or days[0].weekdays or days[0].number < 1:
        return None
    (month,), (year,) = months, scope.get("years", (None,))
    _check_date(days[0].number, month)
    return {"dates": (YearDay(days[0].number, month, year),)}


def _check_date(day: object, month: int) -> None:
    last = 31 if month != 2 else 29
    if not isinstance(day, int) or not 1 <= day <= last:
        raise PhraseError(f"{day} {MONTHS[month - 1]} does not exist")


def _date_order(word: Word) -> int:
    return {"MONTH": 1, "YEAR": 2}.get(word.type, 0)


def _month_span(first: int, last: int) -> frozenset[int]:
    return frozenset(
        (first - 1 + step) % 12 + 1 for step in range((last - first) % 12 + 1)
    )


class PartsReader(DaysReader, BoundsReader):
    """Reads a parsed phrase from its leaves up; each trigger in it is ``Parts``."""

    def __default_token__(self, token: Token) -> object:
        return token.value

    def start(self, children: list[Any]) -> object:
        """The whole phrase."""
        return children[0]

    def any_of(self, children: list[Any]) -> object:
        """Several phrases, of which each says when."""
        return AnyOf(children[::2])

    def all_of(self, children: list[Any]) -> object:
        """Several phrases that have to agree."""
        return AllOf(children[1::2])

    def trigger(self, children: list[Any]) -> Parts:
        """One phrase."""
        parts = Parts()
        for each in children:
            if "step" in each:
                raise PhraseError("write 'every' before a number of units")
            if "every" in each and parts.count is not None:
                raise PhraseError(_times_before_every(parts.count))
            parts.add(each)
        return parts

    def group(self, children: list[Any]) -> Said:
        """A phrase in brackets."""
        return {"group": children[1]}

    def every(self, children: list[Any]) -> Said:
        """``every`` and what follows it."""
        first, *rest = children
        if first.type == "ADVERB":
            return {"every": Every(1, first.value)}
        if first.type == "OTHER":
            return _every_other(rest[0]["weekdays"])
        if first.type == "NIGHTLY":
            return {"every": Every(1, "day"), "part": "night"}
        if first.type == "DAY_PARTS":
            return {"every": Every(1, "day"), "part": first.value}
        match rest:
            case [Word("UNIT", unit)]:
                return {"every": Every(1, unit)}
            case [Word("NUMBER", count), Word("UNIT", unit)]:
                return {"every": Every(count, unit)}
            case [Word("HALF", count), Word("UNIT", unit)]:
                return {"every": Every(count, unit)}
            case [Word("OTHER"), Word("UNIT", unit)]:
                return {"every": Every(2, unit)}
            case [Word("OTHER"), {"weekdays": days}]:
                return _every_other(days)
            case [Word("PART", part)]:
                return {"every": Every(1, "day"), "part": part}
            case [{"nth": _} as said]:
                return _every_nth(said)
            case [{"months": months}]:
                return {"months": months, "every": Every(1, "year")}
            case [{"step": step}]:
                return {"every": step}
            case [{"dates": dates}]:
                return {"dates": dates, "every": Every(1, "year")}
        return {"weekdays": rest[0]["weekdays"]}

    def often(self, children: list[Any]) -> Said:
        """So many times in each unit, which are named as well."""
        count, *number, unit = children
        if any(each.type == "NUMBER" and each.value != 1 for each in number):
            raise PhraseError("write how many times 'a day', 'a week' or 'a month'")
        return {"often": count.value, "every": Every(1, unit.value)}

    def day(self, children: list[Any]) -> Said:
        """One day, or one instant."""
        match children[-1]:
            case Word("TONIGHT"):
                return {"day": Moment(day=0), "part": "evening"}
            case Word("PART", part):
                return {"day": Moment(day=0), "part": part}
        return {"day": Moment(day=children[-1].value)}

    def later(self, children: list[Any]) -> Said:
        """How much later than now."""
        count, unit, *day = (
            each
            for each in children
            if each.type in ("NUMBER", "HALF", "UNIT", "TODAY")
        )
        length = Every(count.value, unit.value)
        if day and day[0].value:
            return {"later": _days_from(day[0].value, length)}
        return {"later": length}

    def delay(self, children: list[Any]) -> Said:
        """How long after each run."""
        return {"delay": Every(children[0].value, children[1].value)}


def _days_from(ahead: int, length: Every) -> Every:
    """How many days from today it is from another day on."""
    days = {"day": 1, "week": 7, "fortnight": 14}.get(length.unit)
    if days is None:
        raise PhraseError(
            "from another day than today only days and weeks can be counted"
        )
    return Every(length.number * days + ahead, "day")


def _every_other(days: frozenset[int]) -> Said:
    if len(days) == 5:
        raise PhraseError(
            ambiguous(
                "every other weekday",
                ("every monday, wednesday and friday", "every 2 weeks on weekdays"),
            )
        )
    return {"every": Every(2, "week"), "weekdays": days}


def _every_nth(said: Mapping[str, Any]) -> Said:
    """``every first monday``: of every month, unless it may mean a step as well."""
    if "every" in said or "months" in said:
        return said
    [nth, *more] = said["nth"]
    if more or nth.number in (1, -1):
        return {"nth": said["nth"], "every": Every(1, "month")}
    text = said["lone"]
    readings = [f"the {text} of every month"]
    if nth.weekdays is None:
        readings.insert(0, f"every {nth.number} days")
    elif len(nth.weekdays) == 1:
        day = WEEKDAYS[min(nth.weekdays)]
        readings.append(f"every {nth.number} weeks on {day}")
    raise PhraseError(ambiguous(f"every {text}", readings))


def _times_before_every(count: int) -> str:
    """The message for a number of times that may be those of each day or all."""
    if count == 1:
        return ambiguous("once", ("once every …", "every …, once"))
    in_all = f"every …, {count} times"
    return ambiguous(f"{count} times", (in_all, "every … at 09:00 and 17:00"))


# The terminals in words, for the message that tells which may stand at a place.
_EXPECTED = {
    "NUMBER": "a number",
    "UNIT": "a unit such as minutes",
    "WEEKDAY": "a day of the week",
    "ORDINAL": "an ordinal such as first",
    "MONTH": "a month",
    "TIME": "a time such as 09:00 or 5pm",
    "DATE": "a date such as 2030-12-31",
    "NAME": "the name of a calendar",
    "EVERY": "'every'",
    "AT": "'at'",
    "OF": "'of'",
    "OR": "'or'",
    "TO": "'to'",
    "$END": "the end",
}


def read_phrase(text: str) -> Phrase:
    """The parts of a phrase.

    Raises:
        PhraseError: The grammar has no such phrase.
    """
    words = read_words(text)
    if not words:
        raise PhraseError("it is empty; write one such as 'every weekday at 09:00'")
    try:
        tree = _parser().parse(words)
        return cast("Phrase", PartsReader().transform(tree))
    except UnexpectedToken as error:
        raise _unexpected(error, text) from None
    except VisitError as error:
        raise error.orig_exc from None


def _unexpected(error: UnexpectedToken, text: str) -> PhraseError:
    expected = [words for type, words in _EXPECTED.items() if type in error.accepts]
    known = f"expected {', '.join(expected[:-1])}{' or ' if expected[:-1] else ''}"
    known += expected[-1] if expected else ""
    word = cast("object", error.token.value)
    if not expected:
        known = "write it as another phrase"
    if isinstance(word, Word) and word.type == "ALSO":
        known = "two phrases are joined by 'or'"
    if isinstance(word, Word):
        return PhraseError(f'"{word.text}" does not fit there: {known}', word.start)
    return PhraseError(f"it ends too early: {known}", len(text))


class PhraseLexer(Lexer):
    """Hands the words of a phrase to the parser.

    Args:
        config: The parser's; nothing of it is needed.
    """

    def __init__(self, config: LexerConf) -> None:
        del config

    def lex(self, words: Sequence[Word]) -> Iterator[Token]:  # type: ignore[override]
        """One token a word, whose value is the word."""
        for word in words:
            yield Token(word.type, word, word.start)


@lru_cache(maxsize=1)
def _parser() -> Lark:
    grammar = files(__package__).joinpath("grammar.lark").read_text("utf-8")
    return Lark(grammar, parser="lalr", lexer=PhraseLexer)
