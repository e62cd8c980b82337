"""Every fire time becomes an instance or is covered by a skipped record, once."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from go_scheduler.errors import StoreError
from go_scheduler.firing.latest import jitter_of
from go_scheduler.firing.planner import Planner
from go_scheduler.firing.steps import MOST_FIRE_TIMES, plan
from go_scheduler.models import Skipped, TaskDefinition
from go_scheduler.policies import CatchUp
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    SECOND,
    TICK,
    WAITING,
    definition,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers import CronTrigger, IntervalTrigger, Trigger, UnknownTrigger

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from go_scheduler.stores.messages import Firing
    from go_scheduler.testing import ManualClock

ZERO = timedelta(0)
MILLISECOND = timedelta(milliseconds=1)
GRACE = MINUTE
AHEAD = 3 * SECOND


class Listed(Trigger):
    """Fires at some times."""

    def __init__(self, *times: datetime) -> None:
        self.times = times

    def next_fire_time(self, after: datetime) -> datetime | None:
        at = bisect_right(self.times, after)
        return self.times[at] if at < len(self.times) else None


class Counted(Trigger):
    """Fires as another one, and notes what it is asked."""

    def __init__(self, of: Trigger) -> None:
        self.of = of
        self.asked: list[datetime] = []

    def next_fire_time(self, after: datetime) -> datetime | None:
        self.asked.append(after)
        return self.of.next_fire_time(after)


class Always(Trigger):
    """Fires in every microsecond."""

    def next_fire_time(self, after: datetime) -> datetime | None:
        return after + TICK


def at(*offsets: float) -> tuple[datetime, ...]:
    """So many seconds from the start each."""
    return tuple(START + timedelta(seconds=each) for each in offsets)


def every(interval: timedelta) -> IntervalTrigger:
    return IntervalTrigger(interval, anchor=START)


def due(
    trigger: Trigger, next_fire_time: datetime = START, *, catch_up: CatchUp
) -> TaskDefinition:
    return definition(next_fire_time, trigger=trigger, catch_up=catch_up)


def planned(
    trigger: Trigger,
    *,
    now: datetime,
    next_fire_time: datetime = START,
    grace: timedelta = GRACE,
    ahead: timedelta = AHEAD,
) -> Firing:
    given = due(trigger, next_fire_time, catch_up=CatchUp(grace=grace))
    firing = plan(given, now=now, until=now + ahead)
    assert firing.definition is given
    return firing


CROWD = at(*range(5000))


def test_a_definition_whose_time_cannot_be_read_says_so() -> None:
    unreadable = TaskDefinition(trigger=UnknownTrigger("", None, "odd"))
    with pytest.raises(StoreError, match="next_fire_time cannot be read"):
        plan(unreadable, now=START, until=START)


NOW = START + timedelta(weeks=2)
YEARS = START + timedelta(days=1096)
EARLY = NOW - GRACE - TICK


@pytest.mark.parametrize(
    ("trigger", "now", "grace", "fire_times", "last", "count"),
    [
        (
            every(SECOND),
            NOW,
            GRACE,
            tuple(NOW + n * SECOND for n in range(-60, 4)),
            NOW - 61 * SECOND,
            1000,
        ),
        (
            CronTrigger("* * * * *"),
            YEARS,
            GRACE,
            (YEARS - MINUTE, YEARS),
            YEARS - 2 * MINUTE,
            1000,
        ),
        # The latest, and the one before it.
        (every(10 * SECOND), NOW + SECOND, ZERO, (NOW,), NOW - 10 * SECOND, 999),
        (Listed(*CROWD, NOW + HOUR), NOW, GRACE, CROWD[-1:], CROWD[-2], 999),
        (Listed(*CROWD), NOW, GRACE, CROWD[-1:], CROWD[-2], 999),
        (Listed(*CROWD[:1001], EARLY, NOW), NOW, GRACE, (NOW,), EARLY, 1000),
    ],
    ids=["seconds", "minutes", "tens", "a silence", "an end", "the last instant"],
)
def test_years_that_were_missed_are_few_calls_and_one_row(
    trigger: Trigger,
    now: datetime,
    grace: timedelta,
    fire_times: tuple[datetime, ...],
    last: datetime,
    count: int,
) -> None:
    counted = Counted(trigger)
    firing = planned(counted, now=now, grace=grace)
    assert firing.fire_times == fire_times
    assert firing.next_fire_time == trigger.next_fire_time(fire_times[-1])
    skipped = firing.skipped
    assert skipped is not None
    assert (skipped.first, skipped.last, skipped.count) == (START, last, count)
    assert f"more than the {count} that were counted" in skipped.reason
    assert len(counted.asked) < 1250


@pytest.mark.parametrize("before", [0, 1, 2, 3, 7])
def test_bisection_is_exact_to_the_microsecond(before: int) -> None:
    firing = planned(Always(), now=START + HOUR - before * TICK, grace=ZERO)
    assert firing.skipped is not None
    assert firing.skipped.last == START + HOUR - (before + 1) * TICK
    assert firing.fire_times[0] == START + HOUR - before * TICK


@pytest.mark.parametrize("mode", ["latest", "all", "none"])
@pytest.mark.parametrize("early", [1, 5000])
def test_with_jitter_what_is_late_is_judged_by_when_it_was_to_run(
    mode: Any, early: int
) -> None:
    policy = CatchUp(mode=mode, grace=10 * SECOND, within=20 * SECOND)
    jittered = replace(
        due(every(SECOND), catch_up=policy), jitter=MINUTE, id=UUID(int=1)
    )
    now = START + early * SECOND + 2 * MINUTE
    firing = plan(jittered, now=now, until=now)
    limit = 20 * SECOND if mode == "all" else 10 * SECOND
    series = [START + n * SECOND for n in range(early + 121)]
    in_time = [
        each for each in series if now - each - jitter_of(jittered, each) <= limit
    ]
    assert list(firing.fire_times) == in_time
    assert firing.skipped is not None
    assert firing.skipped.first == START
    assert firing.skipped.last == max({*series} - {*in_time})
    if early == 1:
        assert firing.skipped.count == len(series) - len(in_time)


def test_a_definition_that_names_no_jitter_has_the_default(
    clock: ManualClock,
) -> None:
    def never(_: TaskDefinition, error: Exception) -> None:
        raise error

    def asked(given: TaskDefinition, default: timedelta | None) -> Firing:
        planner = Planner(MemoryStore(clock), clock, jitter=default)
        [firing] = planner.plan(
            [given], now=START + 10 * SECOND, until=START + HOUR, failed=never
        ).firings
        assert firing.definition is given
        return firing

    for trigger in (every(SECOND), Listed(*at(0, 1, 2)), WAITING):
        plain = due(trigger, catch_up=CatchUp(grace=MINUTE))
        jittered, none = (replace(plain, jitter=each) for each in (MINUTE, ZERO))
        default = asked(plain, MINUTE)
        assert default == replace(asked(jittered, HOUR), definition=plain)
        assert default.execute_times != ()
        assert asked(none, HOUR) == replace(asked(plain, None), definition=none)
    with pytest.raises(StoreError, match="cannot be read"):
        asked(TaskDefinition(trigger=UnknownTrigger("", None, "odd")), MINUTE)


def test_with_jitter_the_latest_runs_if_all_were_to_have_run_long_ago() -> None:
    jittered = replace(
        due(Listed(*at(0, 1, 2)), catch_up=CatchUp()), jitter=MINUTE, id=UUID(int=1)
    )
    late = [jitter_of(jittered, each) for each in at(0, 1, 2)]
    now = max(each + by for each, by in zip(at(0, 1, 2), late, strict=True))
    firing = plan(jittered, now=now + 10 * SECOND + TICK, until=now + MINUTE)
    assert firing.fire_times == at(2)
    assert firing.skipped is not None
    assert (firing.skipped.first, firing.skipped.last) == at(0, 1)
    only = replace(jittered, trigger=Listed(START))
    firing = plan(only, now=START + 70 * SECOND, until=START + 2 * MINUTE)
    assert (firing.fire_times, firing.skipped) == ((START,), None)


class History(NamedTuple):
    """What became of a series over some ticks."""

    created: Sequence[datetime]
    skipped: Sequence[Skipped]
    next_fire_time: datetime | None


def live_through(
    trigger: Trigger, outages: Iterable[timedelta], grace: timedelta
) -> History:
    """Plan after each outage, for as long as there is more to do."""
    now = START
    next_fire_time: datetime | None = START
    created: list[datetime] = []
    rows: list[Skipped] = []
    for outage in outages:
        now += outage
        while next_fire_time is not None and next_fire_time <= now + AHEAD:
            before = next_fire_time
            firing = planned(trigger, now=now, next_fire_time=before, grace=grace)
            assert firing.fire_times or firing.skipped
            assert len(firing.fire_times) <= MOST_FIRE_TIMES
            next_fire_time = firing.next_fire_time
            assert next_fire_time is None or next_fire_time > before
            created += firing.fire_times
            rows += [firing.skipped] if firing.skipped else []
    return History(created, rows, next_fire_time)


def check(series: Sequence[datetime], history: History) -> None:
    """Each fire time up to the next one is created or skipped: not lost, not twice."""
    end = history.next_fire_time
    served = [each for each in series if end is None or each < end]
    covered = [
        each
        for each in series
        for row in history.skipped
        if row.first <= each <= row.last
    ]
    assert sorted([*history.created, *covered]) == served
    assert list(history.created) == sorted(history.created)
    for row in history.skipped:
        number = sum(row.first <= each <= row.last for each in series)
        assert {row.first, row.last} <= {*series}
        if "there are more than" in row.reason:
            assert number > row.count >= 999
        else:
            assert number == row.count


DURATIONS = st.integers(0, 300).map(lambda count: timedelta(seconds=count))
GRACES = st.sampled_from([ZERO, TICK, SECOND, GRACE])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 600_000), max_size=40),
    st.lists(DURATIONS, min_size=1, max_size=4),
    GRACES,
)
def test_no_fire_time_of_any_series_is_lost_or_created_twice(
    gaps: list[int], outages: list[timedelta], grace: timedelta
) -> None:
    series = [START]
    for gap in gaps:
        series.append(series[-1] + timedelta(milliseconds=gap))
    check(series, live_through(Listed(*series), outages, grace))


@settings(max_examples=15, deadline=None)
@given(
    st.integers(50_000, 5_000_000).map(lambda count: count * TICK),
    st.lists(DURATIONS, min_size=1, max_size=3),
    GRACES,
)
@example(50 * MILLISECOND, [299 * SECOND], ZERO)
@example(50 * MILLISECOND, [300 * SECOND, SECOND, 300 * SECOND], SECOND)
def test_no_fire_time_of_any_interval_is_lost_or_created_twice(
    interval: timedelta, outages: list[timedelta], grace: timedelta
) -> None:
    history = live_through(every(interval), outages, grace)
    assert history.next_fire_time is not None
    number = (history.next_fire_time - START) // interval
    assert history.next_fire_time == START + number * interval
    check([START + each * interval for each in range(number)], history)


def test_the_latest_of_what_was_missed_counts_among_the_thousand_of_a_step() -> None:
    ticks = (START, *(START + HOUR + number * TICK for number in range(1, 1200)))
    firing = planned(Listed(*ticks), now=START + HOUR)
    assert (firing.fire_times, firing.skipped) == (ticks[:1000], None)
    assert firing.next_fire_time == ticks[1000]
