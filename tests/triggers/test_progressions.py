"""What fires at equal distances: where it meets is worked out, not looked for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
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
)
from go_scheduler.triggers.base import Progression, next_fire_time_of, progression_of
from go_scheduler.triggers.combining.progressions import (
    ProgressionTrigger,
    covered_from,
    meeting,
)
from tests.triggers.combinations import (
    BEGINNING,
    DAY,
    END,
    HOUR,
    MICROSECOND,
    NOON,
    SECOND,
    ListedTrigger,
    SteadyTrigger,
    examples,
    listed,
    series,
)

if TYPE_CHECKING:
    from go_scheduler.triggers import Trigger

progressions = st.builds(Progression, st.integers(0, 60), st.integers(1, 30))


def every(seconds: float, first: float = 0) -> IntervalTrigger:
    return IntervalTrigger(seconds * SECOND, NOON + first * SECOND)


def members(one: Progression, until: int) -> set[int]:
    return set(range(one.first, until, one.step))


class TestProgressions:
    @examples
    @given(one=progressions, other=progressions)
    def test_two_meet_where_both_have_an_instant(
        self, one: Progression, other: Progression
    ) -> None:
        common = members(one, 5000) & members(other, 5000)
        met = meeting(one, other)
        assert common == (members(met, 5000) if met else set())

    @examples
    @given(one=progressions, others=st.lists(progressions, max_size=4))
    @example(Progression(3, 5), [Progression(8, 10), Progression(43, 10)])
    @example(Progression(3, 5), [Progression(4, 10)])
    @example(Progression(3, 5), [])
    def test_one_is_covered_where_others_leave_nothing_of_it(
        self, one: Progression, others: list[Progression]
    ) -> None:
        left = members(one, 30_000).difference(
            *(members(each, 30_000) for each in others)
        )
        end = covered_from(one, others)
        assert (end is None) == (max(left, default=0) > 20_000)
        assert end is None or max(left, default=-1) < end

    def test_what_takes_too_long_to_find_out_stays_open(self) -> None:
        others = [Progression(0, prime) for prime in (101, 103, 107, 109)]
        assert covered_from(Progression(0, 1), others) is None
        assert covered_from(Progression(0, 1), [*others, Progression(7, 1)]) == 7

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
            RecurrenceTrigger("FREQ=MONTHLY", start=NOON),
            RecurrenceTrigger("RRULE:FREQ=DAILY\nEXDATE:20300602T120000Z", start=NOON),
            RecurrenceTrigger("RDATE:20300602T120000Z", start=NOON),
            RecurrenceTrigger("RRULE:FREQ=DAILY\nRRULE:FREQ=WEEKLY", start=NOON),
            IntervalTrigger(HOUR),
            CronTrigger("* * * * *"),
            ListedTrigger(),
            AllOfTrigger([CronTrigger("0 * * * *"), every(60)]),
        ],
    )
    def test_others_are_none(self, trigger: Trigger) -> None:
        assert progression_of(trigger) is None

    def test_every_second_is_one_in_any_zone(self) -> None:
        for trigger in (
            CronTrigger("* * * * * * *", "Europe/Berlin"),
            RecurrenceTrigger("FREQ=SECONDLY", "Europe/Berlin", start=NOON),
        ):
            found = progression_of(trigger)
            assert found is not None
            assert found.step == 10**6
            for after in (NOON, NOON + 147 * DAY + HOUR / 7):
                expected = trigger.next_fire_time(after)
                assert ProgressionTrigger(found).next_fire_time(after) == expected


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


class TestExcept:
    def test_what_is_left_out_whole_never_fires(self) -> None:
        odd = RecurrenceTrigger("FREQ=SECONDLY;INTERVAL=1009")
        assert ExceptTrigger(odd, odd).next_fire_time(NOON) is None
        halves = [every(2018), every(2018, 1009)]
        with pytest.raises(InvalidTriggerError, match="never fires"):
            ExceptTrigger(every(1009), halves)
        for trigger in (CronTrigger("0 9 * * 1"), every(1009)):
            with pytest.raises(InvalidTriggerError, match="never fires"):
                ExceptTrigger(trigger, trigger)

    def test_it_ends_where_the_last_exception_begins(self) -> None:
        trigger = ExceptTrigger(every(1009), [every(2018), every(2018, 1009 * 101)])
        expected = [NOON + 1009 * n * SECOND for n in range(1, 101, 2)]
        assert series(trigger, NOON, NOON + 300 * DAY) == expected

    def test_an_equal_one_that_counts_from_elsewhere_leaves_the_rest(self) -> None:
        one = IntervalTrigger(2 * SECOND).anchored(NOON)
        other = IntervalTrigger(2 * SECOND).anchored(NOON + SECOND)
        assert one == other
        assert ExceptTrigger(one, other).next_fire_time(NOON) == NOON + 2 * SECOND


class TestLimited:
    @examples
    @given(
        step=st.sampled_from([0.003, 1.5, 61, 1013, 10**6]),
        first=st.integers(-3000, 3000),
        limit=st.sampled_from([1, 2, 50]),
    )
    def test_a_limit_needs_no_counting(
        self, step: float, first: int, limit: int
    ) -> None:
        plain = every(step, first)
        trigger = LimitedTrigger(plain, start=NOON, limit=limit)
        expected: list[datetime] = []
        at = NOON - MICROSECOND
        for _ in range(limit):
            found = next_fire_time_of(plain, at)
            assert found is not None
            expected, at = [*expected, found], found
        assert series(trigger, BEGINNING, END) == expected
        assert series(AnyOfTrigger([trigger]), BEGINNING, END) == expected
