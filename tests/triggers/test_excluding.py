from __future__ import annotations

import pickle
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from go_scheduler.errors import InvalidTriggerError, UnknownTriggerError
from go_scheduler.triggers import (
    CronTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    UnknownTrigger,
    calendars,
    dump_trigger,
    load_trigger,
)
from go_scheduler.triggers.base import is_own
from go_scheduler.triggers.calendars import (
    BusinessDays,
    DateCalendar,
    register_calendar,
)
from go_scheduler.triggers.combining import (
    AnyOfTrigger,
    ExceptTrigger,
    LimitedTrigger,
    OnlyTrigger,
)
from tests.triggers.combinations import (
    DAILY,
    DAY,
    END,
    MICROSECOND,
    MINUTE,
    NOON,
    SECOND,
    ZONES,
    Computed,
    SteadyTrigger,
    listed,
)
from tests.triggers.cron_oracle import fire_times_until as series


class TestExcept:
    def test_a_month_of_seconds_is_skipped_at_once(self) -> None:
        trigger = ExceptTrigger(SteadyTrigger(1), "tests.june", "America/New_York")
        SteadyTrigger.asked.clear()
        july = datetime(2030, 7, 1, tzinfo=ZoneInfo("America/New_York"))
        assert trigger.next_fire_time(NOON) == july
        assert len(SteadyTrigger.asked) <= 3

    def test_its_days_are_those_of_its_trigger(self) -> None:
        apia = CronTrigger("0 1 * * *", "Pacific/Apia")
        for trigger in (apia, AnyOfTrigger([IntervalTrigger(DAY), apia])):
            assert ExceptTrigger(trigger, "tests.june").timezone == "Pacific/Apia"
            assert OnlyTrigger(trigger, "tests.june").timezone == "Pacific/Apia"
        assert ExceptTrigger(IntervalTrigger(DAY), "tests.june").timezone == "UTC"
        assert LimitedTrigger(apia, limit=1).timezone == "Pacific/Apia"
        assert AnyOfTrigger([IntervalTrigger(DAY)]).timezone is None

    @pytest.mark.parametrize("timezone", ["Nowhere/Land", "", None])
    def test_what_a_foreign_trigger_calls_its_timezone_may_be_none(
        self, timezone: str | None
    ) -> None:
        trigger = listed(NOON, timezone=timezone)
        assert ExceptTrigger(trigger, "tests.may-2030", "Asia/Tokyo").recurring
        assert (
            ExceptTrigger(AnyOfTrigger([trigger]), "tests.may-2030").timezone == "UTC"
        )

    def test_the_zone_is_that_of_its_days_in_what_holds_it(self) -> None:
        inner = ExceptTrigger(IntervalTrigger(DAY, NOON), "tests.june", "Asia/Tokyo")
        assert LimitedTrigger(inner, limit=2).timezone == "Asia/Tokyo"

    def test_a_given_zone_is_part_of_its_value_and_the_default_is_too(self) -> None:
        plain = ExceptTrigger(DAILY, "tests.weekends")
        assert plain == ExceptTrigger(DAILY, ["tests.weekends"], "America/New_York")
        assert plain != ExceptTrigger(DAILY, "tests.weekends", "UTC")

    @pytest.mark.parametrize(
        ("zone", "day"),
        [
            # The clock went from 00:01 back to 23:01 of the day before.
            ("America/St_Johns", date(2007, 11, 4)),
            # From 00:00 back to 23:00.
            ("America/Sao_Paulo", date(2019, 2, 17)),
            # From 01:00 back to 00:00.
            ("America/Havana", date(2024, 11, 3)),
            # From 00:00 on to 01:00.
            ("Africa/Cairo", date(2024, 4, 26)),
            # From 23:30 on to 00:30 of the next day.
            ("America/Toronto", date(1919, 3, 31)),
            # There was no such day.
            ("Pacific/Apia", date(2011, 12, 30)),
        ],
    )
    @pytest.mark.parametrize("shift", [-1, 0, 1])
    @pytest.mark.parametrize("length", [1, 2])
    def test_days_may_begin_twice_or_late(
        self, zone: str, day: date, shift: int, length: int
    ) -> None:
        first = day + shift * DAY
        days = DateCalendar([(first, first + (length - 1) * DAY)])
        register_calendar("tests.day", days)
        quarters = IntervalTrigger(
            15 * MINUTE, datetime(1900, 1, 1, tzinfo=UTC), anchored_at=None
        )
        begin = datetime(day.year, day.month, day.day, tzinfo=UTC) - 2 * DAY
        window = (begin, begin + 5 * DAY)
        by_day: dict[bool, list[datetime]] = {True: [], False: []}
        for each in series(quarters, *window):
            by_day[days.includes(each.astimezone(ZoneInfo(zone)).date())].append(each)
        outside = ExceptTrigger(quarters, "tests.day", zone)
        assert series(outside, *window) == by_day[False]
        register_calendar("tests.any", Computed(lambda each: True))
        inside = OnlyTrigger(quarters, "tests.any", zone)
        register_calendar("tests.any", days)
        assert series(inside, *window) == by_day[True]

    @pytest.mark.parametrize(
        "exceptions",
        [
            "tests.always",
            DAILY,
            ["tests.weekends", CronTrigger("0 9 * * 1-5", ZONES[1])],
        ],
    )
    def test_what_leaves_nothing_is_refused(self, exceptions: Any) -> None:
        with pytest.raises(
            InvalidTriggerError, match="except: it never fires"
        ) as caught:
            ExceptTrigger(DAILY, exceptions)
        assert "leave none of its fire times" in str(caught.value)

    def test_what_leaves_out_a_season_or_a_time_of_day_by_the_second_is_not(
        self,
    ) -> None:
        seconds = IntervalTrigger(SECOND, datetime(1970, 1, 1, tzinfo=UTC))
        winter = LimitedTrigger(seconds, end=datetime(1970, 3, 1, tzinfo=UTC))
        trigger = ExceptTrigger(seconds, winter)
        assert trigger.next_fire_time(NOON) == NOON + SECOND

    def test_what_comes_after_ten_thousand_is_no_time(self) -> None:
        trigger = ExceptTrigger(DAILY, "tests.weekends")
        register_calendar("tests.weekends", Computed(lambda day: True))
        assert trigger.next_fire_time(datetime(9999, 6, 1, tzinfo=UTC)) is None
        register_calendar("tests.weekends", Computed(lambda day: day == date.max))
        last = datetime(9999, 12, 31, 3, tzinfo=UTC)
        assert trigger.next_fire_time(last) is None
        once = ExecuteOnceTrigger(END)
        trigger = ExceptTrigger(AnyOfTrigger([once, DAILY]), once)
        assert trigger.next_fire_time(END - MICROSECOND) is None
        assert trigger.next_fire_time(END) is None


class TestOnly:
    def test_it_gives_up_after_four_hundred_years(self) -> None:
        trigger = OnlyTrigger(DAILY, "tests.june")
        register_calendar("tests.june", Computed(lambda day: day.year == 2500))
        assert trigger.next_fire_time(NOON) is None
        found = trigger.next_fire_time(NOON + 36_525 * DAY)
        assert found is not None
        assert found.year == 2500

    def test_it_is_enough_that_a_day_is_in_one_calendar(self) -> None:
        trigger = OnlyTrigger(DAILY, ["tests.never", "tests.weekends"])
        found = trigger.next_fire_time(NOON + 3 * DAY)
        assert found == datetime(2030, 6, 8, 13, tzinfo=UTC)

    def test_what_leaves_nothing_is_refused(self) -> None:
        with pytest.raises(InvalidTriggerError, match="only: it never fires"):
            OnlyTrigger(DAILY, "tests.never")


class TestCalendarsOfTriggers:
    def test_a_calendar_may_be_refreshed(self) -> None:
        register_calendar("tests.off", DateCalendar([date(2030, 6, 2)]))
        trigger = ExceptTrigger(DAILY, "tests.off")
        assert trigger.next_fire_time(NOON + DAY) == datetime(
            2030, 6, 3, 13, tzinfo=UTC
        )
        register_calendar("tests.off", DateCalendar([date(2030, 6, 3)]))
        assert trigger.next_fire_time(NOON + DAY) == datetime(
            2030, 6, 2, 13, tzinfo=UTC
        )

    def test_one_that_now_excludes_all_still_loads_and_fires_no_more(self) -> None:
        register_calendar("tests.off", DateCalendar([]))
        trigger = ExceptTrigger(DAILY, "tests.off")
        state = trigger.to_dict()
        register_calendar("tests.off", Computed(lambda day: True))
        loaded = load_trigger("except", state)
        assert loaded == trigger
        assert loaded.next_fire_time(NOON) is None

    def test_one_that_is_not_known_is_treated_like_an_unknown_kind(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        trigger = LimitedTrigger(OnlyTrigger(DAILY, "tests.june"), limit=3)
        kind, state = dump_trigger(trigger)
        monkeypatch.setattr(calendars, "_calendars", {})
        loaded = load_trigger(kind, state)
        assert isinstance(loaded, UnknownTrigger)
        assert "no calendar is registered as 'tests.june'" in loaded.reason
        assert dump_trigger(loaded) == (kind, state)
        with pytest.raises(UnknownTriggerError, match=r"tests\.june"):
            pickle.loads(pickle.dumps(trigger)).next_fire_time(NOON)

    def test_one_that_raises_costs_only_its_definition(self) -> None:
        trigger = ExceptTrigger(DAILY, "tests.june")
        register_calendar("tests.june", Computed(lambda day: 1 // 0))
        with pytest.raises(ZeroDivisionError):
            trigger.next_fire_time(NOON)
        with pytest.raises(InvalidTriggerError, match="ZeroDivisionError"):
            ExceptTrigger(DAILY, "tests.june")

    @pytest.mark.parametrize("answer", ["yes", None, 1])
    def test_one_that_answers_neither_yes_nor_no_gets_a_clear_error(
        self, answer: object
    ) -> None:
        trigger = OnlyTrigger(DAILY, "tests.june")
        register_calendar("tests.june", Computed(lambda day: answer))
        with pytest.raises(InvalidTriggerError, match="True or False for 2030-06-01"):
            trigger.next_fire_time(NOON)


class TestCode:
    """What a user has written may hang: it is told from what the package brings."""

    @pytest.mark.parametrize("kind", [ExceptTrigger, OnlyTrigger])
    def test_a_calendar_of_the_users_is_foreign_code(
        self, kind: type[ExceptTrigger | OnlyTrigger]
    ) -> None:
        assert not is_own(kind(DAILY, "tests.june"))
        assert not is_own(LimitedTrigger(kind(DAILY, ["tests.may-2030", "tests.june"])))
        assert is_own(kind(DAILY, "tests.may-2030"))

    def test_so_are_holidays_of_the_users(self) -> None:
        register_calendar("tests.business", BusinessDays(holidays="tests.june"))
        assert not is_own(OnlyTrigger(DAILY, "tests.business"))
        register_calendar("tests.business", BusinessDays(holidays="tests.may-2030"))
        assert is_own(OnlyTrigger(DAILY, "tests.business"))

    def test_a_foreign_exception_is_foreign(self) -> None:
        assert not is_own(ExceptTrigger(DAILY, SteadyTrigger(3600, 60)))
        assert is_own(ExceptTrigger(DAILY, CronTrigger("0 12 * * *")))
