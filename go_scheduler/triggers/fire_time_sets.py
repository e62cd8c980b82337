"""Fire times as sets of seconds, which find a rare one without trying every instant.

A trigger that is made of others is searched twice. At first ``compound.py``
tries one candidate after the other. That is quick, unless millions of candidates in a
row are left out. Then this module searches year by year:

* A ``Year`` has all fire times of one year. Most days of a year have equal times. So it
  keeps each set of times of day once, as a bitset of 86,400 seconds, together with the
  days that have it, as a bitset of 366 days. To unite, intersect or subtract two years
  takes one operation on two ints for each pair of such sets.
* A ``YearlySet`` gives the ``Year`` of any year. It stands for a cron expression, a
  rule, an interval or a calendar, or it is made of other sets: combined, within bounds,
  or read on the clock of a zone. Years with equal calendars are one ``Year`` object.
  What is made of a ``Year`` is cached by this object, so it is made once.
* ``FireTimes`` has the sets of a trigger: one for each microsecond of the second at
  which it can fire, mostly for 0 alone. Its search takes the first year that is not
  empty, and tries years with equal calendars only once. After 400 years all calendars
  have been tried, and there is no fire time.
* Each step takes some of a ``SearchBudget``. With ``UndecidedError`` a search gives up
  when nothing of it is left.

A limit, such as ``COUNT`` of a rule, is a ``RunningCount``: it adds up whole years.
"""

from __future__ import annotations

from bisect import bisect_left
from calendar import isleap
from datetime import MAXYEAR, UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import pairwise
from math import gcd
from sys import maxsize
from typing import (
    TYPE_CHECKING,
    Generic,
    TypeAlias,
    TypeVar,
    TypeVarTuple,
)

from go_scheduler.triggers.base import (
    Progression,
    Trigger,
    UndecidedError,
    is_of_own_class,
    progression_of,
    worked_out,
)
from go_scheduler.triggers.local_time import (
    LONG_GAP,
    SETTLED,
    changes,
    offset_at,
    year_alike,
)
from go_scheduler.triggers.times import DAY, MICROSECOND, SECOND, days_in

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Hashable,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from go_scheduler.triggers.local_time import WallClock

Key = TypeVar("Key", bound="Hashable")
Others = TypeVarTuple("Others")

BUDGET = 75_000
"""The cost that one question may have: about as many microseconds."""


class SearchBudget:
    """The amount of work that is left for one question.

    Args:
        most: How much there is.
    """

    __slots__ = ("_left",)

    def __init__(self, most: int = BUDGET) -> None:
        self._left = most

    def spend(self, amount: int) -> None:
        """Take away some of it.

        Raises:
            UndecidedError: There is nothing left.
        """
        self._left -= amount
        if self._left < 0:
            raise UndecidedError(
                "it could not be decided whether it fires: too many of its times are"
                " left out one by one"
            )


Operation: TypeAlias = "Callable[[int, int], int]"
"""An operation on two bitsets: ``int.__or__``, ``int.__and__`` or ``difference``."""

ALL_DAY = (1 << DAY) - 1
"""All seconds of a day."""

_HOUR = (1 << 3600) - 1

NEVER_PERIODIC = MAXYEAR + 1
"""The ``periodic_from`` of a set whose years are all different."""

_COST_OF_OPERATION = 7
_COMPARISONS_PER_UNIT = 16
_COST_OF_YEAR = 8
_COST_OF_ZONE = 60
_DAYS_PER_UNIT = 4
# Ten kilobytes each at most, and few for what is common.
_MOST_CACHED = 4096


def difference(bits: int, others: int) -> int:
    """What is in one bitset and not in another."""
    return bits & ~others


def _add(days_by_times: dict[int, int], times: int, days: int) -> None:
    """Note the times of some more days; hashes times, which is slow, mostly once."""
    if (known := days_by_times.setdefault(times, days)) != days:
        days_by_times[times] = known | days


def _window(begin: int, end: int) -> int:
    """The seconds of a day from one on and before another; these may be outside."""
    return max((1 << max(min(end, DAY), 0)) - (1 << max(begin, 0)), 0)


def lowest(bits: int) -> int:
    """The lowest number whose bit is set; there is one."""
    # Mostly one of an hour; a small int is quicker.
    bits = bits & _HOUR or bits
    return (bits & -bits).bit_length() - 1


def numbers_of(bits: int) -> Iterator[int]:
    """The numbers whose bits are set, in order."""
    digits = f"{bits:b}"[::-1]
    number = digits.find("1")
    while number >= 0:
        yield number
        number = digits.find("1", number + 1)


@lru_cache(maxsize=256)
def times_of_day(
    hours: Collection[int], minutes: Collection[int], seconds: Collection[int]
) -> int:
    """The seconds of a day with one of the hours, minutes and seconds, as bits."""
    minute = sum(1 << each for each in seconds)
    hour = sum(minute << 60 * each for each in minutes)
    return sum(hour << 3600 * each for each in hours)


class Year:
    """The seconds of one year at which something fires; compared by identity.

    Attributes:
        days_by_times: Bitsets of seconds of a day, and to each the bitset of the days
            of the year that have it; 1 January is the lowest bit. Every day has one of
            them: a day without any time has 0.
        length: How many days the year has.
    """

    def __init__(self, days_by_times: Mapping[int, int], length: int) -> None:
        self.days_by_times = days_by_times
        self.length = length

    @classmethod
    def of(cls, length: int, days_by_times: Iterable[tuple[int, int]]) -> Year:
        """A year with times on some days, and no times on the others."""
        found: dict[int, int] = {}
        rest = (1 << length) - 1
        for times, days in days_by_times:
            if days:
                _add(found, times, days)
                rest ^= days
        if rest:
            _add(found, 0, rest)
        return cls(found, length)

    @property
    def is_empty(self) -> bool:
        """Whether it has no times at all."""
        return len(self.days_by_times) == 1 and 0 in self.days_by_times

    @worked_out
    def total(self) -> int:
        """How many seconds it has."""
        return self.count_before(self.length * DAY)

    def combined(self, other: Year, operation: Operation, budget: SearchBudget) -> Year:
        """What an operation makes of two years, day by day."""
        found = _combined(self.days_by_times, other.days_by_times, operation, budget)
        return Year(found, self.length)

    def within(self, begin: int, end: int, budget: SearchBudget) -> Year:
        """The seconds from one second of the year on and before a later one."""
        last_second = self.length * DAY
        if begin <= 0 and end >= last_second:
            return self
        begin, end = max(begin, 0), min(end, last_second)
        first, last = begin // DAY, (end - 1) // DAY
        bounds = [
            (_window(begin - day * DAY, end - day * DAY), 1 << day)
            for day in {first, last}
        ]
        if last > first:
            bounds.append((ALL_DAY, (1 << last) - (2 << first)))
        return self.combined(Year.of(self.length, bounds), int.__and__, budget)

    def first_from(self, begin: int) -> int | None:
        """The first second from a second of the year on, if there is any."""
        today, second = divmod(begin, DAY)
        first: int | None = None
        for times, days in self.days_by_times.items():
            left = days >> today
            if not times or not left:
                continue
            if left & 1:
                if later := times >> second:
                    return begin + lowest(later)
                left ^= 1
            if left and (first is None or today + lowest(left) < first // DAY):
                first = (today + lowest(left)) * DAY + lowest(times)
        return first

    def count_before(self, end: int) -> int:
        """How many seconds there are before a second of the year."""
        today, second = divmod(end, DAY)
        total = 0
        for times, days in self.days_by_times.items():
            if times:
                total += times.bit_count() * (days & (1 << today) - 1).bit_count()
                if days >> today & 1:
                    total += (times & (1 << second) - 1).bit_count()
        return total


@lru_cache(maxsize=1024)
def on_days(length: int, days: int, times: int = ALL_DAY) -> Year:
    """The same times on some days of a year; the identical year for equal ones."""
    return Year.of(length, [(times, days)])


EMPTY = {length: Year.of(length, ()) for length in (365, 366)}
"""The years without any time, by their length."""


def _combined(
    one: Mapping[int, int],
    other: Mapping[int, int],
    operation: Operation,
    budget: SearchBudget,
) -> dict[int, int]:
    """What an operation makes of two mappings of days by times."""
    found: dict[int, int] = {}
    for times, days in one.items():
        rest, pairs = days, iter(other.items())
        # Every day is in one of them.
        while rest:
            others, other_days = next(pairs)
            if common := rest & other_days:
                _add(found, operation(times, others), common)
                budget.spend(_COST_OF_OPERATION)
                rest ^= common
    budget.spend(len(one) * len(other) // _COMPARISONS_PER_UNIT)
    return found


class CachedYears(Generic[Key, *Others]):
    """Makes years, and keeps them until they take much memory.

    Args:
        make: Makes a year. It is the same year whenever the first argument is equal.
    """

    def __init__(self, make: Callable[[Key, *Others], Year]) -> None:
        self._make = make
        self._years: dict[Key, Year] = {}
        self._left = _MOST_CACHED

    def __call__(self, key: Key, *others: *Others) -> Year:
        """The year that was made for a key, or is made now."""
        found = self._years.get(key)
        if found is None:
            found = self._make(key, *others)
            if self._left <= 0:
                self._years.clear()
                self._left = _MOST_CACHED
            self._left -= len(found.days_by_times)
            self._years[key] = found
        return found


class YearlySet:
    """A set of whole seconds, of UTC or of a local clock, known year by year.

    Attributes:
        year: Gives a year of it; raises UndecidedError if that costs too much.
        periodic_from: From this year on, years with equal calendars are alike.
    """

    __slots__ = ("periodic_from", "year")

    def __init__(
        self, year: Callable[[int, SearchBudget], Year], periodic_from: int = 0
    ) -> None:
        self.year = year
        self.periodic_from = periodic_from


NEVER = YearlySet(lambda year, budget: EMPTY[days_in(year)])
"""No second at all."""


def combine(operation: Operation, parts: Sequence[YearlySet]) -> YearlySet:
    """What an operation makes of several sets, from the first to the last."""
    if len(parts) == 1:
        return parts[0]
    first, *others = parts

    @CachedYears
    def both(pair: tuple[Year, Year], budget: SearchBudget) -> Year:
        return pair[0].combined(pair[1], operation, budget)

    def find(year: int, budget: SearchBudget) -> Year:
        found = first.year(year, budget)
        for each in others:
            if found.is_empty and operation is not int.__or__:
                break
            found = both((found, each.year(year, budget)), budget)
        return found

    return YearlySet(find, max(each.periodic_from for each in parts))


def bounded(times: YearlySet, begin: int, end: int = maxsize) -> YearlySet:
    """The seconds of a set from one second on and before another."""

    def find(year: int, budget: SearchBudget) -> Year:
        first, length = first_second(year), days_in(year)
        if end <= first or begin >= first + length * DAY:
            return EMPTY[length]
        return times.year(year, budget).within(begin - first, end - first, budget)

    bounds = [each for each in (begin, end) if each < maxsize]
    return YearlySet(find, max(times.periodic_from, *map(_year_after, bounds)))


def listed(seconds: Sequence[int], days: Collection[int] = ()) -> YearlySet:
    """A set of some seconds and some whole days.

    Args:
        seconds: In order.
        days: The ordinals of dates.
    """
    days = sorted(days)

    @CachedYears
    def find(year: int, budget: SearchBudget) -> Year:
        first, length = first_second(year), days_in(year)
        january = first // DAY + 1
        whole = 0
        for each in _between(days, january, january + length):
            whole |= 1 << each - january
        by_day: dict[int, int] = {}
        for each in _between(seconds, first, first + length * DAY):
            day, second = divmod(each - first, DAY)
            if not whole >> day & 1:
                by_day[day] = by_day.get(day, 0) | 1 << second
        if not by_day:
            return on_days(length, whole)
        budget.spend(_COST_OF_OPERATION * len(by_day))
        found = [(times, 1 << day) for day, times in by_day.items()]
        return Year.of(length, [(ALL_DAY, whole), *found])

    last = [*seconds[-1:], *((each - 1) * DAY for each in days[-1:])]
    return YearlySet(find, max(map(_year_after, last), default=0))


def whole_days(includes: Callable[[date], bool]) -> YearlySet:
    """All seconds of some days, each of which is asked for."""

    @CachedYears
    def find(year: int, budget: SearchBudget) -> Year:
        length, first = days_in(year), date(year, 1, 1).toordinal()
        budget.spend(length // _DAYS_PER_UNIT)
        days = map(date.fromordinal, range(first, first + length))
        bits = sum(1 << day for day, each in enumerate(days) if includes(each))
        return on_days(length, bits)

    return YearlySet(find, NEVER_PERIODIC)


def days_of(times: YearlySet) -> YearlySet:
    """All seconds of the days on which a set has any."""

    def find(year: int, budget: SearchBudget) -> Year:
        found = times.year(year, budget)
        days = sum(days for times, days in found.days_by_times.items() if times)
        return on_days(found.length, days)

    return YearlySet(find, times.periodic_from)


def equally_spaced(first: int, step: int) -> YearlySet:
    """A first second, and one after each so many more, for ever."""

    @CachedYears
    def make(key: tuple[int, int], budget: SearchBudget) -> Year:
        begin, length = key
        # To the first second of a day the days that begin so.
        by_first: dict[int, int] = {}
        for day in range(length):
            second = begin - day * DAY
            second = min(second % step if second < 0 else second, DAY)
            by_first[second] = by_first.get(second, 0) | 1 << day
        budget.spend(length // _DAYS_PER_UNIT + _COST_OF_YEAR * len(by_first))
        multiples = multiples_of(step)
        found = ((multiples << at & ALL_DAY, by_first[at]) for at in by_first)
        return Year.of(length, found)

    def find(year: int, budget: SearchBudget) -> Year:
        # From the beginning of the year: years alike have begun alike.
        begin, length = first - first_second(year), days_in(year)
        begin = min(begin % step if begin < 0 else begin, length * DAY)
        return make((begin, length), budget)

    is_weekly = 7 * DAY % step == 0
    return YearlySet(find, _year_after(first) if is_weekly else NEVER_PERIODIC)


@lru_cache(maxsize=64)
def multiples_of(step: int) -> int:
    """The multiples of a number of seconds within a day, as bits."""
    number = (DAY - 1) // step + 1
    return ((1 << number * step) - 1) // ((1 << step) - 1) if number > 1 else 1


def first_second(year: int) -> int:
    """The number of the first second of a year; 0 is that of the year 1."""
    return (date(year, 1, 1).toordinal() - 1) * DAY


def _year_after(second: int) -> int:
    """A year that begins after a second, so that not even its eve is near it."""
    return second // (365 * DAY) + 3


def _between(numbers: Sequence[int], first: int, end: int) -> Sequence[int]:
    return numbers[bisect_left(numbers, first) : bisect_left(numbers, end)]


class ZonedSet(YearlySet):
    """The seconds at which the clock of a zone shows certain local times.

    Attributes:
        local: The local times.
        clock: How they become instants.
    """

    __slots__ = ("clock", "local")

    def __init__(self, local: YearlySet, clock: WallClock) -> None:
        read = CachedYears(_read_on_clock)

        def find(year: int, budget: SearchBudget) -> Year:
            before, this, after = (
                local.year(each, budget) if 1 <= each <= MAXYEAR else EMPTY[365]
                for each in (year - 1, year, year + 1)
            )
            # Years alike have the same.
            alike = year if year <= SETTLED else year_alike(year)
            key = before, this, after, _changes(clock.zone, alike)
            return read(key, clock, budget)

        super().__init__(find, max(local.periodic_from, SETTLED + 1))
        self.local = local
        self.clock = clock


def on_clock(local: YearlySet, clock: WallClock) -> YearlySet:
    """The seconds at which a clock shows certain local times; see ``next_instant``."""
    return local if clock.zone is UTC else ZonedSet(local, clock)


def union(parts: Sequence[YearlySet]) -> YearlySet:
    """The seconds that are in any of several sets.

    Local times of the same clock are put together before they are read on it.
    """
    by_clock: dict[WallClock, list[YearlySet]] = {}
    found: list[YearlySet] = []
    for each in parts:
        if isinstance(each, ZonedSet):
            by_clock.setdefault(each.clock, []).append(each.local)
        else:
            found.append(each)
    found += [
        ZonedSet(combine(int.__or__, local), clock) for clock, local in by_clock.items()
    ]
    return combine(int.__or__, found)


Change: TypeAlias = tuple[int, int, int]
"""A second of a year at which an offset changes, and the offsets before and after."""

_SECOND = timedelta(seconds=1)
_LONG_GAP = LONG_GAP // _SECOND


@lru_cache(maxsize=4096)
def _changes(zone: tzinfo, year: int) -> Sequence[Change]:
    """The changes of a zone's offset in and near a year, between two bounds."""
    new_year = datetime(year, 1, 1, tzinfo=UTC)
    # Changes further away make no difference, and would tell alike years apart.
    low, high = -2 * DAY, (days_in(year) + 2) * DAY
    found = [
        (second, before // _SECOND, after // _SECOND)
        for each in range(max(year - 1, 1), min(year + 1, MAXYEAR) + 1)
        for at, before, after in changes(zone, each)
        if low < (second := (at - new_year) // _SECOND) < high
    ]
    first = found[0][1] if found else offset_at(new_year, zone) // _SECOND
    last = found[-1][2] if found else first
    return (low, first, first), *found, (high, last, last)


def _read_on_clock(
    key: tuple[Year, Year, Year, Sequence[Change]],
    clock: WallClock,
    budget: SearchBudget,
) -> Year:
    """A year of UTC, of the local years before, at and after it."""
    budget.spend(_COST_OF_ZONE)
    length = key[1].length
    local = _with_neighbours(key[:3])
    spans: list[tuple[int, int, int]] = []
    # The times of the days on which a span begins or ends.
    edges: dict[int, int] = {}
    for (begin, before, ahead), (end, _, after) in pairwise(key[3]):
        gap = after - ahead
        is_filled = clock.gap == "next" and 0 < gap < _LONG_GAP
        is_inside = 0 <= end < length * DAY
        if is_filled and is_inside and _has_times(local, end + ahead, gap):
            edges[end // DAY] = edges.get(end // DAY, 0) | 1 << end % DAY
        if clock.overlap == "first":
            begin += max(before - ahead, 0)
        if clock.overlap == "second":
            end += min(gap, 0)
        spans.append((begin, end, ahead))
        for each in (begin, end):
            edges.setdefault(each // DAY, 0)
    edges = {day: times for day, times in edges.items() if 0 <= day < length}
    found: list[tuple[int, int]] = []
    for begin, end, ahead in spans:
        first, last = max(begin // DAY, 0), min(-(-end // DAY), length)
        touched = max((1 << max(last, 0)) - (1 << first), 0)
        for times, days in _shifted(local, ahead, touched, budget):
            for day in edges:
                if days >> day & 1:
                    window = _window(begin - day * DAY, end - day * DAY)
                    edges[day] |= times & window
                    days ^= 1 << day
            found.append((times, days))
    found += ((times, 1 << day) for day, times in edges.items())
    return Year.of(length, found)


def _with_neighbours(around: Sequence[Year]) -> Mapping[int, int]:
    """The local days of a year, with one day before them and one after."""
    before, year, after = (each.days_by_times.items() for each in around)
    new_years_eve, new_year = around[0].length - 1, around[1].length + 1
    joined = [
        *((times, days << 1) for times, days in year),
        *((times, days >> new_years_eve) for times, days in before),
        *((times, (days & 1) << new_year) for times, days in after),
    ]
    return Year.of(new_year + 1, joined).days_by_times


def _shifted(
    local: Mapping[int, int], ahead: int, plain: int, budget: SearchBudget
) -> Iterable[tuple[int, int]]:
    """The seconds of some days of UTC, each of which has parts of two local days."""
    day, second = divmod(ahead, DAY)

    def joined(times: int, following: int) -> int:
        return times >> second | (following & (1 << second) - 1) << DAY - second

    today, tomorrow = (
        {times: on for times, days in local.items() if (on := days >> by & plain)}
        for by in (1 + day, 2 + day)
    )
    if second == 0:
        return today.items()
    return _combined(today, tomorrow, joined, budget).items()


def _has_times(local: Mapping[int, int], begin: int, number: int) -> bool:
    """Whether there are times in a few local seconds, which two days may have."""
    day, second = divmod(begin, DAY)
    # The day before the year is the first of them.
    today, tomorrow = (
        next((times for times, days in local.items() if days >> each & 1), 0)
        for each in (day + 1, day + 2)
    )
    return (today | tomorrow << DAY) >> second & (1 << number) - 1 != 0


LONGEST_SEARCH = 400
"""After so many years without a fire time there is none: all calendars have passed."""

_MOST_MICROSECONDS = 8


class FireTimes:
    """All fire times of a trigger.

    Args:
        microseconds: The microseconds of a second at which it can fire; None: they are
            more than a few, so that it can be searched only together with others.
        at: Gives the seconds at which it fires, so many microseconds later.
    """

    def __init__(
        self, microseconds: frozenset[int] | None, at: Callable[[int], YearlySet]
    ) -> None:
        self.microseconds = microseconds
        self.at = at

    @worked_out
    def _sets(self) -> Mapping[int, YearlySet]:
        return {each: self.at(each) for each in sorted(self.microseconds or ())}

    def next(
        self,
        start: datetime,
        leap: Callable[[datetime], datetime | None],
        budget: SearchBudget,
    ) -> datetime | None:
        """The first one at or after an instant.

        Args:
            start: The instant.
            leap: Tells before which instant there is none, asked about the beginning
                of a year; None: nothing comes any more.
            budget: What the search may cost.

        Returns:
            None: there is none, or none for 400 years.

        Raises:
            UndecidedError: That costs too much.
        """
        periodic_from = max(
            (each.periodic_from for each in self._sets.values()), default=0
        )
        last = start.year if periodic_from > MAXYEAR else max(start.year, periodic_from)
        last = min(last + LONGEST_SEARCH, MAXYEAR)
        tried: set[Hashable] = set()
        is_whole = False
        while True:
            calendar = _calendar_of(start.year)
            if is_new := calendar not in tried:
                budget.spend(_COST_OF_YEAR)
                if (found := self._first_in_year(start, budget)) is not None:
                    return found
                if is_whole and start.year >= periodic_from:
                    tried.add(calendar)
            if start.year >= last:
                return None
            start, is_whole = datetime(start.year + 1, 1, 1, tzinfo=UTC), True
            if is_new:
                if (following := leap(start)) is None:
                    return None
                # There is nothing before it, so that its year is whole without that.
                start = max(start, following)

    def _first_in_year(self, start: datetime, budget: SearchBudget) -> datetime | None:
        begin = microsecond_of(start)
        found = []
        for microsecond, times in self._sets.items():
            year = times.year(start.year, budget)
            first = year.first_from(-((microsecond - begin) // SECOND))
            if first is not None:
                found.append(first * SECOND + microsecond)
        return start + (min(found) - begin) * MICROSECOND if found else None

    def count(self, year: int, until: int, budget: SearchBudget) -> int:
        """How many there are in a year, before a microsecond of it."""
        return sum(
            times.year(year, budget).count_before(-((microsecond - until) // SECOND))
            for microsecond, times in self._sets.items()
        )

    def total(self, year: int, budget: SearchBudget) -> int:
        """How many there are in a whole year."""
        return sum(each.year(year, budget).total for each in self._sets.values())


def fire_times_of(trigger: Trigger) -> FireTimes | None:
    """The fire times of a trigger; None: a third party's are not known as sets."""
    if not is_of_own_class(trigger):
        return None
    if (found := progression_of(trigger)) is not None:
        return FireTimes(_microseconds_of(found), lambda each: _seconds_of(found, each))
    return trigger._fire_times()


def fire_times_of_all(triggers: Sequence[Trigger]) -> Sequence[FireTimes] | None:
    """The fire times of several triggers; None: those of one are not known as sets."""
    found = [fire_times_of(each) for each in triggers]
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) else None


def at_one_microsecond(times: YearlySet, microsecond: int = 0) -> FireTimes:
    """The fire times that all follow a whole second by so many microseconds."""
    return FireTimes(
        frozenset((microsecond,)),
        lambda asked: times if asked == microsecond else NEVER,
    )


def _microseconds_of(progression: Progression) -> frozenset[int] | None:
    first, step = progression
    number = SECOND // gcd(step, SECOND)
    if number > _MOST_MICROSECONDS:
        return None
    return frozenset((first + index * step) % SECOND for index in range(number))


def _seconds_of(progression: Progression, microsecond: int) -> YearlySet:
    """The whole seconds before the instants at a microsecond of their second."""
    first, step = progression
    common = gcd(step, SECOND)
    if (microsecond - first) % common:
        return NEVER
    cycle = SECOND // common
    ahead = (microsecond - first) // common * pow(step // common, -1, cycle) % cycle
    return equally_spaced((first + ahead * step) // SECOND, step // common)


class RunningCount:
    """How many fire times there are from an instant on; each year is counted once.

    Attributes:
        first_year: The year of the instant.
        most: Where it stops counting: there may be so many, or more.

    Args:
        times: The fire times.
        begin: The instant; or a local time, if they are local.
        most: Where to stop.
    """

    def __init__(self, times: FireTimes, begin: datetime, most: int) -> None:
        self._times = times
        self._begin = begin
        self.first_year = begin.year
        self.most = most
        # Before each year that has been counted up to.
        self._before: dict[int, int] = {}

    def before(self, year: int, until: int, budget: SearchBudget) -> int:
        """How many there are before a microsecond of a year that is not too early."""
        found = self.before_year(year, budget)
        if found >= self.most:
            return found
        return found + self._times.count(year, until, budget)

    def before_year(self, year: int, budget: SearchBudget) -> int:
        """How many there are before a year that is not too early."""
        if not self._before:
            begin = microsecond_of(self._begin)
            passed = self._times.count(self.first_year, begin, budget)
            self._before[self.first_year] = -passed
        for each in range(max(self._before), year):
            if self._before[each] >= self.most:
                return self._before[each]
            budget.spend(_COST_OF_YEAR)
            total = self._before[each] + self._times.total(each, budget)
            self._before[each + 1] = total
        return self._before[year]


def counted(
    times: YearlySet, count: RunningCount, *, microsecond: int = 0
) -> YearlySet:
    """The seconds of a set until a count reaches its limit.

    Args:
        times: The set.
        count: The count.
        microsecond: So many microseconds after its seconds its instants are.
    """

    def find(year: int, budget: SearchBudget) -> Year:
        def is_over(second: int) -> bool:
            until = second * SECOND + microsecond
            return count.before(year, until, budget) >= count.most

        length = days_in(year)
        if year < count.first_year or count.before_year(year, budget) >= count.most:
            return EMPTY[length]
        found = times.year(year, budget)
        if count.before_year(year + 1, budget) <= count.most:
            return found
        end = bisect_left(range(length * DAY), True, key=is_over)
        return found.within(0, end, budget)

    return YearlySet(find, NEVER_PERIODIC)


def microsecond_of(moment: datetime) -> int:
    """The number of a microsecond in its year."""
    new_year = moment.replace(month=1, day=1, hour=0, minute=0, second=0, microsecond=0)
    return (moment - new_year) // MICROSECOND


def _calendar_of(year: int) -> Hashable:
    """A key that years share which have, with those around them, the same calendars."""
    # The year 2000 is as good as the year 10000.
    year = 2000 + year % 400
    leap_years = [isleap(each) for each in (year - 1, year, year + 1)]
    return date(year, 1, 1).weekday(), *leap_years
