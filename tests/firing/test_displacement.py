"""Each time on the wall fires once, whenever and however the rules of a zone change."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from go_scheduler.firing.steps import DisplacedError, LastFired, plan
from go_scheduler.models import TaskDefinition
from go_scheduler.triggers import (
    CronTrigger,
    ExceptTrigger,
    IntervalTrigger,
    LimitedTrigger,
    RecurrenceTrigger,
    Trigger,
    dump_trigger,
    load_trigger,
)
from go_scheduler.triggers.local_time import load_zone
from tests.zones import ZONE, Zones, zones_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from go_scheduler.stores.messages import Firing

BEGIN = datetime(2030, 6, 3, tzinfo=UTC)
"""A Monday."""

HOUR = timedelta(hours=1)
DAY = 24 * HOUR
AHEAD = timedelta(seconds=3)
LONG_ENOUGH = 40 * DAY


@contextmanager
def zones_of(folder: Path, then: float = 1) -> Iterator[Zones]:
    """The data of a zone that is so many hours ahead."""
    with zones_in(folder) as zones:
        zones.write(then=then)
        yield zones


@pytest.fixture
def zones(tmp_path: Path) -> Iterator[Zones]:
    with zones_of(tmp_path) as zones:
        yield zones


@contextmanager
def lives(
    cron: str, before: float, heard: datetime, *, looks: bool = True
) -> Iterator[tuple[Zones, Life]]:
    """A zone, and a definition that has lived by it until a change is heard of."""
    with (
        tempfile.TemporaryDirectory() as folder,
        zones_of(Path(folder), before) as zones,
    ):
        life = Life(CronTrigger(cron, ZONE), looks=looks)
        yield zones, life.goes_on_until(heard)


class Life:
    """A definition through the months: what the loops do to it, and nothing else.

    Args:
        trigger: Its trigger.
        looks: Whether somebody walks over it after a change.
        remembers: Whether it is known what has fired last.
    """

    def __init__(
        self, trigger: Trigger, *, looks: bool = True, remembers: bool = True
    ) -> None:
        self.now = BEGIN
        self.fired: list[datetime] = []
        """The fire times, in the order in which they got their instances."""
        self.late: list[timedelta] = []
        self.next = trigger.first_fire_time(BEGIN)
        self._stored = dump_trigger(trigger)
        self._looks = looks
        self._remembers = remembers

    @property
    def trigger(self) -> Trigger:
        """Its trigger, as a new process reads it."""
        return load_trigger(*self._stored)

    def goes_on_until(self, end: datetime) -> Life:
        if self._looks:
            self._step()
        while self.next is not None and self.next - AHEAD <= end:
            self.now = max(self.now, self.next - AHEAD)
            self._step()
        self.now = end
        return self

    def _step(self) -> None:
        if self.next is None:
            return
        firing = self._planned()
        for each in firing.fire_times:
            if each not in self.fired:
                self.fired.append(each)
                self.late.append(max(self.now - each, timedelta(0)))
        self.next = firing.next_fire_time

    def _planned(self) -> Firing:
        given = TaskDefinition(trigger=self.trigger, next_fire_time=self.next)
        until = self.now + AHEAD
        try:
            return plan(given, now=self.now, until=until)
        except DisplacedError:
            last = self.fired[-1] if self.fired and self._remembers else None
            return plan(given, now=self.now, until=until, last=LastFired(last))


def shown(fired: Sequence[datetime]) -> Sequence[str]:
    """What a clock in UTC shows, and on which day."""
    return [f"{each:%d %H:%M}" for each in fired]


DAILY = "0 9 * * *"
FIVE_DAYS = "FREQ=DAILY;COUNT=5;BYHOUR=9;BYMINUTE=0;BYSECOND=0"
NOON = BEGIN + 2 * DAY + 12 * HOUR
"""Five hours after it has fired on the third day, and a long time before the next."""


def test_what_has_fired_and_comes_again_by_old_data_does_not_fire_again(
    zones: Zones,
) -> None:
    # As written by a node of a version that does not look.
    zones.bring(then=2)
    fired, again = BEGIN + 7 * HOUR, BEGIN + 8 * HOUR
    given = TaskDefinition(trigger=CronTrigger(DAILY, ZONE), next_fire_time=again)
    firing = plan(given, now=fired, until=again, last=LastFired(fired))
    assert firing.fire_times == ()
    assert firing.next_fire_time == BEGIN + DAY + 7 * HOUR


def test_what_is_written_down_beyond_the_end_of_a_series_fires_all_the_same(
    zones: Zones,
) -> None:
    # Rather one run too many than one too few.
    zones.bring(then=2)
    fired, again = BEGIN + 7 * HOUR, BEGIN + 8 * HOUR
    trigger = LimitedTrigger(CronTrigger(DAILY, ZONE), start=BEGIN, limit=1)
    given = TaskDefinition(trigger=trigger, next_fire_time=again)
    firing = plan(given, now=fired, until=again, last=LastFired(fired))
    assert firing.fire_times == (again,)
    assert firing.next_fire_time is None


def test_a_time_in_a_new_gap_fires_at_its_end_and_a_repeated_one_the_first_time(
    zones: Zones,
) -> None:
    life = Life(CronTrigger("30 2 * * *", ZONE))
    life.goes_on_until(BEGIN + 12 * HOUR)
    forward, back = BEGIN + DAY + HOUR, BEGIN + 6 * DAY + HOUR
    zones.bring((forward, 1), (back, 2), then=1)
    life.goes_on_until(BEGIN + 8 * DAY)
    assert shown(life.fired[:3]) == ["03 01:30", "04 01:00", "05 00:30"]
    assert shown(life.fired[-2:]) == ["09 00:30", "10 01:30"]


@pytest.mark.parametrize("then", [0, 2, 1.5])
def test_what_follows_elapsed_time_goes_on(then: float, zones: Zones) -> None:
    life = Life(CronTrigger("*/30 * * * *", ZONE))
    life.goes_on_until(NOON)
    zones.bring(then=then)
    life.goes_on_until(NOON + DAY)
    assert life.fired == [
        BEGIN + number * HOUR / 2 for number in range(1, len(life.fired) + 1)
    ]


@pytest.mark.parametrize("then", [0, 2])
@pytest.mark.parametrize(
    ("make", "number"),
    [
        (lambda cron: LimitedTrigger(cron, start=BEGIN, limit=5), 5),
        (lambda cron: LimitedTrigger(cron, start=BEGIN, end=BEGIN + 4.5 * DAY), 5),
        (lambda _: RecurrenceTrigger(FIVE_DAYS, ZONE, start=BEGIN), 5),
        (lambda cron: ExceptTrigger(cron, CronTrigger("* * 5 * *", ZONE)), 9),
    ],
)
def test_limits_ends_and_counts_are_right(
    make: Callable[[Trigger], Trigger], number: int, then: float, zones: Zones
) -> None:
    life = Life(make(CronTrigger(DAILY, ZONE)))
    life.goes_on_until(BEGIN + DAY + 12 * HOUR)
    zones.bring(then=then)
    life.goes_on_until(BEGIN + 10 * DAY)
    assert len(life.fired) == len({f"{each:%d}" for each in life.fired}) == number


def test_intervals_and_what_reads_utc_are_not_asked_where_they_stand() -> None:
    for trigger in (IntervalTrigger(HOUR), CronTrigger(DAILY)):
        given = TaskDefinition(trigger=trigger, next_fire_time=BEGIN + HOUR / 3)
        firing = plan(given, now=BEGIN, until=BEGIN)
        assert firing.next_fire_time == given.next_fire_time


def test_without_a_history_what_is_nearest_is_what_is_meant(zones: Zones) -> None:
    trigger = CronTrigger("0 9,15 * * *", ZONE)
    afternoon = BEGIN + 14 * HOUR
    zones.bring((BEGIN + 12 * HOUR, 1), then=0)
    given = TaskDefinition(trigger=trigger, next_fire_time=afternoon)
    noon = BEGIN + 12 * HOUR
    firing = plan(given, now=noon, until=noon, last=LastFired(None))
    assert firing.fire_times == ()
    assert firing.next_fire_time == afternoon + HOUR


def test_without_a_history_what_comes_before_it_after_a_night_fires_as_well(
    zones: Zones,
) -> None:
    life = Life(CronTrigger("0 9-17 * * *", ZONE), remembers=False)
    life.goes_on_until(BEGIN + 17 * HOUR)
    zones.bring((BEGIN + 18 * HOUR, 1), then=2)
    life.goes_on_until(BEGIN + 2 * DAY)
    assert shown(life.fired)[8:11] == ["03 16:00", "04 07:00", "04 08:00"]


@pytest.mark.parametrize("then", [0, -1])
def test_without_a_history_nothing_before_it_fires_as_it_may_have_run(
    then: float, zones: Zones
) -> None:
    life = Life(CronTrigger("0 9,17 * * *", ZONE), remembers=False)
    life.goes_on_until(BEGIN + DAY + 8.5 * HOUR)
    zones.bring(then=then)
    life.goes_on_until(BEGIN + 2 * DAY)
    assert len(life.fired) == 4
    assert life.fired[-1] == BEGIN + DAY + (17 - then) * HOUR


@dataclass(frozen=True)
class LaterTrigger(Trigger):
    """Counts from where it is asked, on the clock of a zone."""

    kind: ClassVar[str] = "displacement.later"

    timezone: str
    every: timedelta

    def next_fire_time(self, after: datetime) -> datetime:
        local = after.astimezone(load_zone(self.timezone)) + self.every
        return local.astimezone(UTC)


@pytest.mark.parametrize("hours", [1, 13, 24, 200])
def test_what_counts_from_where_it_is_asked_fires_as_it_was_planned(
    hours: int, zones: Zones
) -> None:
    life = Life(LaterTrigger(ZONE, hours * HOUR)).goes_on_until(BEGIN + 20 * DAY)
    zones.bring(then=2)
    life.goes_on_until(BEGIN + LONG_ENOUGH)
    count = (LONG_ENOUGH + AHEAD) // (hours * HOUR)
    assert life.fired == [BEGIN + n * hours * HOUR for n in range(1, count + 1)]


@pytest.mark.parametrize("hours", [-20, 20])
def test_what_no_change_of_clocks_explains_stays_as_it_was_planned(
    hours: float, zones: Zones
) -> None:
    # As when a calendar is registered anew, that has other days.
    trigger = CronTrigger("0 9 1 * *", ZONE)
    planned = datetime(2030, 7, 1, 8, tzinfo=UTC) + hours * HOUR
    given = TaskDefinition(trigger=trigger, next_fire_time=planned)
    with pytest.raises(DisplacedError):
        plan(given, now=BEGIN, until=BEGIN)
    firing = plan(given, now=BEGIN, until=BEGIN, last=LastFired(None))
    assert firing.next_fire_time == planned


def test_the_last_time_of_a_series_stays_where_the_rules_leave_none(
    zones: Zones,
) -> None:
    trigger = LimitedTrigger(CronTrigger(DAILY, ZONE), end=BEGIN + 8.5 * HOUR)
    life = Life(trigger)
    zones.bring(then=0)
    life.goes_on_until(BEGIN + 2 * DAY)
    assert shown(life.fired) == ["03 08:00"]
    assert life.next is None


OFFSETS = st.integers(-5 * 4, 5 * 4).map(lambda quarters: quarters / 4)
# In a gap of three hours nothing fires.
SHIFTS = st.integers(-20, 11).map(lambda quarters: quarters / 4)
MOMENTS = st.integers(2 * 24 * 60, 20 * 24 * 60).map(
    lambda minutes: BEGIN + minutes * HOUR / 60
)
FEW_TIMES = st.builds(
    "{} {} {} * {}".format,
    st.integers(0, 59),
    st.integers(0, 23),
    st.sampled_from(["*", "1,15", "*/3"]),
    st.sampled_from(["*", "1-5"]),
)
MANY_TIMES = st.builds(
    "{} {} * * *".format,
    st.sampled_from(["0", "15,45", "7-9", "0,20,40"]),
    st.lists(st.integers(0, 23), min_size=1, max_size=8, unique=True).map(
        lambda hours: ",".join(map(str, hours))
    ),
)


@pytest.mark.slow
@given(
    cron=FEW_TIMES | MANY_TIMES,
    before=OFFSETS,
    by=SHIFTS,
    heard=MOMENTS,
    later=st.integers(1, 20 * 24).map(lambda hours: hours * HOUR),
)
def test_heard_of_in_time_each_time_fires_once_and_on_time(
    cron: str, before: float, by: float, heard: datetime, later: timedelta
) -> None:
    with lives(cron, before, heard) as (zones, life):
        zones.bring((heard + later, before), then=before + by)
        life.goes_on_until(BEGIN + LONG_ENOUGH)
        assert life.fired == all_of(life.trigger)
        assert set(life.late) <= {timedelta(0)}


def days_of(fired: Sequence[datetime]) -> list[date]:
    """On which days a clock on the wall has shown these."""
    zone = load_zone(ZONE)
    return [each.astimezone(zone).date() for each in fired]


def all_of(trigger: Trigger) -> Sequence[datetime]:
    found = []
    following = trigger.next_fire_time(BEGIN)
    while following is not None and following <= BEGIN + LONG_ENOUGH + AHEAD:
        found.append(following)
        following = trigger.next_fire_time(following)
    return found


@pytest.mark.slow
@given(
    cron=FEW_TIMES,
    before=OFFSETS,
    by=SHIFTS,
    heard=MOMENTS,
    looks=st.booleans(),
)
def test_heard_of_too_late_each_day_has_its_one_time_all_the_same(
    cron: str, before: float, by: float, heard: datetime, looks: bool
) -> None:
    with lives(cron, before, heard, looks=looks) as (zones, life):
        days = days_of(life.fired)
        zones.bring(then=before + by)
        life.goes_on_until(BEGIN + LONG_ENOUGH)
        days += days_of(life.fired[len(days) :])
        assert days == sorted(set(days))
        expected = days_of(all_of(life.trigger))
        assert days[1:-1] == [each for each in expected if days[0] < each < days[-1]]


@pytest.mark.slow
@given(cron=MANY_TIMES, before=OFFSETS, by=SHIFTS, heard=MOMENTS)
def test_heard_of_too_late_what_fires_many_times_goes_on_by_the_new_rules(
    cron: str, before: float, by: float, heard: datetime
) -> None:
    with lives(cron, before, heard) as (zones, life):
        number = len(life.fired)
        zones.bring(then=before + by)
        life.goes_on_until(BEGIN + LONG_ENOUGH)
        fired = life.fired[number:]
        assert fired == [each for each in all_of(life.trigger) if each >= fired[0]]
        assert fired[0] - heard < 36 * HOUR
        assert life.fired == sorted(set(life.fired))
