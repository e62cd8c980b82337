from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers import (
    CronTrigger,
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    Trigger,
    UnknownTrigger,
)
from go_scheduler.triggers.base import UndecidedError
from go_scheduler.triggers.combining import (
    AllOfTrigger,
    AnyOfTrigger,
    LimitedTrigger,
    OnlyTrigger,
)
from go_scheduler.triggers.combining.compound import MOST_PARTS, FireTimeSearch
from tests.triggers.combinations import (
    DAILY,
    DAY,
    HOUR,
    HOURLY,
    LONG,
    NOON,
    SECOND,
    ListedTrigger,
    NamelessTrigger,
    SteadyTrigger,
    Suite,
    Unshowable,
    brief,
    crons,
    examples,
    leaves,
    listed,
    nested,
    of,
    series,
    windows,
)


@of(
    AnyOfTrigger([DAILY]),
    AnyOfTrigger([CronTrigger("30 1 * * 1-5"), DAILY, ExecuteOnceTrigger(NOON)]),
    AnyOfTrigger(
        [IntervalTrigger(7 * HOUR), AnyOfTrigger([IntervalTrigger(DAY, NOON)])]
    ),
    AnyOfTrigger([listed(NOON, NOON + DAY), LimitedTrigger(DAILY, end=NOON)]),
    AnyOfTrigger([ExecuteOnceTrigger(NOON)]),
)
class TestAnyOfTrigger(Suite):
    """The laws; what follows is its own."""


@of(
    AllOfTrigger([DAILY]),
    AllOfTrigger([CronTrigger("*/20 * * * *"), CronTrigger("*/15 9-17 * * 1-5")]),
    AllOfTrigger([IntervalTrigger(36 * HOUR, NOON), IntervalTrigger(25 * HOUR, NOON)]),
    AllOfTrigger([AnyOfTrigger([DAILY, HOURLY]), OnlyTrigger(HOURLY, "tests.june")]),
    AllOfTrigger([ExecuteOnceTrigger(NOON), CronTrigger("0 12 * * *")]),
)
class TestAllOfTrigger(Suite):
    """The laws; what follows is its own."""


class TestSets:
    """Each is what it would be with sets of instants."""

    @examples
    @given(parts=st.lists(leaves, min_size=1, max_size=4), window=windows)
    def test_any_of_is_the_union(
        self, parts: list[Trigger], window: tuple[datetime, datetime]
    ) -> None:
        union = {each for part in parts for each in series(part, *window)}
        assert series(AnyOfTrigger(parts), *window) == sorted(union)

    @settings(max_examples=15, deadline=None)
    @given(parts=st.lists(crons, min_size=1, max_size=3), window=windows)
    def test_all_of_is_the_intersection(
        self, parts: list[Trigger], window: tuple[datetime, datetime]
    ) -> None:
        common = set.intersection(*(set(series(part, *window)) for part in parts))
        try:
            trigger = AllOfTrigger(parts)
        except InvalidTriggerError:
            assert not common
        else:
            assert series(trigger, *window) == sorted(common)


class TestAnyOf:
    def test_an_instant_fires_once(self) -> None:
        trigger = AnyOfTrigger([DAILY, HOURLY, DAILY])
        assert series(trigger, NOON, NOON + DAY) == series(HOURLY, NOON, NOON + DAY)

    def test_one_that_stands_in_two_places_is_asked_for_both(self) -> None:
        trigger = AnyOfTrigger([AllOfTrigger([DAILY, HOURLY]), HOURLY])
        assert trigger.next_fire_time(NOON + 2 * HOUR) == NOON + 3 * HOUR

    def test_it_goes_on_without_what_has_ended(self) -> None:
        trigger = AnyOfTrigger([ExecuteOnceTrigger(NOON), DAILY])
        assert trigger.next_fire_time(NOON) == DAILY.next_fire_time(NOON)
        ended = AnyOfTrigger([ExecuteOnceTrigger(NOON), ExecuteOnceTrigger(NOON - DAY)])
        assert ended.next_fire_time(NOON) is None

    def test_what_is_past_when_it_is_scheduled_does_not_fire(self) -> None:
        trigger = AnyOfTrigger(
            [ExecuteOnceTrigger(NOON - DAY), ExecuteOnceTrigger(NOON)]
        )
        assert trigger.first_fire_time(NOON - HOUR) == NOON

    def test_a_search_that_takes_long_does_not_hold_up_the_others(self) -> None:
        seldom = AllOfTrigger([SteadyTrigger(1000), SteadyTrigger(1001)])
        trigger = AnyOfTrigger([SteadyTrigger(90), seldom])
        SteadyTrigger.asked.clear()
        begin = datetime(1970, 1, 2, tzinfo=UTC)
        assert trigger.next_fire_time(begin) == begin + 90 * SECOND
        assert len(SteadyTrigger.asked) < 10

    def test_what_cannot_be_decided_of_a_part_is_left_open(self) -> None:
        seldom = AllOfTrigger([SteadyTrigger(1000), SteadyTrigger(1001)])
        trigger = AnyOfTrigger([seldom, SteadyTrigger(500_000, 1)])
        begin = datetime(1970, 1, 2, tzinfo=UTC)
        assert trigger.next_fire_time(begin) == begin + 413_601 * SECOND
        with pytest.raises(UndecidedError, match="before 1970-01-02 05:"):
            FireTimeSearch(trigger, most=20).next_fire_time(begin)


class TestAllOf:
    def test_it_steps_from_the_rarer_to_the_rarer(self) -> None:
        trigger = AllOfTrigger([SteadyTrigger(1), SteadyTrigger(10**8)])
        SteadyTrigger.asked.clear()
        assert trigger.next_fire_time(NOON) == SteadyTrigger(10**8).next_fire_time(NOON)
        assert len(SteadyTrigger.asked) < 10

    def test_friday_the_thirteenth(self) -> None:
        trigger = AllOfTrigger([CronTrigger("0 9 * * 5"), CronTrigger("0 9 13 * *")])
        found = series(trigger, NOON, NOON + 1000 * DAY)
        assert [f"{each:%Y-%m-%d}" for each in found] == [
            "2030-09-13",
            "2030-12-13",
            "2031-06-13",
            "2032-02-13",
            "2032-08-13",
        ]

    def test_it_ends_with_the_first_that_ends(self) -> None:
        trigger = AllOfTrigger([DAILY, LimitedTrigger(HOURLY, end=NOON)])
        assert trigger.next_fire_time(NOON) is None
        trigger = AllOfTrigger([LimitedTrigger(HOURLY, end=NOON), DAILY])
        assert trigger.next_fire_time(NOON) is None

    def test_at_a_change_of_the_clocks_times_may_meet(self) -> None:
        # 02:30 does not exist that day and fires at 03:00, and so does 03:00.
        new_york = "America/New_York"
        trigger = AllOfTrigger(
            [CronTrigger("30 2 * * *", new_york), CronTrigger("0 3 * * *", new_york)]
        )
        found = trigger.next_fire_time(datetime(2024, 1, 1, tzinfo=UTC))
        assert found == datetime(2024, 3, 10, 3, tzinfo=ZoneInfo(new_york))

    @pytest.mark.parametrize(
        "parts",
        [
            [CronTrigger("0 9 * * *"), CronTrigger("0 10 * * *")],
            [CronTrigger("0 9 * * 1"), CronTrigger("0 9 * * 2")],
            [ExecuteOnceTrigger(NOON), ExecuteOnceTrigger(NOON + DAY)],
            [IntervalTrigger(HOUR, NOON), CronTrigger("30 * * * *")],
            [ListedTrigger(), DAILY],
        ],
    )
    def test_what_has_nothing_in_common_is_refused(self, parts: list[Trigger]) -> None:
        with pytest.raises(InvalidTriggerError, match="no common fire time") as caught:
            AllOfTrigger(parts)
        assert str(caught.value).startswith("all_of: it never fires: ")

    def test_what_may_have_something_in_common_is_not(self) -> None:
        trigger = AllOfTrigger([SteadyTrigger(10), SteadyTrigger(10, 5)])
        (warning,) = trigger.warnings(NOON)
        assert "whether it fires after 2030-06-01 12:00 could not be" in warning
        with pytest.raises(InvalidTriggerError, match="could not be decided"):
            trigger.next_fire_time(NOON)

    def test_a_search_ends_after_so_many_candidates(self) -> None:
        trigger = AllOfTrigger([SteadyTrigger(1000), SteadyTrigger(1001)])
        meets = datetime(1970, 1, 1, tzinfo=UTC) + 1_001_000 * SECOND
        begin = datetime(1970, 1, 1, tzinfo=UTC)
        assert trigger.next_fire_time(begin) == meets
        with pytest.raises(UndecidedError, match="too many times in a row"):
            FireTimeSearch(trigger, most=500).next_fire_time(begin)

    def test_a_search_ends_after_four_hundred_years(self) -> None:
        far = datetime(1970, 1, 2, tzinfo=UTC)
        centuries = 146_100 * DAY
        trigger = AllOfTrigger(
            [listed(far, NOON, NOON + centuries), listed(far, NOON + centuries)]
        )
        assert trigger.next_fire_time(NOON - DAY) == NOON + centuries
        steps = range(0, 200_000, 10_000)
        one = listed(far, *(NOON + days * DAY for days in steps))
        other = listed(far, *(NOON + (days + 500) * DAY for days in steps))
        meets = listed(far, NOON + 200_000 * DAY)
        trigger = AllOfTrigger([AnyOfTrigger([each, meets]) for each in (one, other)])
        assert trigger.next_fire_time(NOON - DAY) is None
        found = trigger.next_fire_time(NOON + 100_000 * DAY)
        assert found == NOON + 200_000 * DAY


class TestRefusals:
    @pytest.mark.parametrize("make", [AnyOfTrigger, AllOfTrigger])
    @pytest.mark.parametrize(
        ("triggers", "message"),
        [
            ([], "must be 1 to 100 triggers, not 0"),
            ((), "must be 1 to 100 triggers, not 0"),
            ([DAILY] * 101, "must be 1 to 100 triggers, not 101"),
            ([DAILY] * MOST_PARTS, "made of 101 triggers"),
            (DAILY, "must be a list of triggers: CronTrigger"),
            (None, "must be a list of triggers: None"),
            ("0 9 * * *", "must be a list of triggers"),
            (LONG, "must be a list of triggers"),
            ({DAILY: HOURLY}, "must be a list of triggers"),
            (iter([DAILY]), "must be a list of triggers"),
            (10**5000, "must be a list of triggers: <int>"),
            (Unshowable(), "must be a list of triggers: <Unshowable"),
            ([DAILY, "0 9 * * *"], r"triggers\[1\] must be a trigger"),
            ([None], r"triggers\[0\] must be a trigger"),
            ([[DAILY]], r"triggers\[0\] must be a trigger"),
            ([CronTrigger], r"triggers\[0\] must be a trigger"),
            ([LONG], r"triggers\[0\] must be a trigger"),
            ([DelayTrigger(DAY)], "waits for the end of a run"),
            ([UnknownTrigger("moon", {}, "no such moon")], "no such moon"),
            ([NamelessTrigger()], "needs a `kind` of its own"),
            ([listed(*[NOON] * 3000)], "at most 65536 are kept"),
            ([nested(DAILY, 9), DAILY], "11 deep"),
            (
                [AnyOfTrigger([DAILY] * 50), AnyOfTrigger([DAILY] * 50)],
                "of 103 triggers",
            ),
        ],
        ids=brief,
    )
    def test_what_cannot_be_combined_is(
        self, make: type[AnyOfTrigger], triggers: Any, message: str
    ) -> None:
        with pytest.raises(InvalidTriggerError, match=message):
            make(triggers)
