"""From a parsed phrase to its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from lark import Token, Transformer

from go_scheduler.triggers.phrases.parts import (
    AllOf,
    AnyOf,
    Every,
    Moment,
    Nth,
    Parts,
    YearDay,
)
from go_scheduler.triggers.phrases.phrase_words import PhraseError, Word, ambiguous
from go_scheduler.triggers.words import MONTHS

if TYPE_CHECKING:
    from collections.abc import Sequence

Said = Mapping[str, object]
"""What one part of a phrase says, by the names of ``Parts``."""


class PartsReader(Transformer[Token, object]):
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
        """What stands in brackets."""
        return {"group": children[1]}

    # How often.

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

    # On which days.

    def weekdays(self, children: list[Any]) -> Said:
        """Days of the week."""
        days = frozenset().union(*_values(children))
        if len(children) == 1 and len(days) == 1 and not _is_plural(children[0]):
            return {"weekdays": days, "lone": children[0].text}
        return {"weekdays": days}

    def weekday_range(self, children: list[Any]) -> frozenset[int]:
        """From one day of the week to another."""
        first, last = (each for each in children if each.type == "WEEKDAY")
        ((low,), (high,)) = _single(first), _single(last)
        return frozenset((low + step) % 7 for step in range((high - low) % 7 + 1))

    def nth(self, children: list[Any]) -> Said:
        """Days of the month, and of which months; or a step, as in ``third hour``."""
        match children:
            case [[[number], Word("UNIT", unit)]] if number > 1:
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
                days, kind = each
                pending += days
                if kind is not None:
                    found += [Nth(day, _kind(kind)) for day in pending]
                    pending = []
        found += [Nth(day) for day in pending]
        if len(found) == 1 and not scope:
            return {"nth": tuple(found), "lone": "one day of a month"}
        return _date_of(found, scope) or {"nth": tuple(found), **scope}

    def nth_day(self, children: list[Any]) -> list[Any]:
        """One of the days of the month."""
        ordinal, *kind = children
        if not ordinal.value:
            raise PhraseError(f'"{ordinal.text}" is none: days begin with the first')
        return [[ordinal.value], kind[0] if kind else None]

    def nth_range(self, children: list[Any]) -> list[Any]:
        """From one day of the month to another."""
        first, _, last = children
        if not 0 < first.value < last.value:
            raise PhraseError(
                f'"{first.text} to {last.text}" runs backwards', first.start
            )
        return [list(range(first.value, last.value + 1)), None]

    def scope(self, children: list[Any]) -> Said:
        """Of which months."""
        match [each for each in children[1:] if _type(each) != "EVERY"]:
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

    # At what time.

    def at(self, children: list[Any]) -> Said:
        """Times of day."""
        return {"times": tuple(_values(children))}

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

    # Within which bounds.

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
        return tuple(_values(children))

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

    # Once, and after each run.

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


def _values(children: Sequence[Any]) -> list[Any]:
    """What the words of a list stand for."""
    return [
        each.value if isinstance(each, Word) else each
        for each in children
        if _type(each) not in ("AND", "AT")
    ]


def _days_from(ahead: int, length: Every) -> Every:
    """How many days from today it is from another day on."""
    days = {"day": 1, "week": 7, "fortnight": 14}.get(length.unit)
    if days is None:
        raise PhraseError(
            "from another day than today only days and weeks can be counted"
        )
    return Every(length.number * days + ahead, "day")


def _type(child: object) -> str | None:
    return child.type if isinstance(child, Word) else None


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
    """``every third`` of something, which may mean two things."""
    if "every" in said or "months" in said:
        return said
    [nth, *more] = said["nth"]
    if not more and nth.weekdays is None and nth.number > 1:
        raise PhraseError(
            ambiguous(
                f"every {nth.number}th",
                (f"every {nth.number} days", f"day {nth.number} of every month"),
            )
        )
    raise PhraseError(
        ambiguous(
            "every so many of some days",
            ("the second tuesday of every month", "every 2 weeks on tuesday"),
        )
    )


def _times_before_every(count: int) -> str:
    """The message for a number of times that may be those of each day or all."""
    if count == 1:
        return ambiguous("once", ("once every …", "every …, once"))
    in_all = f"every …, {count} times"
    return ambiguous(f"{count} times", (in_all, "every … at 09:00 and 17:00"))


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
