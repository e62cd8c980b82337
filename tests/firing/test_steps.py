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

from go_scheduler.errors import InvalidTriggerError, StoreError, UnknownTriggerError
from go_scheduler.firing.latest import jitter_of
from go_scheduler.firing.steps import MOST_FIRE_TIMES, plan
from go_scheduler.models import Skipped, TaskDefinition
from go_scheduler.policies import CatchUp
from go_scheduler.stores.messages import Firing
from go_scheduler.testing.builders import HOUR, MINUTE, SECOND, TICK, WAITING
from go_scheduler.testing.clock import START
from go_scheduler.triggers import (
    CronTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    Trigger,
    UnknownTrigger,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ZERO = timedelta(0)
MILLISECOND = timedelta(milliseconds=1)
GRACE = MINUTE
AHEAD = 3 * SECOND
REASON = "missed by more than the grace of 0:01:00; a later fire time ran instead"


class Listed(Trigger):
    """Fires at some times, and notes what it is asked."""

    def __init__(self, *times: datetime) -> None:
        self.times = times
        self.asked: list[datetime] = []

    def next_fire_time(self, after: datetime) -> datetime | None:
        self.asked.append(after)
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


class Says(Trigger):
    def __init__(self, answer: object) -> None:
        self.answer = answer

    def next_fire_time(self, after: datetime) -> datetime | None:
        return self.answer  # type: ignore[return-value]


def at(*offsets: float) -> tuple[datetime, ...]:
    """So many seconds from the start each."""
    return tuple(START + timedelta(seconds=each) for each in offsets)


def every(interval: timedelta) -> IntervalTrigger:
    return IntervalTrigger(interval, anchor=START)


def due(
    trigger: Trigger, next_fire_time: datetime = START, *, catch_up: CatchUp
) -> TaskDefinition:
    return TaskDefinition(
        trigger=trigger, next_fire_time=next_fire_time, catch_up=catch_up
    )


def planned(
    trigger: Trigger,
    *,
    now: datetime,
    next_fire_time: datetime = START,
    grace: timedelta = GRACE,
    catch_up: CatchUp | None = None,
    ahead: timedelta = AHEAD,
) -> Firing:
    policy = catch_up or CatchUp(grace=grace)
    given = due(trigger, next_fire_time, catch_up=policy)
    firing = plan(given, now=now, until=now + ahead)
    assert firing.definition is given
    return firing


def skipped(*offsets: float, reason: str = REASON) -> Skipped:
    times = at(*offsets)
    return Skipped(first=times[0], last=times[-1], count=len(times), reason=reason)


def test_each_fire_time_up_to_the_end_becomes_an_instance() -> None:
    firing = planned(every(SECOND), now=START)
    assert firing.fire_times == at(0, 1, 2, 3)
    assert firing.next_fire_time == START + 4 * SECOND
    assert firing.skipped is None


def test_what_is_not_due_by_this_nodes_time_changes_nothing() -> None:
    # The store judged it to be due; this node's copy of its time is a little behind.
    firing = planned(every(HOUR), now=START - AHEAD - TICK)
    assert firing == Firing(
        definition=firing.definition, fire_times=(), next_fire_time=START
    )


def test_the_end_of_a_series_leaves_no_next_fire_time() -> None:
    firing = planned(Listed(*at(0, 1)), now=START)
    assert firing.fire_times == at(0, 1)
    assert firing.next_fire_time is None


def test_a_trigger_that_waits_fires_once_and_is_not_asked() -> None:
    firing = planned(WAITING, now=START + 100 * HOUR)
    assert firing.fire_times == (START,)
    assert firing.next_fire_time is None
    assert firing.skipped is None


def test_a_definition_whose_time_cannot_be_read_says_so() -> None:
    unreadable = TaskDefinition(trigger=UnknownTrigger("", None, "odd"))
    with pytest.raises(StoreError, match="next_fire_time cannot be read"):
        plan(unreadable, now=START, until=START)


def test_one_off_work_runs_however_late_it_is() -> None:
    firing = planned(ExecuteOnceTrigger(START), now=START + 100 * HOUR)
    assert firing.fire_times == (START,)
    assert firing.next_fire_time is None
    assert firing.skipped is None


def test_all_that_was_missed_within_the_grace_runs() -> None:
    firing = planned(every(20 * SECOND), now=at(50)[0])
    assert firing.fire_times == at(0, 20, 40)
    assert firing.next_fire_time == at(60)[0]
    assert firing.skipped is None


def test_what_was_missed_by_exactly_the_grace_runs() -> None:
    firing = planned(every(20 * SECOND), now=START + GRACE)
    assert firing.fire_times == at(0, 20, 40, 60)
    assert firing.skipped is None


def test_what_was_missed_by_more_than_the_grace_is_skipped() -> None:
    firing = planned(every(20 * SECOND), now=START + GRACE + TICK)
    assert firing.fire_times == at(20, 40, 60)
    assert firing.skipped == skipped(0)


def test_the_skipped_row_has_the_first_the_last_the_number_and_the_reason() -> None:
    firing = planned(every(20 * SECOND), now=at(130)[0])
    assert firing.fire_times == at(80, 100, 120)
    assert firing.skipped == skipped(0, 20, 40, 60)
    assert firing.next_fire_time == at(140)[0]


def test_the_latest_runs_if_nothing_was_missed_within_the_grace() -> None:
    firing = planned(every(HOUR), now=START + 5 * HOUR / 2)
    assert firing.fire_times == at(7200)
    assert firing.skipped == skipped(0, 3600)
    assert firing.next_fire_time == START + 3 * HOUR


def test_the_latest_runs_beside_what_fires_soon() -> None:
    times = at(0, 60, 150, 152)
    firing = planned(Listed(*times), now=at(149)[0], grace=10 * SECOND)
    assert firing.fire_times == at(60, 150, 152)
    assert firing.skipped == replace(
        skipped(0), reason=REASON.replace("0:01:00", "0:00:10")
    )


def test_a_fire_time_due_this_instant_is_the_latest() -> None:
    firing = planned(every(HOUR), now=START + 2 * HOUR, grace=ZERO)
    assert firing.fire_times == at(7200)
    assert firing.skipped is not None
    assert (firing.skipped.first, firing.skipped.last) == at(0, 3600)


def test_the_one_that_was_missed_runs_and_nothing_is_skipped() -> None:
    firing = planned(every(HOUR), now=START + HOUR / 2)
    assert firing.fire_times == (START,)
    assert firing.skipped is None
    assert firing.next_fire_time == START + HOUR


def test_the_latest_of_a_series_that_has_ended_runs() -> None:
    firing = planned(Listed(*at(0, 1, 2)), now=START + HOUR)
    assert firing.fire_times == at(2)
    assert firing.skipped == skipped(0, 1)
    assert firing.next_fire_time is None


def test_with_no_grace_only_the_latest_runs() -> None:
    firing = planned(every(SECOND), now=at(5.5)[0], grace=ZERO, ahead=ZERO)
    assert firing.fire_times == at(5)
    assert firing.skipped is not None
    assert firing.skipped.count == 5
    assert "grace of 0:00:00" in firing.skipped.reason


def test_a_grace_of_a_century_is_survived() -> None:
    century = timedelta(days=36_525)
    firing = planned(every(HOUR), now=START + 2 * HOUR, grace=century, ahead=ZERO)
    assert firing.fire_times == at(0, 3600, 7200)


def test_a_definition_that_does_not_say_is_caught_up_as_the_scheduler_says() -> None:
    silent = replace(due(every(20 * SECOND), catch_up=CatchUp()), catch_up=None)
    assert plan(silent, now=at(50)[0], until=at(50)[0]).fire_times == at(40)
    everything = CatchUp(mode="all")
    firing = plan(silent, now=at(50)[0], until=at(50)[0], catch_up=everything)
    assert firing.fire_times == at(0, 20, 40)


def test_all_that_was_missed_runs_oldest_first_a_thousand_in_a_step() -> None:
    everything = CatchUp(mode="all", grace=ZERO)
    now = at(1500)[0]
    first = planned(every(SECOND), now=now, catch_up=everything, ahead=ZERO)
    assert first.fire_times == at(*range(1000))
    assert first.skipped is None
    assert first.next_fire_time == at(1000)[0]
    second = planned(
        every(SECOND), now=now, next_fire_time=at(1000)[0], catch_up=everything
    )
    assert second.fire_times == at(*range(1000, 1504))


def test_all_is_caught_up_as_far_back_as_is_said() -> None:
    some = CatchUp(mode="all", within=2 * HOUR)
    firing = planned(every(HOUR), now=START + 5 * HOUR / 2, catch_up=some)
    assert firing.fire_times == at(3600, 7200)
    assert firing.skipped == skipped(
        0, reason="missed by more than 2:00:00, within which it would be caught up"
    )


def test_of_what_was_missed_nothing_runs_if_nothing_is_to_be_caught_up() -> None:
    nothing = CatchUp(mode="none", grace=MINUTE)
    firing = planned(every(HOUR), now=START + 5 * HOUR / 2, catch_up=nothing)
    assert firing.fire_times == ()
    assert firing.skipped == skipped(
        0,
        3600,
        7200,
        reason="missed by more than the grace of 0:01:00; of what was missed nothing is"
        " caught up",
    )
    assert firing.next_fire_time == START + 3 * HOUR
    in_time = planned(every(HOUR), now=START + HOUR + MINUTE, catch_up=nothing)
    assert in_time.fire_times == at(3600)


def test_the_latest_runs_only_if_it_is_not_too_late_for_that() -> None:
    some = CatchUp(within=HOUR / 2)
    in_time = planned(every(HOUR), now=START + 5 * HOUR / 2, catch_up=some)
    assert in_time.fire_times == at(7200)
    assert in_time.skipped is not None
    assert in_time.skipped.reason.endswith("; a later fire time ran instead")
    late = planned(every(HOUR), now=START + 5 * HOUR / 2 + TICK, catch_up=some)
    assert late.fire_times == ()
    assert late.skipped == skipped(
        0,
        3600,
        7200,
        reason="missed by more than 0:30:00, within which it would be caught up",
    )


def test_with_jitter_each_runs_later_and_fires_when_it_did() -> None:
    definition = replace(
        due(every(MINUTE), catch_up=CatchUp()), jitter=MINUTE, id=UUID(int=1)
    )
    firing = plan(definition, now=START, until=START + HOUR)
    assert firing.fire_times == at(*range(0, 3601, 60))
    later = [b - a for a, b in firing.instances()]
    assert all(ZERO <= each <= MINUTE for each in later)
    assert len(set(later)) == 61
    assert max(later) - min(later) > MINUTE / 2
    again = plan(replace(definition, id=UUID(int=1)), now=START, until=START + HOUR)
    assert again.execute_times == firing.execute_times
    other = plan(replace(definition, id=UUID(int=2)), now=START, until=START + HOUR)
    assert other.execute_times != firing.execute_times
    waits = plan(replace(definition, trigger=WAITING), now=START, until=START)
    assert [b - a for a, b in waits.instances()] == later[:1]


@pytest.mark.parametrize("mode", ["latest", "all", "none"])
@pytest.mark.parametrize("early", [1, 5000])
def test_with_jitter_what_is_late_is_judged_by_when_it_was_to_run(
    mode: Any, early: int
) -> None:
    policy = CatchUp(mode=mode, grace=10 * SECOND, within=20 * SECOND)
    definition = replace(
        due(every(SECOND), catch_up=policy), jitter=MINUTE, id=UUID(int=1)
    )
    now = START + early * SECOND + 2 * MINUTE
    firing = plan(definition, now=now, until=now)
    limit = 20 * SECOND if mode == "all" else 10 * SECOND
    series = [START + n * SECOND for n in range(early + 121)]
    in_time = [
        each for each in series if now - each - jitter_of(definition, each) <= limit
    ]
    assert list(firing.fire_times) == in_time
    assert firing.skipped is not None
    assert firing.skipped.first == START
    assert firing.skipped.last == max({*series} - {*in_time})
    if early == 1:
        assert firing.skipped.count == len(series) - len(in_time)


def test_with_jitter_the_latest_runs_if_all_were_to_have_run_long_ago() -> None:
    definition = replace(
        due(Listed(*at(0, 1, 2)), catch_up=CatchUp()), jitter=MINUTE, id=UUID(int=1)
    )
    late = [jitter_of(definition, each) for each in at(0, 1, 2)]
    now = max(each + by for each, by in zip(at(0, 1, 2), late, strict=True))
    firing = plan(definition, now=now + 10 * SECOND + TICK, until=now + MINUTE)
    assert firing.fire_times == at(2)
    assert firing.skipped is not None
    assert (firing.skipped.first, firing.skipped.last) == at(0, 1)
    only = replace(definition, trigger=Listed(START))
    firing = plan(only, now=START + 70 * SECOND, until=START + 2 * MINUTE)
    assert (firing.fire_times, firing.skipped) == ((START,), None)


DROPPED = "late by more than its drop_after of 0:05:00"


@pytest.mark.parametrize("mode", ["latest", "all", "none"])
def test_what_is_too_late_is_dropped_one_offs_too(mode: Any) -> None:
    policy = CatchUp(mode=mode, grace=10 * MINUTE, drop_after=5 * MINUTE)
    once = ExecuteOnceTrigger(START)
    in_time = planned(once, now=START + 5 * MINUTE, catch_up=policy)
    assert (in_time.fire_times, in_time.skipped) == ((START,), None)
    late = planned(once, now=START + 5 * MINUTE + TICK, catch_up=policy)
    assert (late.fire_times, late.next_fire_time) == ((), None)
    assert late.skipped == skipped(0, reason=DROPPED)


def test_what_is_dropped_in_favour_of_a_later_one_says_so() -> None:
    policy = CatchUp(grace=10 * MINUTE, drop_after=5 * MINUTE)
    firing = planned(every(4 * MINUTE), now=START + 9 * MINUTE, catch_up=policy)
    assert firing.fire_times == at(240, 480)
    assert firing.skipped == skipped(
        0, reason=f"{DROPPED}; a later fire time ran instead"
    )


def test_a_step_has_a_thousand_fire_times_at_most_and_the_next_goes_on() -> None:
    trigger = every(MILLISECOND)
    first = planned(trigger, now=START)
    assert len(first.fire_times) == MOST_FIRE_TIMES == 1000
    assert first.next_fire_time == START + SECOND
    second = planned(trigger, now=START, next_fire_time=START + SECOND)
    assert second.fire_times[0] == START + SECOND


def test_the_latest_that_was_missed_counts_among_the_thousand() -> None:
    times = (START, *(START + HOUR + number * TICK for number in range(1, 1200)))
    firing = planned(Listed(*times), now=START + HOUR)
    assert firing.fire_times == times[:1000]
    assert firing.next_fire_time == times[1000]


@pytest.mark.parametrize("missed", [1000, 1001])
def test_a_thousand_skipped_fire_times_are_counted_and_no_more(missed: int) -> None:
    firing = planned(every(SECOND), now=at(missed - 1)[0] + GRACE + TICK, ahead=ZERO)
    assert firing.skipped is not None
    assert (firing.skipped.first, firing.skipped.last) == at(0, missed - 1)
    assert firing.skipped.count == 1000
    assert firing.skipped.reason == (
        REASON
        if missed == 1000
        else f"{REASON}; there are more than the 1000 that were counted"
    )
    assert firing.fire_times == at(*range(missed, missed + 60))


TWO_WEEKS = timedelta(weeks=2)


def test_two_weeks_of_every_second_are_few_calls_and_one_row() -> None:
    trigger = Counted(every(SECOND))
    now = START + TWO_WEEKS
    firing = planned(trigger, now=now)
    assert firing.fire_times == tuple(now + n * SECOND for n in range(-60, 4))
    assert firing.next_fire_time == now + 4 * SECOND
    assert firing.skipped is not None
    assert firing.skipped.first == START
    assert firing.skipped.last == now - 61 * SECOND
    assert firing.skipped.count == 1000
    assert "more than the 1000 that were counted" in firing.skipped.reason
    assert len(trigger.asked) < 1250


def test_three_years_of_an_every_minute_cron_are_few_calls_and_one_row() -> None:
    trigger = Counted(CronTrigger("* * * * *"))
    now = START + timedelta(days=1096)
    firing = planned(trigger, now=now)
    assert firing.fire_times == (now - MINUTE, now)
    assert firing.skipped is not None
    assert (firing.skipped.first, firing.skipped.last) == (START, now - 2 * MINUTE)
    assert len(trigger.asked) < 1250


def test_the_latest_of_very_many_is_found_and_the_one_before_it() -> None:
    trigger = Counted(every(10 * SECOND))
    now = START + TWO_WEEKS + SECOND
    firing = planned(trigger, now=now, grace=ZERO)
    assert firing.fire_times == (START + TWO_WEEKS,)
    assert firing.skipped is not None
    assert firing.skipped.last == START + TWO_WEEKS - 10 * SECOND
    assert firing.skipped.count == 999
    assert "more than the 999 that were counted" in firing.skipped.reason
    assert len(trigger.asked) < 1250


@pytest.mark.parametrize("before", [0, 1, 2, 3, 7])
def test_bisection_is_exact_to_the_microsecond(before: int) -> None:
    firing = planned(Always(), now=START + HOUR - before * TICK, grace=ZERO)
    assert firing.skipped is not None
    assert firing.skipped.last == START + HOUR - (before + 1) * TICK
    assert firing.fire_times[0] == START + HOUR - before * TICK


def test_the_latest_is_found_before_a_long_silence() -> None:
    crowd = [START + number * SECOND for number in range(5000)]
    trigger = Listed(*crowd, START + TWO_WEEKS + HOUR)
    firing = planned(trigger, now=START + TWO_WEEKS)
    assert firing.fire_times == (crowd[-1],)
    assert firing.skipped is not None
    assert firing.skipped.last == crowd[-2]
    assert firing.next_fire_time == START + TWO_WEEKS + HOUR


def test_the_latest_is_found_where_it_is_the_last_instant_to_be_skipped() -> None:
    crowd = [START + number * SECOND for number in range(1001)]
    now = START + TWO_WEEKS
    edge = now - GRACE - TICK
    firing = planned(Listed(*crowd, edge, now), now=now)
    assert firing.fire_times == (now,)
    assert firing.skipped is not None
    assert firing.skipped.last == edge


def test_the_latest_is_found_where_a_series_ends() -> None:
    trigger = Listed(*(START + number * SECOND for number in range(5000)))
    firing = planned(trigger, now=START + TWO_WEEKS)
    assert firing.fire_times == at(4999)
    assert firing.next_fire_time is None


@pytest.mark.parametrize("late", [ZERO, HOUR])
@pytest.mark.parametrize(
    "answer", [START, START - SECOND, START.replace(tzinfo=None), "soon", 5]
)
def test_a_trigger_that_answers_no_later_time_is_refused(
    answer: object, late: timedelta
) -> None:
    with pytest.raises(InvalidTriggerError, match=r"test_steps\.Says"):
        planned(Says(answer), now=START + late)


def test_an_unknown_trigger_is_refused_by_its_own_reason() -> None:
    with pytest.raises(UnknownTriggerError, match="not installed"):
        planned(UnknownTrigger("gone", {}, "not installed"), now=START)


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
            firing = planned(
                trigger, now=now, next_fire_time=next_fire_time, grace=grace
            )
            assert firing.fire_times or firing.skipped
            assert len(firing.fire_times) <= MOST_FIRE_TIMES
            assert firing.next_fire_time is None or (
                firing.next_fire_time > next_fire_time
            )
            next_fire_time = firing.next_fire_time
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
