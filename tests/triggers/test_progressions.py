"""What fires at equal distances: where it meets is worked out, not looked for."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers import (
    AllOfTrigger,
    AnyOfTrigger,
    CronTrigger,
    ExceptTrigger,
    IntervalTrigger,
    LimitedTrigger,
    RecurrenceTrigger,
    Trigger,
)
from go_scheduler.triggers.base import progression_of
from go_scheduler.triggers.combining import ProgressionTrigger
from tests.triggers.combinations import (
    BEGINNING,
    DAY,
    END,
    HOUR,
    MICROSECOND,
    NOON,
    SECOND,
    SteadyTrigger,
    listed,
)
from tests.triggers.cron_oracle import fire_times_until as series


def every(seconds: float, first: float = 0) -> IntervalTrigger:
    return IntervalTrigger(seconds * SECOND, NOON + first * SECOND)


END_OF_WALK = NOON + 4000 * SECOND
intervals = st.builds(every, st.integers(1, 30), st.integers(0, 60))


class TestProgressions:
    @settings(max_examples=60, deadline=None)
    @given(one=intervals, others=st.lists(intervals, min_size=1, max_size=3))
    @example(every(5, 3), [every(10, 8), every(10, 43)])
    @example(every(5, 3), [every(10, 4)])
    @example(every(1), [every(101), every(103), every(107, 1), every(109)])
    def test_they_are_combined_as_sets_of_instants(
        self, one: IntervalTrigger, others: list[IntervalTrigger]
    ) -> None:
        window = BEGINNING, END_OF_WALK
        times, *sets = (set(series(each, *window)) for each in (one, *others))
        for make, expected in (
            (lambda: AllOfTrigger([one, *others]), times.intersection(*sets)),
            (lambda: ExceptTrigger(one, others), times.difference(*sets)),
            (lambda: LimitedTrigger(one, start=NOON, limit=7), sorted(times)[:7]),
        ):
            try:
                assert series(make(), *window) == sorted(expected)
            except InvalidTriggerError:
                assert not expected

    @pytest.mark.parametrize("anchored", [True, False])
    @pytest.mark.parametrize(
        "rule",
        [
            "FREQ=WEEKLY;INTERVAL=3;WKST=SU",
            "FREQ=DAILY;INTERVAL=11",
            "FREQ=HOURLY;INTERVAL=7",
            "FREQ=MINUTELY;INTERVAL=1013",
            "FREQ=SECONDLY;INTERVAL=86399",
            "FREQ=SECONDLY",
        ],
    )
    def test_a_rule_that_only_counts_is_one(self, rule: str, anchored: bool) -> None:
        start = datetime(2026, 1, 1, 7, 8, 9, 10 * anchored, tzinfo=UTC)
        trigger = RecurrenceTrigger(rule, start=None if anchored else start)
        trigger = trigger.anchored(start)
        found = progression_of(trigger)
        assert found is not None
        for after in (BEGINNING, start - MICROSECOND, start, NOON, NOON + DAY, END):
            expected = trigger.next_fire_time(after)
            assert ProgressionTrigger(found).next_fire_time(after) == expected

    @pytest.mark.parametrize(
        "trigger",
        [
            RecurrenceTrigger("FREQ=HOURLY"),
            RecurrenceTrigger("FREQ=HOURLY", "Europe/Berlin", start=NOON),
            RecurrenceTrigger("FREQ=HOURLY;COUNT=3", start=NOON),
            RecurrenceTrigger("RDATE:20300602T120000Z", start=NOON),
            IntervalTrigger(HOUR),
        ],
    )
    def test_others_are_none(self, trigger: Trigger) -> None:
        assert progression_of(trigger) is None


class TestAllOf:
    def test_odd_steps_meet_once_in_years(self) -> None:
        trigger = AllOfTrigger([every(86_399), every(86_291, first=1), every(7, 1)])
        found = trigger.next_fire_time(NOON)
        assert found is not None
        assert (found - NOON) % (86_399 * SECOND) == 0 * SECOND
        assert (found - NOON - SECOND) % (86_291 * 7 * SECOND) == 0 * SECOND
        assert trigger.next_fire_time(found) == found + 86_399 * 86_291 * 7 * SECOND
        assert trigger.next_fire_time(END) is None

    def test_rules_and_intervals_meet_between_others(self) -> None:
        odd = RecurrenceTrigger("FREQ=SECONDLY;INTERVAL=1009", start=NOON)
        met = AllOfTrigger([odd, every(1013)])
        trigger = AllOfTrigger([met, every(0.25), CronTrigger("* * * * *")])
        assert trigger.next_fire_time(NOON) == NOON + 1009 * 1013 * 60 * SECOND

    def test_what_is_nested_meets_as_well(self) -> None:
        minutes = CronTrigger("* * * * *")
        inner = AllOfTrigger([every(1013), minutes])
        trigger = AllOfTrigger([AnyOfTrigger([every(1009)]), inner])
        assert trigger.next_fire_time(NOON) == NOON + 1009 * 1013 * 60 * SECOND
        assert progression_of(AnyOfTrigger([every(7), every(9)])) is None
        both = AllOfTrigger([every(7), every(9)])
        thrice = LimitedTrigger(both, start=NOON, limit=3)
        expected = [NOON + 63 * n * SECOND for n in range(3)]
        assert series(thrice, BEGINNING, END) == expected

    def test_the_one_that_fires_the_most_seldom_says_how_far_to_go_on(self) -> None:
        steady = [SteadyTrigger(7), SteadyTrigger(11, 1)]
        far = AllOfTrigger(steady).next_fire_time(NOON + 9000 * DAY)
        assert far is not None
        trigger = AllOfTrigger([*steady, listed(far)])
        SteadyTrigger.asked.clear()
        assert trigger.next_fire_time(NOON) == far
        assert len(SteadyTrigger.asked) < 10

    def test_many_meet_where_all_fire(self) -> None:
        trigger = AllOfTrigger([CronTrigger(f"*/{n} * * * *") for n in range(1, 13)])
        assert trigger.next_fire_time(NOON) == NOON + HOUR

    def test_what_never_meets_is_refused(self) -> None:
        for steps in ((every(2), every(4, 1)), (every(1013), every(2026, 0.5))):
            with pytest.raises(InvalidTriggerError, match="never fires"):
                AllOfTrigger(steps)
        apart = AllOfTrigger([IntervalTrigger(2 * SECOND), every(4, 1)])
        assert apart.next_fire_time(NOON) is None
        # Sets are asked of it where others beside it leave out many.
        minutes = CronTrigger("* * * * *")
        trigger = ExceptTrigger(AnyOfTrigger([apart, minutes]), minutes)
        assert trigger.next_fire_time(NOON) is None


def test_it_ends_where_the_last_exception_begins() -> None:
    trigger = ExceptTrigger(every(1009), [every(2018), every(2018, 1009 * 101)])
    expected = [NOON + 1009 * n * SECOND for n in range(1, 101, 2)]
    assert series(trigger, NOON, NOON + 300 * DAY) == expected


def test_an_equal_one_that_counts_from_elsewhere_leaves_the_rest() -> None:
    one = IntervalTrigger(2 * SECOND).anchored(NOON)
    other = IntervalTrigger(2 * SECOND).anchored(NOON + SECOND)
    assert one == other
    assert ExceptTrigger(one, other).next_fire_time(NOON) == NOON + 2 * SECOND
