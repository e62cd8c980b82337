"""Fire times as sets of seconds, which find a rare one without trying every instant.

A trigger that is made of others is searched twice. At first ``combining/compound.py``
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
from datetime import MAXYEAR, UTC, date, datetime, timedelta
from functools import cached_property, lru_cache
from math import gcd
from sys import maxsize
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, TypeAlias

from go_scheduler.triggers.base import (
    Progression,
    Trigger,
    UndecidedError,
    is_of_own_class,
    progression_of,
)
from go_scheduler.triggers.times import DAY, MICROSECOND, SECOND, days_in
from go_scheduler.triggers.wall.local_time import (
    LONG_GAP,
    SETTLED,
    periods_of,
    year_alike,
)

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Hashable,
        Iterable,
        Mapping,
        Sequence,
    )
    from datetime import tzinfo

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


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


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

    @cached_property
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
        if end <= 0 or begin >= min(end, last_second):
            return EMPTY[self.length]
        first, after = divmod(max(begin, 0), DAY)
        last, before = divmod(min(end, last_second), DAY)
        morning, evening = (1 << before) - 1, ALL_DAY >> after << after
        if first == last:
            bounds = [(morning & evening, 1 << first)]
        else:
            between = (1 << last) - (2 << first)
            bounds = [(evening, 1 << first), (ALL_DAY, between)]
            if before:
                bounds.append((morning, 1 << last))
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
                    return begin + _lowest(later)
                left ^= 1
            if left and (first is None or today + _lowest(left) < first // DAY):
                first = (today + _lowest(left)) * DAY + _lowest(times)
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
def _all_of_days(days: int, length: int) -> Year:
    """All seconds of some days; the identical year for equal days."""
    return Year.of(length, [(ALL_DAY, days)])


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


P = ParamSpec("P")


class YearCache:
    """Years by what they were made of. It forgets all when they take much memory."""

    def __init__(self) -> None:
        self._years: dict[Hashable, Year] = {}
        self._left = _MOST_CACHED

    def get(
        self,
        key: Hashable,
        make: Callable[P, Year],
        *args: P.args,
        **options: P.kwargs,
    ) -> Year:
        """The year that was made for a key, or is made now."""
        found = self._years.get(key)
        if found is None:
            found = make(*args, **options)
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
    cache = YearCache()

    def find(year: int, budget: SearchBudget) -> Year:
        found = first.year(year, budget)
        for each in others:
            if found.is_empty and operation is not int.__or__:
                break
            other = each.year(year, budget)
            found = cache.get((found, other), found.combined, other, operation, budget)
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
    cache = YearCache()

    def make(year: int, budget: SearchBudget) -> Year:
        first, length = first_second(year), days_in(year)
        by_day: dict[int, int] = {}
        for each in _between(seconds, first, first + length * DAY):
            day, second = divmod(each - first, DAY)
            by_day[day] = by_day.get(day, 0) | 1 << second
        january = first // DAY + 1
        for each in _between(days, january, january + length):
            by_day[each - january] = ALL_DAY
        if not by_day:
            return EMPTY[length]
        budget.spend(_COST_OF_OPERATION * len(by_day))
        return Year.of(length, ((times, 1 << day) for day, times in by_day.items()))

    def find(year: int, budget: SearchBudget) -> Year:
        return cache.get(year, make, year, budget)

    last = [*seconds[-1:], *((each - 1) * DAY for each in days[-1:])]
    return YearlySet(find, max(map(_year_after, last), default=0))


def whole_days(
    includes: Callable[[date], bool], *, by_weekday: bool = False
) -> YearlySet:
    """All seconds of some days.

    Args:
        includes: Whether a day is one of them.
        by_weekday: Whether it depends on the day of the week alone.
    """
    cache = YearCache()

    def make(first: date, length: int, budget: SearchBudget) -> Year:
        budget.spend(length // _DAYS_PER_UNIT)
        ordinals = range(first.toordinal(), first.toordinal() + length)
        days = sum(
            1 << day
            for day, ordinal in enumerate(ordinals)
            if includes(date.fromordinal(ordinal))
        )
        return _all_of_days(days, length)

    def find(year: int, budget: SearchBudget) -> Year:
        first, length = date(year, 1, 1), days_in(year)
        key = (first.weekday(), length) if by_weekday else year
        return cache.get(key, make, first, length, budget)

    return YearlySet(find, 0 if by_weekday else NEVER_PERIODIC)


def days_of(times: YearlySet) -> YearlySet:
    """All seconds of the days on which a set has any."""
    cache = YearCache()

    def make(year: Year) -> Year:
        days = sum(days for times, days in year.days_by_times.items() if times)
        return _all_of_days(days, year.length)

    def find(year: int, budget: SearchBudget) -> Year:
        found = times.year(year, budget)
        return cache.get(found, make, found)

    return YearlySet(find, times.periodic_from)


def equally_spaced(first: int, step: int) -> YearlySet:
    """A first second, and one after each so many more, for ever."""
    cache = YearCache()

    def make(begin: int, length: int, budget: SearchBudget) -> Year:
        # To the first second of a day the days that begin so.
        by_first: dict[int, int] = {}
        for day in range(length):
            second = begin - day * DAY
            second = min(second % step if second < 0 else second, DAY)
            by_first[second] = by_first.get(second, 0) | 1 << day
        budget.spend(length // _DAYS_PER_UNIT + _COST_OF_YEAR * len(by_first))
        multiples = multiples_of(step)
        return Year.of(
            length,
            (
                (multiples << second & ALL_DAY, days)
                for second, days in by_first.items()
            ),
        )

    def find(year: int, budget: SearchBudget) -> Year:
        # From the beginning of the year: years alike have begun alike.
        begin, length = first - first_second(year), days_in(year)
        begin = min(begin % step if begin < 0 else begin, length * DAY)
        return cache.get((begin, length), make, begin, length, budget)

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


class Clock(NamedTuple):
    """How the local times of a zone become instants; see ``next_instant``."""

    zone: tzinfo
    fills_gaps: bool
    overlap: str


class ZonedSet(YearlySet):
    """The seconds at which the clock of a zone shows certain local times.

    Attributes:
        local: The local times.
        clock: How they become instants.
    """

    __slots__ = ("clock", "local")

    def __init__(self, local: YearlySet, clock: Clock) -> None:
        cache = YearCache()

        def find(year: int, budget: SearchBudget) -> Year:
            around = [
                local.year(each, budget) if 1 <= each <= MAXYEAR else EMPTY[365]
                for each in (year - 1, year, year + 1)
            ]
            # Years alike have the same.
            alike = year if year <= SETTLED else year_alike(year)
            offsets = _offsets(clock.zone, alike)
            key = (*around, offsets)
            return cache.get(key, _read_on_clock, around, offsets, clock, budget)

        super().__init__(find, max(local.periodic_from, SETTLED + 1))
        self.local = local
        self.clock = clock


def in_zone(
    local: YearlySet,
    zone: tzinfo,
    *,
    elapsed: bool = True,
    gap: str = "next",
    overlap: str = "first",
) -> YearlySet:
    """The seconds at which a clock shows certain local times; see ``next_instant``."""
    if zone is UTC:
        return local
    fills_gaps = gap == "next" and not elapsed
    return ZonedSet(local, Clock(zone, fills_gaps, "both" if elapsed else overlap))


def union(parts: Sequence[YearlySet]) -> YearlySet:
    """The seconds that are in any of several sets.

    Local times of the same clock are put together before they are read on it.
    """
    by_clock: dict[Clock, list[YearlySet]] = {}
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


class _Offset(NamedTuple):
    """A time throughout which a zone keeps one offset, in seconds of a year of UTC.

    Attributes:
        begin: Its first second.
        anew: The first one at which the clock does not repeat what it showed before.
        repeats: The first one whose local time is shown again after ``end``.
        end: The first second after it.
        ahead: How far the clock is ahead of UTC.
        gap: How many local times are skipped at ``end``.
    """

    begin: int
    anew: int
    repeats: int
    end: int
    ahead: int
    gap: int


_SECOND = timedelta(seconds=1)
_LONG_GAP = LONG_GAP // _SECOND
_EPOCH_LOCAL = datetime(1970, 1, 1)  # noqa: DTZ001 (local times are naive)


@lru_cache(maxsize=4096)
def _offsets(zone: tzinfo, year: int) -> Sequence[_Offset]:
    """The offsets of a zone throughout a year, in their order."""
    new_year, end = datetime(year, 1, 1, tzinfo=UTC), days_in(year) * DAY
    # Changes further away make no difference, and would tell alike years apart.
    low, high = -2 * DAY, end + 2 * DAY
    found = []
    for period in periods_of(zone, year):
        begin = max((period.begin - new_year) // _SECOND, low)
        finish = min(-((new_year - period.end) // _SECOND), high)
        gap = max(period.resumes - period.closes, timedelta()) // _SECOND
        found.append(
            _Offset(
                begin,
                begin + (period.anew - period.opens) // _SECOND * (begin > low),
                finish - (period.closes - period.repeats) // _SECOND * (finish < high),
                finish,
                (period.epoch - _EPOCH_LOCAL) // _SECOND,
                gap * (finish < high),
            )
        )
    return tuple(found)


def _read_on_clock(
    around: Sequence[Year],
    offsets: Sequence[_Offset],
    clock: Clock,
    budget: SearchBudget,
) -> Year:
    """A year of UTC, of the local years before, at and after it."""
    budget.spend(_COST_OF_ZONE)
    length = around[1].length
    local = _with_neighbours(around)
    found: list[tuple[int, int]] = []
    changing = (1 << length) - 1
    for offset in offsets:
        first = max(offset.anew // DAY + 1, 0)
        last = max(offset.repeats // DAY, first)
        plain = (1 << last) - (1 << first) & changing
        changing ^= plain
        found += _shifted(local, offset.ahead, plain, budget)
    while changing:
        day = _lowest(changing)
        changing ^= 1 << day
        found.append((_times_of_change(local, offsets, day, clock), 1 << day))
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


def _times_of_change(
    local: Mapping[int, int], offsets: Sequence[_Offset], day: int, clock: Clock
) -> int:
    """The seconds of a day of UTC on or near which the offset changes."""
    times = 0
    first, last = day * DAY, (day + 1) * DAY
    for offset in offsets:
        begin = offset.anew if clock.overlap == "first" else offset.begin
        end = offset.repeats if clock.overlap == "second" else offset.end
        begin, end = max(begin, first), min(end, last)
        if begin < end:
            shown = _local_seconds(local, begin + offset.ahead, end - begin)
            times |= shown << begin - first
        if (
            clock.fills_gaps
            and 0 < offset.gap < _LONG_GAP
            and first <= offset.end < last
            and _local_seconds(local, offset.end + offset.ahead, offset.gap)
        ):
            times |= 1 << offset.end - first
    return times


def _local_seconds(local: Mapping[int, int], begin: int, number: int) -> int:
    """So many local seconds from one on, that one as the lowest bit."""
    found = taken = 0
    while taken < number:
        day, second = divmod(begin + taken, DAY)
        # The day before the year is the first of them.
        times = next((each for each, days in local.items() if days >> day + 1 & 1), 0)
        found |= times >> second << taken
        taken += DAY - second
    return found & (1 << number) - 1


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

    @cached_property
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
