"""From the text of a phrase to its trigger, by the grammar."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedToken
from lark.lexer import Lexer

from go_scheduler.triggers.combining import AllOfTrigger, AnyOfTrigger
from go_scheduler.triggers.phrases.building import (
    EITHER_OR_BOTH,
    IN_WORDS,
    Every,
    Moment,
    Nth,
    Present,
    Said,
    YearDay,
    trigger_of,
)
from go_scheduler.triggers.phrases.words import PhraseError, Word, ambiguous, read_words
from go_scheduler.triggers.words import MONTHS, WEEKDAYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lark.common import LexerConf

    from go_scheduler.triggers.base import Trigger

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


def read_phrase(text: str, present: Present) -> Trigger:
    """The trigger that a phrase describes.

    Raises:
        PhraseError: It is no phrase of the grammar, or an unclear one.
        InvalidTriggerError: There is no such trigger.
    """
    words = read_words(text)
    if not words:
        raise PhraseError("it is empty; write one such as 'every weekday at 09:00'")
    try:
        tree = _parser().parse(words)
    except UnexpectedToken as error:
        if [each.type for each in words] == ["NUMBER", "UNIT"]:
            length = text.strip()
            raise PhraseError(f"write 'every {length}' or 'in {length}'") from None
        raise _unexpected(error, text) from None
    return cast("Trigger", _Reader(present).read(tree))


def _unexpected(error: UnexpectedToken, text: str) -> PhraseError:
    expected = [words for type, words in _EXPECTED.items() if type in error.accepts]
    known = "write it as another phrase"
    if expected:
        *others, last = expected
        known = f"expected {', '.join(others)}{' or ' if others else ''}{last}"
    word = cast("object", error.token.value)
    if not isinstance(word, Word):
        return PhraseError(f"it ends too early: {known}", len(text))
    if word.type == "ALSO":
        known = "two phrases are joined by 'or'"
    return PhraseError(f'"{word.text}" does not fit there: {known}', word.start)


class _PhraseLexer(Lexer):
    """Hands the words of a phrase to the parser, whose configuration it ignores."""

    def __init__(self, config: LexerConf) -> None:
        del config

    def lex(self, words: Sequence[Word]) -> Iterator[Token]:  # type: ignore[override]
        for word in words:
            yield Token(word.type, word, word.start)


@lru_cache(maxsize=1)
def _parser() -> Lark:
    grammar = files(__package__).joinpath("grammar.lark").read_text("utf-8")
    return Lark(grammar, parser="lalr", lexer=_PhraseLexer)


# The clauses that say several values.
_LISTS = {"times", "minutes", "window", "names", "dates"}


class _Reader:
    """Makes the trigger of a parsed phrase, from the leaves of its tree up.

    Each public method but ``read`` is a rule of the grammar. It gets what the rules in
    it have returned, and those of its words that have a value. A rule without a method
    is a clause that says its value under the name of the rule.
    """

    def __init__(self, present: Present) -> None:
        self._present = present

    def read(self, tree: Tree[Token]) -> Any:
        """What the rule of a tree returns."""
        found = []
        for child in tree.children:
            if isinstance(child, Tree):
                found.append(self.read(child))
            elif (word := child.value).value is not None:
                found.append(word)
        rule = getattr(self, tree.data, None)
        if rule is not None:
            return rule(*found)
        values = [each.value if isinstance(each, Word) else each for each in found]
        if tree.data in _LISTS:
            return {str(tree.data): tuple(values)}
        return {str(tree.data): values[0] if values else True}

    def any_of(self, *triggers: Trigger) -> Trigger:
        return AnyOfTrigger(triggers)

    def all_of(self, *triggers: Trigger) -> Trigger:
        return AllOfTrigger(triggers)

    def trigger(self, *clauses: Said) -> Trigger:
        said: dict[str, Any] = {}
        for clause in clauses:
            if "step" in clause:
                raise PhraseError("write 'every' before a number of units")
            if "every" in clause and "count" in said:
                raise PhraseError(_times_before_every(said["count"]))
            _add(said, clause)
        return trigger_of(cast("Said", said), self._present)

    # How often.

    def every_unit(self, unit: Word) -> Said:
        return {"every": Every(1, unit.value)}

    def every_other_unit(self, unit: Word) -> Said:
        return {"every": Every(2, unit.value)}

    def every_units(self, number: Word, unit: Word) -> Said:
        return {"every": self.amount(number, unit)}

    def every_other_day(self, said: Said) -> Said:
        if len(said["weekdays"]) == 5:
            readings = (
                "every monday, wednesday and friday",
                "every 2 weeks on weekdays",
            )
            raise PhraseError(ambiguous("every other weekday", readings))
        return {"every": Every(2, "week"), "weekdays": said["weekdays"]}

    def every_weekday(self, said: Said) -> Said:
        return {"weekdays": said["weekdays"]}

    def every_nth(self, said: Said) -> Said:
        """``every first monday``: of every month, unless it may mean a step as well."""
        if "step" in said:
            return {"every": said["step"]}
        if "dates" in said:
            return self.every_year(said)
        if "every" in said or "months" in said:
            return said
        nth, *more = said["nth"]
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

    def every_year(self, said: Said) -> Said:
        return {**said, "every": Every(1, "year")}

    def every_part(self, part: Word) -> Said:
        return {"every": Every(1, "day"), "part": part.value}

    def often(self, count: Word, *each: Word) -> Said:
        *number, unit = each
        if number and number[0].value != 1:
            raise PhraseError("write how many times 'a day', 'a week' or 'a month'")
        return {"often": count.value, "every": Every(1, unit.value)}

    def amount(self, number: Word, unit: Word) -> Every:
        return Every(number.value, unit.value)

    # On which days.

    def weekdays(self, *days: Word | frozenset[int]) -> Said:
        found = frozenset[int]().union(
            *(each.value if isinstance(each, Word) else each for each in days)
        )
        match days:
            case [Word("WEEKDAY", _, text)] if len(found) == 1 and not _is_plural(text):
                return {"weekdays": found, "lone": text}
        return {"weekdays": found}

    def weekday_range(self, first: Word, last: Word) -> frozenset[int]:
        for word in (first, last):
            if len(word.value) != 1:
                raise PhraseError(
                    f'a range cannot begin or end with "{word.text}"', word.start
                )
        ((low,), (high,)) = first.value, last.value
        if low == high:
            raise PhraseError(
                f'"{first.text} to {last.text}" is one day: write "every {first.text}"',
                first.start,
            )
        return frozenset((low + step) % 7 for step in range((high - low) % 7 + 1))

    def nth(self, *items: Any) -> Said:
        """Days of the month, and of which months; or a step, as in ``third hour``."""
        scope: Said = {}
        match items:
            case [([number], Word("UNIT", unit), _)] if number > 1:
                return {"step": Every(number, unit)}
            case [*days, {**last}]:
                items, scope = tuple(days), cast("Said", last)
        found: list[Nth] = []
        pending: list[int] = []
        for numbers, kind, _ in items:
            pending += numbers
            if kind is not None:
                weekdays = _kind_of_day(kind)
                found += [Nth(each, weekdays) for each in pending]
                pending = []
        found += [Nth(each) for each in pending]
        if len(found) == 1 and not scope:
            return {"nth": tuple(found), "lone": items[0][-1]}
        number, weekdays = found[0]
        months = scope.get("months", frozenset())
        if len(found) == len(months) == 1 and weekdays is None and number > 0:
            # A day of one month, as in "5th of june": a date as any other.
            years = scope.get("years", ())
            return {"dates": (_year_day(number, min(months), *years),)}
        return {"nth": tuple(found), **scope}

    def month_end(self) -> Said:
        return {"nth": (Nth(-1),), "every": Every(1, "month")}

    def nth_day(self, *words: Word) -> tuple[Sequence[int], Word | None, str]:
        ordinal, *kind = words
        if not ordinal.value:
            raise PhraseError(f'"{ordinal.text}" is none: days begin with the first')
        text = " ".join(each.text for each in words)
        return [ordinal.value], kind[0] if kind else None, text

    def nth_range(self, first: Word, last: Word) -> tuple[Sequence[int], None, str]:
        text = f"{first.text} to {last.text}"
        if not 0 < first.value < last.value:
            raise PhraseError(f'"{text}" runs backwards', first.start)
        return list(range(first.value, last.value + 1)), None, text

    def months_of_year(self, said: Said, *year: Word) -> Said:
        return {**said, **self.years(*year)} if year else said

    def date(self, day: Word, month: Word, *year: Word) -> YearDay:
        return _year_day(day.value, month.value, *(each.value for each in year))

    def date_after_month(self, month: Word, day: Word, *year: Word) -> YearDay:
        return self.date(day, month, *year)

    def month_list(self, *months: Word | frozenset[int]) -> Said:
        found = ({each.value} if isinstance(each, Word) else each for each in months)
        return {"months": frozenset[int]().union(*found)}

    def month_range(self, first: Word, last: Word) -> frozenset[int]:
        steps = range((last.value - first.value) % 12 + 1)
        return frozenset((first.value - 1 + step) % 12 + 1 for step in steps)

    def years(self, *years: Word) -> Said:
        return {"years": tuple(sorted({each.value for each in years}))}

    def year_range(self, first: Word, last: Word) -> Said:
        if last.value < first.value:
            raise PhraseError("its years run backwards")
        return {"years": tuple(range(first.value, last.value + 1))}

    # At what time.

    def minutes_past(self, minute: Word, *units: Word) -> Said:
        if minute.value not in range(60):
            raise PhraseError(f"{minute.value} is no minute of the hour: write 0 to 59")
        if [each.value for each in units] not in (["hour"], ["minute", "hour"]):
            raise PhraseError("only minutes past the hour can be given")
        return {"minutes": (minute.value,)}

    # Within which bounds.

    def excluded(self, said: Said) -> Said:
        return {"excluded": (said,)}

    def span(self, first: Moment, last: Moment) -> Said:
        return {"starting": first, "until": last}

    def moment(self, day: Word | YearDay, *time: Word) -> Moment:
        return Moment(
            day.value if isinstance(day, Word) else day,
            time[0].value if time else None,
        )

    def next_time(self, time: Word) -> Moment:
        return Moment(time=time.value)

    def in_amount(self, length: Every) -> Moment:
        return Moment(length=length)

    # Once, and after each run.

    def part_of_today(self, part: Word) -> Said:
        return {"day": 0, "part": part.value}

    def later_than_day(self, length: Every, day: Word) -> Said:
        if not day.value:
            return {"later": length}
        days = {"day": 1, "week": 7, "fortnight": 14}.get(length.unit)
        if days is None:
            raise PhraseError(
                "from another day than today only days and weeks can be counted"
            )
        return {"later": Every(length.number * days + day.value, "day")}


def _add(said: dict[str, Any], clause: Said) -> None:
    """Add what a clause says.

    Raises:
        PhraseError: Another one has said something else of the same kind.
    """
    for name, value in clause.items():
        if name == "months" and "excluded" in said:
            raise PhraseError(
                "after an exception it is not clear whether its months are those of"
                " the exception: write 'in …' before 'except', or brackets"
            )
        known = said.get(name)
        if known is None or (name == "every" and known in _EACH):
            said[name] = value
        elif name == "excluded":
            said[name] = (*known, *cast("Sequence[Said]", value))
        elif known != value and not (name == "every" and value in _EACH):
            if name == "lone":
                raise PhraseError(f"it says twice on which day: {EITHER_OR_BOTH}")
            raise PhraseError(f"it says twice {IN_WORDS[name]}")


# With days and times they say nothing of their own.
_EACH = (Every(1, "year"), Every(1, "month"), Every(1, "week"), Every(1, "day"))


def _is_plural(day: str) -> bool:
    return len(day) > 5 and day.lower().endswith("s")


def _kind_of_day(kind: Word) -> frozenset[int] | None:
    """Of which weekdays it is one; None: of all days."""
    if kind.type == "WEEKDAY":
        if len(kind.value) == 2:
            readings = ("the first saturday of the month", "the first sunday")
            raise PhraseError(ambiguous(f"first {kind.text}", readings))
        return cast("frozenset[int]", kind.value)
    if kind.value == "day":
        return None
    raise PhraseError(
        f'"{kind.text}" is no kind of day: write one such as "day", "friday" or'
        ' "weekday"',
        kind.start,
    )


def _year_day(day: object, month: int, year: int | None = None) -> YearDay:
    last = 31 if month != 2 else 29
    if not isinstance(day, int) or not 1 <= day <= last:
        raise PhraseError(f"{day} {MONTHS[month - 1]} does not exist")
    return YearDay(day, month, year)


def _times_before_every(count: int) -> str:
    """The message for a number of times that may be those of each day or all."""
    if count == 1:
        return ambiguous("once", ("once every …", "every …, once"))
    in_all = f"every …, {count} times"
    return ambiguous(f"{count} times", (in_all, "every … at 09:00 and 17:00"))
