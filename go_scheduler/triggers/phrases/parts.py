"""The parts of a phrase: how often, which days, what time, within what bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import time
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.triggers.phrases.words import PhraseError

if TYPE_CHECKING:
    from datetime import date, datetime


class Every(NamedTuple):
    """An interval: every so many of a unit."""

    number: float
    unit: str

    @property
    def is_of_clock(self) -> bool:
        """Whether it is elapsed time, and not counted on the calendar."""
        return self.unit in ("microsecond", "millisecond", "second", "minute", "hour")

    @property
    def is_stepped(self) -> bool:
        """Whether every so many days, weeks, months or years are meant."""
        return not self.is_of_clock and (self.number != 1 or self.unit == "fortnight")

    def in_weeks(self) -> Every:
        """The same, with two weeks for a fortnight."""
        return Every(2 * self.number, "week") if self.unit == "fortnight" else self


class Nth(NamedTuple):
    """One of the days of a month: the nth day, or the nth of some weekdays.

    Attributes:
        number: 1 for the first; -1 for the last.
        weekdays: Of which weekdays, Monday is 0; None: of all days.
    """

    number: int
    weekdays: frozenset[int] | None = None


class YearDay(NamedTuple):
    """A date of every year, or of one."""

    day: int
    month: int
    year: int | None = None


class Moment(NamedTuple):
    """When something starts or ends.

    Attributes:
        day: An instant, a date, a date of the year, a weekday, or how many days from
            today; None: today.
        time: At what time of that day; None: none was given.
        length: So long from now instead.
    """

    day: datetime | date | YearDay | frozenset[int] | int | None = None
    time: time | int | None = None
    length: Every | None = None


@dataclass(kw_only=True)
class Parts:
    """The parts of a phrase, as far as it has them.

    Times may be bare hours. ``lone`` is a single day of the week as it was written, not
    in the plural, so that it may be that of this week or that of every week; or a
    single day of the month, likewise. ``often`` is how many times in
    each day, week, month or year there are, which has to agree with what is named.
    """

    every: Every | None = None
    weekdays: frozenset[int] | None = None
    lone: str | None = None
    nth: Sequence[Nth] | None = None
    dates: Sequence[YearDay] | None = None
    months: frozenset[int] | None = None
    years: Sequence[int] | None = None
    times: Sequence[time | int] | None = None
    minutes: Sequence[int] | None = None
    window: tuple[time | int, time | int] | None = None
    part: str | None = None
    aligned: bool | None = None
    names: Sequence[str] | None = None
    starting: Moment | None = None
    until: Moment | None = None
    lasting: Every | None = None
    count: int | None = None
    often: int | None = None
    from_now: bool | None = None
    day: Moment | None = None
    later: Every | None = None
    delay: Every | None = None
    group: Phrase | None = None
    excluded: list[Mapping[str, object]] = field(default_factory=list)

    def add(self, part: Mapping[str, object]) -> None:
        """Add what one part of the phrase says.

        Raises:
            PhraseError: Another part has said something else of the same kind.
        """
        for name, value in part.items():
            if name == "excluded":
                self.excluded.append(value)  # type: ignore[arg-type]
                continue
            known = getattr(self, name)
            if name == "months" and self.excluded:
                raise PhraseError(
                    "after an exception it is not clear whether its months are those of"
                    " the exception: write 'in …' before 'except', or brackets"
                )
            if name == "every" and isinstance(value, Every):
                value = _finer(known, value)
                known = None
            if name == "lone" and known not in (None, value):
                raise PhraseError(f"it says twice on which day: {EITHER_OR_BOTH}")
            if known is not None and known != value:
                raise PhraseError(f"it says twice {SAID[name]}")
            setattr(self, name, value)

    def given(self) -> set[str]:
        """The names of what is said."""
        return {
            each.name
            for each in fields(self)
            if getattr(self, each.name) not in (None, [])
        }


def _finer(known: Every | None, other: Every) -> Every:
    """The one of two intervals that says more, as in ``every hour`` of ``every month``.

    Raises:
        PhraseError: Each of them says something.
    """
    if known is None or known == other or known in _WHENEVER:
        return other
    if other in _WHENEVER:
        return known
    raise PhraseError(f"it says twice {SAID['every']}")


EITHER_OR_BOTH = (
    "write them with 'or'; for those that are both, as a friday that is a 13th, write"
    " 'whenever both every friday at 09:00 and the 13th of every month at 09:00'"
)
"""Advice for days of the week beside days of the month."""

# With days and times they say nothing of their own.
_WHENEVER = (Every(1, "year"), Every(1, "month"), Every(1, "week"), Every(1, "day"))

SAID = {
    "every": "how often",
    "weekdays": "on which days of the week",
    "lone": "on which day of the week",
    "nth": "on which days of the month",
    "dates": "on which dates",
    "months": "in which months",
    "years": "in which years",
    "times": "at what time",
    "minutes": "at which minute of the hour",
    "window": "between which times",
    "part": "in which part of the day",
    "aligned": "how it follows the clock",
    "names": "on the days of which calendars",
    "starting": "when it starts",
    "until": "when it ends",
    "lasting": "how long it goes on",
    "count": "how many times it fires",
    "often": "how many times in each",
    "from_now": "that it starts now",
    "day": "on which day",
    "later": "how much later",
    "delay": "how long after each run",
    "group": "what is in brackets",
    "excluded": "what it leaves out",
}

OF_DAYS = {"weekdays", "nth", "dates", "months"}
"""The parts that say on which days of a year."""


def only(given: set[str], allowed: set[str], where: str) -> None:
    """Refuse what makes no sense beside the rest."""
    for name in sorted(given - allowed):
        raise PhraseError(f"it cannot say {SAID[name]} {where}")


class AnyOf(NamedTuple):
    """Phrases of which each says when."""

    phrases: Sequence[Phrase]


class AllOf(NamedTuple):
    """Phrases that have to agree on when."""

    phrases: Sequence[Phrase]


Phrase = Parts | AnyOf | AllOf
