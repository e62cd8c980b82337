"""Calendars of a recurrence rule, and of the events of an iCalendar file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from sys import maxsize
from typing import TYPE_CHECKING

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.formatting import shown
from go_scheduler.lazy_imports import without_extra
from go_scheduler.triggers.base import RefusedError
from go_scheduler.triggers.calendars import MOST_DAYS, Calendar
from go_scheduler.triggers.fire_time_sets import (
    ALL_DAY,
    SearchBudget,
    days_of,
    listed,
)
from go_scheduler.triggers.local_time import load_zone, zone_key
from go_scheduler.triggers.recurrence_rules import RecurrenceRule, read_rule, write_rule
from go_scheduler.triggers.recurrence_times import LocalTimes, in_utc
from go_scheduler.triggers.times import FIRST_LOCAL_TIME, LAST_LOCAL_TIME, MICROSECOND

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from icalendar import Event

    from go_scheduler.triggers.fire_time_sets import YearlySet

_times_of = lru_cache(maxsize=1024)(in_utc)
_LONGEST_RULE = 1_000
_MOST_YEARS = 128
_MIDNIGHT = time()
_END_OF_DAY = time(23, 59, 59)


class YearlyCalendar(Calendar):
    """A calendar that works out the days of a whole year when it is asked for one."""

    # What is remembered is no field: it is neither compared nor pickled.
    __slots__ = ("_known",)

    _known: dict[int, tuple[int, int]]

    def includes(self, day: date) -> bool:
        """Whether a day is in the calendar."""
        try:
            years = self._known
        except AttributeError:
            years = {}
            object.__setattr__(self, "_known", years)
        known = years.get(day.year)
        if known is None:
            if len(years) >= _MOST_YEARS:
                years.clear()
            january = date(day.year, 1, 1).toordinal()
            known = years[day.year] = january, self._days_of(day.year)
        january, days = known
        return days >> day.toordinal() - january & 1 == 1

    @abstractmethod
    def _days_of(self, year: int) -> int:
        """The days of a year that are in the calendar, as bits."""


@dataclass(frozen=True, slots=True, init=False)
class RuleCalendar(YearlyCalendar):
    """The days that an RFC 5545 rule names.

    ```python
    christmas = RuleCalendar("FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=25,26")
    thanksgiving = RuleCalendar("FREQ=YEARLY;BYMONTH=11;BYDAY=4TH")
    good_friday = RuleCalendar("FREQ=YEARLY;BYEASTER=-2")
    ```

    Attributes:
        rule: The value of the RRULE, in one of the ways to write it.
        start: The first day it may name; what INTERVAL and COUNT count from.

    Args:
        rule: The value of an RRULE. FREQ is DAILY or longer, UNTIL a date or a time in
            UTC, whose date counts. BYEASTER, which dateutil adds to the standard, lists
            days after Easter Sunday.
        start: None: the rule says all by itself, and names days of any year.

    Raises:
        InvalidTriggerError: It is no rule, or none for whole days; or it needs a start;
            or it names no day within 100 years.
    """

    rule: str
    start: date | None

    def __init__(self, rule: str, start: date | None = None) -> None:
        if start is not None and type(start) is not date:
            raise InvalidTriggerError(
                f"start must be a date, such as date(2030, 1, 1), not {shown(start)}"
            )
        try:
            parsed = _checked_rule(rule, start)
        except RefusedError as error:
            raise InvalidTriggerError(f"rule {shown(rule)}: {error}") from None
        object.__setattr__(self, "rule", write_rule(parsed))
        object.__setattr__(self, "start", start)

    def _days_of(self, year: int) -> int:
        found = _known_days(self.rule, self.start).year(year, SearchBudget(maxsize))
        return found.days_by_times.get(ALL_DAY, 0)

    def _days(self) -> YearlySet:
        return _days_of_rule(self.rule, self.start)


def _checked_rule(rule: object, start: date | None) -> RecurrenceRule:
    if not isinstance(rule, str) or len(rule) > _LONGEST_RULE:
        raise RefusedError(f"a rule is text of at most {_LONGEST_RULE} characters")
    text = rule.strip().upper().removeprefix("RRULE:")
    parsed = read_rule(text, end_of)
    if parsed.periods_per_day > 1 or parsed.hours or parsed.minutes or parsed.seconds:
        raise RefusedError(
            "a calendar is made of whole days; use FREQ=DAILY or longer, without"
            " BYHOUR, BYMINUTE and BYSECOND"
        )
    if start is None and (parsed.interval > 1 or parsed.count):
        raise RefusedError("INTERVAL and COUNT count from a start; give start=")
    if start is None and not parsed.names_days and parsed.frequency != "DAILY":
        raise RefusedError("it leaves the day open; add BYMONTHDAY or BYDAY, or start=")
    begin = _begin(start)
    if _times_of(parsed, begin).search(begin) is None:
        raise RefusedError("it names no day within 100 years")
    return parsed


def _days_of_rule(rule: str, start: date | None) -> YearlySet:
    read, begin = read_rule(rule, end_of), _begin(start)
    if read.count is None:
        return days_of(_times_of(read, begin).times())
    # A list has an end, after which a search need not look.
    found = LocalTimes(read, begin).days(begin.toordinal())
    return listed((), [day for day, _ in islice(found, read.count)])


# Not for a search: what it may cost must not depend on what others have asked before.
_known_days = lru_cache(maxsize=256)(_days_of_rule)


def _begin(start: date | None) -> datetime:
    return datetime.combine(start or date.min, _MIDNIGHT)


def end_of(moment: date) -> datetime:
    """The end of a day, or the time of a moment, taken as UTC: for UNTIL."""
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, _END_OF_DAY)
    return moment.replace(tzinfo=UTC)


MOST_BYTES = 2 * 1024 * 1024
"""The most bytes that an iCalendar file may have."""

_DEEPEST = 10


def read_text(source: object) -> str:
    """The text of an iCalendar file.

    Args:
        source: Text, bytes in UTF-8, or a path.

    Raises:
        InvalidTriggerError: It is none of these, cannot be read, or is too large.
    """
    if isinstance(source, Path):
        try:
            with source.open("rb") as file:
                source = file.read(MOST_BYTES + 1)
        except (OSError, ValueError) as error:
            raise InvalidTriggerError(
                f"the iCalendar file cannot be read: {error}"
            ) from None
    if not isinstance(source, str | bytes):
        raise InvalidTriggerError(
            "an iCalendar file must be given as its text, its bytes, or a Path, not"
            f" {shown(source)}"
        )
    if len(source) > MOST_BYTES:
        raise InvalidTriggerError(
            f"the iCalendar file is larger than {MOST_BYTES // 1024**2} MiB; keep the"
            " events that matter"
        )
    if isinstance(source, bytes):
        try:
            source = source.decode()
        except UnicodeDecodeError as error:
            raise InvalidTriggerError(f"the iCalendar file: {error}") from None
    return source.removeprefix("\ufeff")


def split_events(text: str) -> Sequence[Event]:
    """The events of an iCalendar file, in their order.

    Raises:
        InvalidTriggerError: It is no iCalendar file, or not a whole one.
        ModuleNotFoundError: The extra ``calendars`` is not installed.
    """
    _check_structure(text)
    try:
        # It takes a quarter of a second to import, and few need it.
        from icalendar import Calendar, Event
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            without_extra("iCalendar files need", "calendars", error), name=error.name
        ) from error

    try:
        # A text without an end of line would be taken for a path.
        calendars = Calendar.from_ical(f"{text}\r\n", multiple=True)
        components = [each for part in calendars for each in part.walk("VEVENT")]
    except Exception as error:
        raise InvalidTriggerError(
            f"the iCalendar file cannot be read: {str(error)[:200]}"
        ) from error
    return [each for each in components if isinstance(each, Event)]


def _check_structure(text: str) -> None:
    """Refuse a file that is cut off, or whose parts overlap: the parser would not."""
    opened: list[tuple[str, int]] = []
    for number, line in enumerate(text.split("\n"), 1):
        word, _, name = line.rstrip().upper().partition(":")
        if word == "BEGIN":
            if (name == "VCALENDAR") == bool(opened) or len(opened) >= _DEEPEST:
                raise _misplaced(number, line)
            opened.append((name, number))
        elif word == "END" and (not opened or opened.pop()[0] != name):
            raise _misplaced(number, line)
    if opened:
        name, number = opened[-1]
        raise InvalidTriggerError(
            f"the iCalendar file: what begins in line {number}, {shown(name)}, never"
            " ends; it may have been cut off"
        )
    if "BEGIN:VCALENDAR" not in text.upper():
        raise InvalidTriggerError(
            "the iCalendar file has no BEGIN:VCALENDAR; it is of another kind"
        )


def _misplaced(number: int, line: str) -> InvalidTriggerError:
    return InvalidTriggerError(
        f"the iCalendar file: line {number}, {shown(line.strip())}, is out of place"
    )


MOST_SERIES = 500
"""The most recurring events that a file may have."""

_MOST_COUNTED = 100_000
_MOST_A_DAY = 24
_LONGEST_RECURRING = timedelta(days=366)
# The others say nothing about days, so that a broken one does no harm.
_NEEDED = {
    *("DTSTART", "DTEND", "DURATION", "STATUS", "UID", "RECURRENCE-ID"),
    *("RRULE", "RDATE", "EXDATE", "EXRULE"),
}


def read_ical(
    source: str | bytes | Path, timezone: str | ZoneInfo | None = None
) -> EventCalendar:
    """The days that the events of an iCalendar file touch.

    ```python
    register_calendar("public-holidays", read_ical(Path("holidays.ics")))
    ```

    An event without a time of day has the same days in each time zone. An event with a
    time of day has all days that it overlaps; the instant of its end does not count.
    Recurring events are read for all years, with their exceptions and with changes of
    single occurrences. Cancelled events, and entries that are no events, are ignored.

    Args:
        source: The text of the file, or its bytes, in UTF-8; or the path to it. At most
            2 MiB and 500 recurring events.
        timezone: The zone in which days are counted, an IANA name or a ``ZoneInfo``;
            None: each event in its own zone. A time without a zone is taken as it is
            written.

    Raises:
        InvalidTriggerError: The file cannot be read, is too large, is no iCalendar
            file, or has an event that cannot be understood; the error names it.
        ModuleNotFoundError: The extra ``calendars`` is not installed.
    """
    read = None if timezone is None else load_zone(zone_key(timezone))
    found = split_events(read_text(source))
    events = [_read_event(number, each, read) for number, each in enumerate(found, 1)]
    changes: dict[str, set[date]] = {}
    for event in events:
        if event.replaces is not None:
            changes.setdefault(event.uid, set()).add(event.replaces)
    days: set[date] = set()
    series: list[EventSeries] = []
    for event in events:
        if event.cancelled:
            continue
        moments = set(event.exceptions)
        if event.replaces is None:
            moments |= changes.get(event.uid, set())
        exceptions = frozenset(
            event.clock.local(each) if isinstance(each, datetime) else each
            for each in moments
        )
        for start, length in event.begins:
            if start not in exceptions and start.date() not in exceptions:
                days.update(_touched(event.clock, start, length))
            if len(days) > MOST_DAYS:
                raise InvalidTriggerError(f"the file has more than {MOST_DAYS:,} days")
        start, length = event.begins[0]
        series += (
            EventSeries(event.clock, start, length, rule, exceptions)
            for rule in event.rules
        )
    if len(series) > MOST_SERIES:
        raise InvalidTriggerError(
            f"the file has {len(series)} recurring events; at most {MOST_SERIES}"
        )
    if sum(each.rule.count or 0 for each in series) > _MOST_COUNTED:
        raise InvalidTriggerError(
            f"the COUNTs of the file add up to more than {_MOST_COUNTED:,}"
        )
    return EventCalendar(days=frozenset(days), series=tuple(series))


_DAY = timedelta(days=1)
# The clocks of two zones are up to 26 hours apart.
_APART = timedelta(days=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventClock:
    """How the times of an event become days.

    Attributes:
        written: The zone in which they are written; None: that of whoever reads them.
        read: The zone in which days are counted; None: the one they are written in.
    """

    written: tzinfo | None
    read: tzinfo | None

    def local(self, moment: date) -> datetime:
        """A date's midnight or a time, as the event's own clock shows it; naive."""
        if not isinstance(moment, datetime):
            return datetime.combine(moment, _MIDNIGHT)
        if moment.tzinfo is not None and self.written is not None:
            moment = moment.astimezone(self.written)
        return moment.replace(tzinfo=None)

    def days(self, start: datetime, length: timedelta) -> tuple[date, date]:
        """The first and the last day that an event touches.

        Args:
            start: As the event's own clock shows it.
            length: How much later its clock shows the end; the end does not count.
        """
        end = _moved(start, max(length - MICROSECOND, timedelta()))
        return self._read(start).date(), self._read(end).date()

    def _read(self, local: datetime) -> datetime:
        if self.written is None or self.read is None:
            return local
        try:
            return local.replace(tzinfo=self.written).astimezone(self.read)
        except OverflowError:
            return local


@dataclass(frozen=True, slots=True)
class EventSeries:
    """An event that happens again and again.

    Attributes:
        clock: How its times become days.
        start: When it first begins, as its own clock shows it; naive.
        length: How long it lasts.
        rule: When it begins again; UNTIL is a local time that is marked as UTC.
        exceptions: When it does not, local times; a date stands for the whole day.
    """

    clock: EventClock
    start: datetime
    length: timedelta
    rule: RecurrenceRule
    exceptions: frozenset[date]

    def days(self, first: date, last: date) -> Iterator[tuple[date, date]]:
        """The first and last days of what touches the days from one to another.

        Others may be among them.
        """
        times = _times_of(self.rule, self.start, self.exceptions)
        at = _moved(datetime.combine(first, _MIDNIGHT), -self.length - _APART)
        end = _moved(datetime.combine(last, _MIDNIGHT), _DAY + _APART)
        while (found := times.search(at)) is not None and found <= end:
            yield self.clock.days(found, self.length)
            at = found + MICROSECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCalendar(YearlyCalendar):
    """The days that the events of an iCalendar file touch; see ``read_ical``.

    Attributes:
        days: The days of what happens once.
        series: What happens again and again.
    """

    days: frozenset[date]
    series: tuple[EventSeries, ...] = ()

    def includes(self, day: date) -> bool:
        """Whether an event touches a day."""
        return day in self.days or YearlyCalendar.includes(self, day)

    def _days_of(self, year: int) -> int:
        first, last = date(year, 1, 1), date(year, 12, 31)
        january = first.toordinal()
        found = 0
        for begin, end in chain.from_iterable(
            each.days(first, last) for each in self.series
        ):
            day = max(begin, first).toordinal() - january
            until = min(end, last).toordinal() - january + 1
            if day < until:
                found |= (1 << until) - (1 << day)
        return found


def _moved(time: datetime, by: timedelta) -> datetime:
    """A local time moved; at most to the first or the last there is."""
    try:
        return time + by
    except OverflowError:
        return FIRST_LOCAL_TIME if by < timedelta() else LAST_LOCAL_TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """One event, as far as it tells of days. Times are its own clock's, and naive.

    Attributes:
        uid: What it shares with those that replace an occurrence of it; may be empty.
        replaces: When the occurrence that it replaces would have begun, as written.
        cancelled: Whether it does not take place.
        clock: How its times become days.
        begins: When it begins, and how long it lasts then: itself, and each RDATE.
        rules: Its RRULEs.
        exceptions: Its EXDATEs, as written.
    """

    uid: str
    replaces: date | None
    cancelled: bool
    clock: EventClock
    begins: Sequence[tuple[datetime, timedelta]]
    rules: Sequence[RecurrenceRule]
    exceptions: frozenset[date]


def _touched(clock: EventClock, start: datetime, length: timedelta) -> Iterator[date]:
    first, last = clock.days(start, length)
    if (last - first).days >= MOST_DAYS:
        raise InvalidTriggerError(f"an event lasts from {first} to {last}, too long")
    return map(date.fromordinal, range(first.toordinal(), last.toordinal() + 1))


def _read_event(number: int, event: Event, read: tzinfo | None) -> _Event:
    """An event, checked.

    Args:
        number: Its place in the file, from 1.
        event: As the parser has it.
        read: The zone in which its times are read; None: its own.
    """
    try:
        _check_readable(event)
        moment = event.start
        written = moment.tzinfo if isinstance(moment, datetime) else None
        clock = EventClock(written=written, read=read)
        start = clock.local(moment)
        length = _length(clock, start, event.end)
        begins = [(start, length)]
        for more, end in event.rdates:
            begin = clock.local(more)
            lasts = length if end is None else _length(clock, begin, end)
            begins.append((begin, lasts))
        return _Event(
            uid=str(event.get("UID", "")),
            replaces=_replaces(event),
            cancelled=str(event.get("STATUS", "")).upper() == "CANCELLED",
            clock=clock,
            begins=begins,
            rules=[
                _rule(each.to_ical().decode(), clock, start, length)
                for each in event.rrules
            ],
            exceptions=frozenset(event.exdates),
        )
    except Exception as error:
        # The parser leaves it to whoever reads a value to find out that it is none.
        name = event.get("SUMMARY") or event.get("UID") or "no name"
        raise InvalidTriggerError(
            f"event {number} ({shown(str(name))}): {str(error)[:200]}"
        ) from error


def _check_readable(event: Event) -> None:
    """Refuse an event of which the parser could not read what counts."""
    for name, error in event.errors:
        # A line without a name may have been any.
        if name in _NEEDED or (not name and any(each in error for each in _NEEDED)):
            raise RefusedError(f"{name or 'a line'} cannot be read: {error}")
    if "EXRULE" in event or "RANGE" in getattr(
        event.get("RECURRENCE-ID"), "params", ()
    ):
        raise RefusedError("neither EXRULE nor RANGE is understood; use EXDATE")


def _length(clock: EventClock, start: datetime, end: date) -> timedelta:
    length = clock.local(end) - start
    if length < timedelta():
        raise RefusedError(f"it ends at {end}, before it begins at {start}")
    return length


def _replaces(event: Event) -> date | None:
    recurrence_id = event.get("RECURRENCE-ID")
    if recurrence_id is None:
        return None
    moment: object = recurrence_id.dt
    if not isinstance(moment, date):
        raise RefusedError(f"RECURRENCE-ID is neither a date nor a time: {moment}")
    return moment


def _rule(
    text: str, clock: EventClock, start: datetime, length: timedelta
) -> RecurrenceRule:
    def until(moment: date) -> datetime:
        if isinstance(moment, datetime):
            return clock.local(moment).replace(tzinfo=UTC)
        return datetime.combine(moment, _END_OF_DAY, UTC)

    rule = read_rule(text.upper(), until)
    if length > _LONGEST_RECURRING:
        raise RefusedError(f"it recurs, and lasts {length.days} days; at most 366")
    _, times = next(LocalTimes(rule, start).days(start.toordinal()), (0, 0))
    if (number := times.bit_count()) > _MOST_A_DAY:
        raise RefusedError(f"it begins {number} times a day; at most {_MOST_A_DAY}")
    return rule
