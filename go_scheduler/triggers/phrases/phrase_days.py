"""Days, as cron expressions and recurrence rules write them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.shown import a
from go_scheduler.triggers.phrases.parts import EITHER_OR_BOTH, Every
from go_scheduler.triggers.phrases.phrase_words import PhraseError, ambiguous
from go_scheduler.triggers.phrases.times_of_day import field_of
from go_scheduler.triggers.recurrence.rrule_text import WEEKDAY_CODES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from go_scheduler.triggers.phrases.parts import Nth, Parts, YearDay

_CRON_DAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_ALL = frozenset(range(7))
_ALL_OF = {
    "hour": "every hour at :15 and :45",
    "day": "every day at 09:00 and 17:00",
    "week": "every monday and thursday at 09:00",
    "month": "the 1st and 15th of every month at 09:00",
    "year": "every 1 january and 1 july at 09:00",
}
_MONDAY_TO_FRIDAY = frozenset(range(5))


class Days(NamedTuple):
    """The three day fields of a cron expression."""

    of_month: str = "*"
    month: str = "*"
    of_week: str = "*"


def cron_days(parts: Parts) -> Sequence[Days] | None:
    """The days of a phrase for cron expressions; None: only a rule can say them.

    Raises:
        PhraseError: It says the days in two ways, or in none.
    """
    month = "*" if parts.months is None else field_of(sorted(parts.months))
    if parts.dates is not None:
        if parts.months is not None:
            raise PhraseError("it says twice in which months")
        _check_years(parts.dates)
        return [Days(str(each.day), str(each.month)) for each in parts.dates]
    if parts.nth is not None:
        return _cron_nth(parts.nth, month)
    if parts.weekdays is None or parts.weekdays == _ALL:
        return [Days(month=month)]
    return [Days(month=month, of_week=_cron_weekdays(parts.weekdays))]


def rule_days(parts: Parts) -> Iterator[str]:
    """The days of a phrase as parts of a recurrence rule."""
    if parts.weekdays is not None:
        yield f"BYDAY={_rule_weekdays(parts.weekdays)}"
    if parts.nth is not None:
        yield from _rule_nth(parts.nth)
    if parts.dates is not None:
        _check_years(parts.dates)
        days = {each.day for each in parts.dates}
        months = {each.month for each in parts.dates}
        if len(parts.dates) != len(days) * len(months):
            raise PhraseError("of several dates, write each with its own 'or'")
        yield f"BYMONTH={_listed(months)}"
        yield f"BYMONTHDAY={_listed(days)}"
    elif parts.months is not None:
        yield f"BYMONTH={_listed(parts.months)}"


def _check_years(dates: Sequence[YearDay]) -> None:
    if any(each.year is not None for each in dates):
        raise PhraseError("a date with its year comes once, and not every so often")


def whole_days(parts: Parts) -> Sequence[Days]:
    """The days of a phrase that names some to leave out."""
    found = cron_days(parts)
    assert found is not None, "nobody can leave out the nth day of a month"
    return found


def of_the_year(nth: Sequence[Nth]) -> frozenset[int]:
    """The month in which the first or the last days of a year are.

    Raises:
        PhraseError: They are in no month that is known without counting.
    """
    if all(each.number == -1 for each in nth):
        return frozenset({12})
    if all(1 <= each.number <= (31 if each.weekdays is None else 4) for each in nth):
        return frozenset({1})
    raise PhraseError("write of which month, not of the year")


def _cron_nth(nth: Sequence[Nth], month: str) -> Sequence[Days] | None:
    if all(each.weekdays is None for each in nth):
        numbers = sorted({each.number for each in nth if each.number > 0})
        texts = [field_of(numbers)] if numbers else []
        if any(each.number == -1 for each in nth):
            texts.append("L")
        return [Days(of_month=",".join(texts), month=month)]
    if all(each.weekdays is not None and len(each.weekdays) == 1 for each in nth):
        return [Days(month=month, of_week=",".join(map(_cron_nth_weekday, nth)))]
    if all(each.weekdays == _MONDAY_TO_FRIDAY for each in nth):
        near = {1: "1W", -1: "LW"}
        if all(each.number in near for each in nth):
            return [
                Days(of_month=",".join(near[each.number] for each in nth), month=month)
            ]
    return None


def _cron_nth_weekday(nth: Nth) -> str:
    assert nth.weekdays is not None
    (day,) = nth.weekdays
    if nth.number == -1:
        return f"{(day + 1) % 7}L"
    if not 1 <= nth.number <= 5:
        raise PhraseError(f"no month has {nth.number} of one day of the week")
    return f"{_CRON_DAYS[day]}#{nth.number}"


def _rule_nth(nth: Sequence[Nth]) -> Iterator[str]:
    if all(each.weekdays is None for each in nth):
        yield f"BYMONTHDAY={_listed({each.number for each in nth})}"
        return
    if all(each.weekdays is not None and len(each.weekdays) == 1 for each in nth):
        words = [
            f"{each.number}{WEEKDAY_CODES[day]}"
            for each in nth
            for day in each.weekdays or ()
        ]
        yield f"BYDAY={','.join(words)}"
        return
    kinds = {each.weekdays for each in nth}
    if len(kinds) > 1:
        raise PhraseError("of several kinds of days, write each with its own 'or'")
    (kind,) = kinds
    assert kind is not None
    yield f"BYDAY={_rule_weekdays(kind)}"
    yield f"BYSETPOS={_listed({each.number for each in nth})}"


def _cron_weekdays(days: frozenset[int]) -> str:
    if days == _MONDAY_TO_FRIDAY:
        return "MON-FRI"
    return ",".join(_CRON_DAYS[day] for day in sorted(days))


def _rule_weekdays(days: frozenset[int]) -> str:
    return ",".join(WEEKDAY_CODES[day] for day in sorted(days))


def _listed(numbers: frozenset[int] | set[int]) -> str:
    return ",".join(map(str, sorted(numbers, key=lambda each: (each < 0, each))))


def checked_days(parts: Parts) -> Parts:
    """The parts, which say on which days in one way.

    Raises:
        PhraseError: They say it in none or in several.
    """
    unit = "" if parts.every is None else parts.every.unit
    stepped = parts.every != Every(1, "week") and unit in ("day", "week", "fortnight")
    if parts.nth is not None and stepped:
        raise PhraseError(f"days of the month do not go with every so many {unit}s")
    ways = parts.given() & {"weekdays", "nth", "dates"}
    if len(ways) > 1:
        raise PhraseError(f"it says in several ways on which days: {EITHER_OR_BOTH}")
    if unit == "year" and parts.nth is not None and parts.months is None:
        parts = replace(parts, months=of_the_year(parts.nth))
    needed = {"week": {"weekdays"}, "fortnight": {"weekdays"}, "month": {"nth"}}
    needed["year"] = {"dates", "nth"}
    if parts.months is not None:
        needed["year"] |= {"weekdays"}
    if unit in needed and not ways & needed[unit]:
        raise PhraseError(f"it does not say on which day of the {unit}")
    if not unit and not ways and parts.months is None:
        raise PhraseError("it does not say on which days: write 'every day at …'")
    if not unit and parts.lone is not None and parts.months is None:
        if parts.nth is not None:
            raise PhraseError(
                "it may be one day or that of every month: write"
                f" 'the {parts.lone} of every month', or a date such as 2030-06-05"
            )
        text = parts.lone.lower()
        raise PhraseError(ambiguous(text, (f"every {text}", f"this {text}")))
    return parts


def check_often(parts: Parts) -> None:
    """Refuse a number of times a day, week, month or year that is not named.

    Raises:
        PhraseError: It says so often, and names more or fewer times or days.
    """
    assert parts.every is not None
    unit = parts.every.unit
    named = {
        "hour": parts.minutes,
        "day": parts.times,
        "week": parts.weekdays,
        "month": parts.nth,
        "year": parts.dates,
    }.get(unit)
    number = 0 if named is None else len(named)
    if number != parts.often:
        raise PhraseError(
            f"it says {parts.often} times {a(unit)}, and names {number or 'none'}:"
            f" write all of them, as in {_ALL_OF.get(unit, _ALL_OF['day'])!r}"
        )


def other_days(parts: Parts, said: Mapping[str, object]) -> Parts | None:
    """The parts that name the other days, if they can."""
    if parts.group is not None or parts.nth is not None or parts.dates is not None:
        return None
    if parts.every is not None and parts.every.is_stepped:
        return None
    match said:
        case {"weekdays": frozenset() as days}:
            return replace(parts, weekdays=_left(parts.weekdays, range(7), days))
        case {"months": frozenset() as months}:
            return replace(parts, months=_left(parts.months, range(1, 13), months))
    return None


def _left(
    known: frozenset[int] | None, everything: Iterable[int], without: frozenset[int]
) -> frozenset[int]:
    left = frozenset(everything if known is None else known) - without
    if not left:
        raise PhraseError("its exceptions leave nothing")
    return left
