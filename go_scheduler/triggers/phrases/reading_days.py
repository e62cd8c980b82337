"""From a parsed phrase to the days, months and years that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from lark import Token, Transformer

from go_scheduler.triggers.phrases.parts import Every, Nth, YearDay
from go_scheduler.triggers.phrases.phrase_words import PhraseError, Word, ambiguous
from go_scheduler.triggers.phrases.said import type_of, values_of
from go_scheduler.triggers.words import MONTHS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from go_scheduler.triggers.phrases.said import Said


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
