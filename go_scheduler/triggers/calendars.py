"""Calendars: sets of days, known in a process by their names."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from threading import Lock

from go_scheduler.errors import InvalidTriggerError, UnknownTriggerError
from go_scheduler.formatting import shown
from go_scheduler.triggers import fire_time_sets as sets
from go_scheduler.triggers.base import OWN
from go_scheduler.triggers.times import days_in

MOST_DAYS = 100_000
"""The most days that a ``DateCalendar`` may list: 273 years."""

MOST_NAMES = 100
"""The most calendars that may be named together."""

_NAME = re.compile(r"\w[\w.-]{0,99}")
_DEEPEST = 10
# The first day of each week of a year that begins with one, as bits.
_WEEKS = sum(1 << 7 * week for week in range(54))
_calendars: dict[str, Calendar] = {}
_edition = 0
_lock = Lock()


class Calendar(ABC):
    """A set of days, such as holidays.

    Write ``includes`` in a subclass, give it a name with ``register_calendar``, and
    triggers can fire on these days only, or not on them.
    """

    __slots__ = ()

    @abstractmethod
    def includes(self, day: date) -> bool:
        """Whether a day is in the calendar.

        It must answer quickly, for any day from the year 1 to 9999, and the same on
        every node.

        Args:
            day: The day, without a time zone.
        """

    def _days(self) -> sets.YearlySet:
        """Its days as a set; by default it is asked for each of them."""
        return sets.whole_days(self.includes)


@dataclass(frozen=True, slots=True, init=False)
class DateCalendar(Calendar):
    """The days of a list.

    ```python
    closed = DateCalendar([date(2030, 5, 1), (date(2030, 12, 24), date(2030, 12, 31))])
    ```

    Attributes:
        days: The days.

    Args:
        days: Dates, and pairs of the first and the last date of a range; together at
            most 100,000 days.

    Raises:
        InvalidTriggerError: An item is neither, or a range ends before it begins, or
            they are too many.
    """

    days: frozenset[date]

    def __init__(self, days: Iterable[date | tuple[date, date]]) -> None:
        object.__setattr__(self, "days", _listed_days(days))

    def includes(self, day: date) -> bool:
        """Whether a day is in the list."""
        return day in self.days

    def _days(self) -> sets.YearlySet:
        return sets.listed((), [each.toordinal() for each in self.days])


@dataclass(frozen=True, slots=True, init=False)
class BusinessDays(Calendar):
    """All days except weekends and holidays.

    Attributes:
        holidays: The names of the calendars whose days are no business days.
        weekend: The days of the week that are no business days, as ``date.weekday()``
            counts them: Monday is 0.

    Args:
        holidays: Names of registered calendars. The name is looked up for each day, so
            a calendar that is registered again holds from then on.
        weekend: By default Saturday and Sunday.

    Raises:
        InvalidTriggerError: A calendar is not registered, or the weekend is not made of
            some days from 0 to 6, but not all.
    """

    holidays: tuple[str, ...]
    weekend: tuple[int, ...]

    def __init__(
        self, holidays: str | Sequence[str] = (), weekend: Sequence[int] = (5, 6)
    ) -> None:
        names = () if holidays == () else checked_names("holidays", holidays)
        object.__setattr__(self, "holidays", names)
        object.__setattr__(self, "weekend", _checked_weekend(weekend))

    def includes(self, day: date) -> bool:
        """Whether a day is neither of a weekend nor a holiday.

        Raises:
            UnknownTriggerError: A calendar of holidays is not registered any more.
        """
        return day.weekday() not in self.weekend and not is_in(self.holidays, day)

    def _days(self) -> sets.YearlySet:
        week = sum(1 << day for day in range(7) if day not in self.weekend)

        def find(year: int, budget: sets.SearchBudget) -> sets.Year:
            length, first = days_in(year), date(year, 1, 1).weekday()
            return sets.on_days(length, week * _WEEKS >> first & (1 << length) - 1)

        weekdays = sets.YearlySet(find)
        if not self.holidays:
            return weekdays
        return sets.combine(sets.difference, [weekdays, days_of_names(self.holidays)])


def register_calendar(name: str, calendar: Calendar) -> None:
    """Give a calendar a name, in this process, for triggers to use.

    A trigger stores the name alone. Each node has to register the calendar at its
    start, before it loads definitions. On a node without it the trigger is an
    ``UnknownTrigger``, and does not fire. To refresh a calendar, register another one
    under the same name: it holds for all fire times that are computed from then on.
    Instances that exist already stay.

    Args:
        name: 1 to 100 letters, digits, ``_``, ``-`` and ``.``.
        calendar: The days.

    Raises:
        InvalidTriggerError: The name is not allowed, the second argument is not a
            calendar, or the calendar is made of itself.
    """
    global _edition
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidTriggerError(
            "the name of a calendar must be 1 to 100 letters, digits, '_', '-' and"
            f" '.', such as 'public-holidays', not {shown(name)}"
        )
    if not isinstance(calendar, Calendar):
        raise InvalidTriggerError(
            f"the calendar {shown(name)} must be a Calendar, such as"
            f" DateCalendar([...]), not {shown(calendar)}"
        )
    _check_references(name, calendar, _DEEPEST)
    with _lock:
        if _calendars.get(name) != calendar:
            _calendars[name] = calendar
            _edition += 1


def find_calendar(name: str) -> Calendar:
    """The calendar of a name.

    Raises:
        UnknownTriggerError: None is registered under this name.
    """
    try:
        return _calendars[name]
    except KeyError:
        raise UnknownTriggerError(_unknown(name)) from None


def calendar_names() -> Sequence[str]:
    """The names of the registered calendars, in alphabetical order."""
    return sorted(_calendars)


def edition_of_names() -> int:
    """A number that rises whenever another calendar is registered under a name."""
    return _edition


def is_in(names: Iterable[str], day: date) -> bool:
    """Whether a day is in one of the calendars of these names.

    Raises:
        UnknownTriggerError: One of them is not registered.
        InvalidTriggerError: One of them answers neither True nor False.
    """
    for name in names:
        answer: object = find_calendar(name).includes(day)
        if not isinstance(answer, bool):
            raise InvalidTriggerError(
                f"the calendar {shown(name)} must answer True or False for {day}, not"
                f" {shown(answer)}"
            )
        if answer:
            return True
    return False


def days_of_names(names: Sequence[str]) -> sets.YearlySet:
    """The days that are in one of the calendars of these names, as a set.

    Raises:
        UnknownTriggerError: One of them is not registered.
    """
    return sets.union(list(map(_days_of_name, names)))


def _days_of_name(name: str) -> sets.YearlySet:
    calendar = find_calendar(name)
    if type(calendar).__module__.startswith(OWN):
        return calendar._days()
    return sets.whole_days(partial(is_in, (name,)))


def are_own(names: Iterable[str]) -> bool:
    """Whether the calendars of some names are all this package's own classes."""
    known = [each for name in names if (each := _calendars.get(name)) is not None]
    return all(type(each).__module__.startswith(OWN) for each in known) and all(
        are_own(each.holidays) for each in known if isinstance(each, BusinessDays)
    )


def checked_names(name: str, value: object) -> tuple[str, ...]:
    """A value that is to be the names of calendars, or one.

    Args:
        name: What to call it in an error.
        value: The value.

    Returns:
        The names in their order, each once.

    Raises:
        InvalidTriggerError: It is something else, empty, too long, or holds a name that
            no calendar has.
    """
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not 0 < len(names) <= MOST_NAMES:
        raise InvalidTriggerError(
            f"{name} must be the name of a calendar, or a list of 1 to {MOST_NAMES},"
            f" not {shown(value)}"
        )
    for each in names:
        if not isinstance(each, str) or each not in _calendars:
            raise InvalidTriggerError(f"{name}: {_unknown(each)}")
    return tuple(dict.fromkeys(names))


def _unknown(name: object) -> str:
    known = ", ".join(calendar_names())
    return (
        f"no calendar is registered as {shown(name)}; known here: {known or 'none'}."
        " Call register_calendar() first"
    )


def _check_references(name: str, calendar: Calendar, left: int) -> None:
    """Refuse a calendar that is made of itself, or nested too deep."""
    if not isinstance(calendar, BusinessDays):
        return
    if name in calendar.holidays or left == 0:
        raise InvalidTriggerError(
            f"the calendar {shown(name)} is made of itself, or of others more than"
            f" {_DEEPEST} deep"
        )
    for each in calendar.holidays:
        if (found := _calendars.get(each)) is not None:
            _check_references(name, found, left - 1)


def _listed_days(days: object) -> frozenset[date]:
    if not isinstance(days, Iterable) or isinstance(days, str | bytes):
        raise InvalidTriggerError(f"days must be a list of dates, not {shown(days)}")
    found: set[date] = set()
    for count, item in enumerate(days):
        first, last = _range(item)
        if count + (last - first).days >= MOST_DAYS or len(found) > MOST_DAYS:
            raise InvalidTriggerError(f"days are more than the {MOST_DAYS:,} allowed")
        found.update(
            map(date.fromordinal, range(first.toordinal(), last.toordinal() + 1))
        )
    return frozenset(found)


def _range(item: object) -> tuple[date, date]:
    """The first and the last day of an item, which may be a single day."""
    match item if isinstance(item, tuple) else (item, item):
        case (date() as first, date() as last) if not (
            isinstance(first, datetime) or isinstance(last, datetime)
        ):
            if last < first:
                raise InvalidTriggerError(f"{first} to {last} ends before it begins")
            return first, last
    raise InvalidTriggerError(
        "days must be dates, or pairs of a first and a last one, such as"
        f" date(2030, 12, 24), not {shown(item)}"
    )


def _checked_weekend(weekend: object) -> tuple[int, ...]:
    if not isinstance(weekend, list | tuple | set | frozenset | range) or any(
        type(each) is not int or not 0 <= each <= 6 for each in weekend
    ):
        raise InvalidTriggerError(
            "weekend must be days of the week from 0, Monday, to 6, such as (5, 6), not"
            f" {shown(weekend)}"
        )
    days = tuple(sorted(set(weekend)))
    if len(days) == 7:
        raise InvalidTriggerError("weekend must leave a day of the week")
    return days
