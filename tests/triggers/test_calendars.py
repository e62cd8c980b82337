from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given, settings
from hypothesis import strategies as st

from go_scheduler.errors import InvalidTriggerError, UnknownTriggerError
from go_scheduler.triggers import CronTrigger, ExceptTrigger, RuleCalendar, calendars
from go_scheduler.triggers.calendars import (
    MOST_DAYS,
    BusinessDays,
    Calendar,
    DateCalendar,
    calendar_names,
    edition_of_names,
    find_calendar,
    is_in,
    register_calendar,
)
from tests.triggers.combinations import Computed, days_of, days_of_year

if TYPE_CHECKING:
    from collections.abc import Callable

DAY = timedelta(days=1)
CHRISTMAS = date(2030, 12, 25)


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten."""
    monkeypatch.setattr(calendars, "_calendars", {})


class TestRegistry:
    def test_a_calendar_is_known_by_its_name(self) -> None:
        assert calendar_names() == []
        holidays = DateCalendar([CHRISTMAS])
        register_calendar("holidays", holidays)
        register_calendar("Feiertage_2.de-BY", holidays)
        assert find_calendar("holidays") is holidays
        assert calendar_names() == ["Feiertage_2.de-BY", "holidays"]
        assert is_in(["holidays"], CHRISTMAS)
        assert not is_in(["holidays"], CHRISTMAS + DAY)
        assert not is_in([], CHRISTMAS)

    def test_an_equal_one_changes_nothing(self) -> None:
        register_calendar("holidays", DateCalendar([CHRISTMAS]))
        before = edition_of_names()
        register_calendar("holidays", DateCalendar([CHRISTMAS]))
        assert edition_of_names() == before

    def test_another_one_replaces_it(self) -> None:
        register_calendar("holidays", DateCalendar([CHRISTMAS]))
        before = edition_of_names()
        register_calendar("holidays", DateCalendar([CHRISTMAS + DAY]))
        assert edition_of_names() > before
        assert is_in(["holidays"], CHRISTMAS + DAY)

    def test_what_is_not_known_is_named_with_what_is(self) -> None:
        with pytest.raises(UnknownTriggerError, match="known here: none"):
            find_calendar("holidays")
        register_calendar("one", DateCalendar([]))
        register_calendar("two", DateCalendar([]))
        with pytest.raises(UnknownTriggerError, match="known here: one, two"):
            is_in(["one", "holidays"], CHRISTMAS)


class TestDateCalendar:
    def test_it_holds_days_and_ranges(self) -> None:
        calendar = DateCalendar(
            [date(2030, 1, 1), (date(2030, 5, 1), date(2030, 5, 3)), date(2030, 5, 2)]
        )
        assert days_of_year(calendar, 2030) == ["01-01", "05-01", "05-02", "05-03"]
        assert days_of_year(calendar, 2031) == []

    def test_it_may_be_made_of_anything_that_lists_days(self) -> None:
        one = DateCalendar({CHRISTMAS})
        assert one == DateCalendar(iter([CHRISTMAS])) == DateCalendar([CHRISTMAS])
        assert hash(one) == hash(DateCalendar([CHRISTMAS]))
        assert pickle.loads(pickle.dumps(one)) == one
        assert one != DateCalendar([])

    def test_it_may_hold_the_ends_of_time(self) -> None:
        calendar = DateCalendar([date.min, date.max])
        assert calendar.includes(date.min)
        assert calendar.includes(date.max)

    def test_many_ranges_are_refused_before_they_are_all_read(self) -> None:
        def ranges() -> Any:
            first = date(1, 1, 1)
            while True:
                yield first, first + 60_000 * DAY
                first += 60_001 * DAY

        with pytest.raises(InvalidTriggerError, match="more than the 100,000"):
            DateCalendar(ranges())

    def test_as_many_as_allowed_are(self) -> None:
        last = CHRISTMAS + (MOST_DAYS - 1) * DAY
        assert DateCalendar([(CHRISTMAS, last)]).includes(last)


class TestBusinessDays:
    def test_they_are_neither_weekends_nor_holidays(self) -> None:
        register_calendar("holidays", DateCalendar([date(2030, 6, 4)]))
        register_calendar("closed", DateCalendar([date(2030, 6, 6)]))
        calendar = BusinessDays(["holidays", "closed"])
        found = days_of(calendar, date(2030, 6, 1), date(2030, 6, 9))
        assert [day.day for day in found] == [3, 5, 7]
        assert BusinessDays("holidays") == BusinessDays(("holidays", "holidays"))

    def test_weekends_differ(self) -> None:
        calendar = BusinessDays(weekend=(4, 5))
        found = days_of(calendar, date(2030, 6, 1), date(2030, 6, 9))
        assert [day.day for day in found] == [2, 3, 4, 5, 6, 9]
        assert BusinessDays(weekend=[5, 4]) == calendar
        assert (
            len(days_of(BusinessDays(weekend=()), CHRISTMAS, CHRISTMAS + 6 * DAY)) == 7
        )

    def test_holidays_may_be_refreshed(self) -> None:
        register_calendar("holidays", DateCalendar([]))
        calendar = BusinessDays("holidays")
        assert calendar.includes(CHRISTMAS)
        register_calendar("holidays", DateCalendar([CHRISTMAS]))
        assert not calendar.includes(CHRISTMAS)

    def test_a_calendar_is_not_made_of_itself(self) -> None:
        register_calendar("one", DateCalendar([]))
        register_calendar("two", BusinessDays("one"))
        for each in ("one", "two"):
            with pytest.raises(InvalidTriggerError, match="'one' is made of itself"):
                register_calendar("one", BusinessDays(each))
        assert is_in(["two"], date(2030, 6, 3))

    def test_nor_of_others_too_deep(self) -> None:
        register_calendar("0", DateCalendar([]))
        for number in range(10):
            register_calendar(str(number + 1), BusinessDays(str(number)))
        with pytest.raises(InvalidTriggerError, match="more than 10 deep"):
            register_calendar("11", BusinessDays("10"))

    def test_one_whose_holidays_are_gone_may_still_be_registered(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        register_calendar("holidays", DateCalendar([]))
        business_days = BusinessDays("holidays")
        monkeypatch.setattr(calendars, "_calendars", {})
        register_calendar("business-days", business_days)
        with pytest.raises(UnknownTriggerError, match="'holidays'"):
            is_in(["business-days"], date(2030, 6, 3))

    def test_a_wrong_answer_about_holidays_gets_a_clear_error(self) -> None:
        register_calendar("holidays", Computed(lambda day: "perhaps"))
        with pytest.raises(
            InvalidTriggerError, match=r"True or False .*, not 'perhaps'"
        ):
            BusinessDays("holidays").includes(date(2030, 6, 3))


class TestRuleCalendar:
    def test_what_a_rule_leaves_open_comes_from_its_start(self) -> None:
        for start in (date(2030, 6, 5), date(2028, 6, 5)):
            birthday = RuleCalendar("FREQ=YEARLY", start)
            assert days_of_year(birthday, 2030) == ["06-05"]
            assert days_of_year(birthday, start.year - 1) == []
        assert days_of_year(RuleCalendar("FREQ=DAILY"), 2030)[0] == "01-01"

    def test_it_is_compared_by_its_value(self) -> None:
        one = RuleCalendar("FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=26,25")
        assert one == RuleCalendar("rrule:bymonthday=25,26;bymonth=12;freq=yearly")
        assert one.includes(CHRISTMAS)
        again = pickle.loads(pickle.dumps(one))
        assert again == one
        assert again.includes(CHRISTMAS)
        assert not again.includes(CHRISTMAS - DAY)

    @pytest.mark.parametrize("year", [1, 2, 9999])
    def test_it_answers_for_any_year(self, year: int) -> None:
        for text, count in (
            ("FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=31", 1),
            ("FREQ=YEARLY;BYMONTH=1;BYMONTHDAY=1", 1),
            ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", 12),
            ("FREQ=YEARLY;BYEASTER=0", 1),
        ):
            assert len(days_of_year(RuleCalendar(text), year)) == count
        assert len(days_of_year(RuleCalendar("FREQ=WEEKLY;BYDAY=SU"), year)) in (52, 53)

    def test_it_names_days_of_more_years_than_it_remembers(self) -> None:
        calendar = RuleCalendar("FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=25")
        for year in (*range(1900, 2100), 1900):
            assert calendar.includes(date(year, 12, 25))
            assert not calendar.includes(date(year, 12, 26))

    @settings(max_examples=20, deadline=None)
    @given(
        frequency=st.sampled_from(["YEARLY", "MONTHLY", "WEEKLY", "DAILY"]),
        interval=st.integers(1, 5),
        start=st.dates(date(2000, 1, 1), date(2010, 1, 1)),
        ends=st.sampled_from(
            [";UNTIL=20120229", ";UNTIL=20141231T120000Z", ";COUNT=5"]
        ),
        weekdays=st.sampled_from(["", ";BYDAY=MO,WE", ";BYDAY=SU", ";WKST=SU"]),
        months=st.sampled_from(["", ";BYMONTH=2,6"]),
    )
    def test_it_names_the_days_that_dateutil_does(
        self,
        frequency: str,
        interval: int,
        start: date,
        ends: str,
        weekdays: str,
        months: str,
    ) -> None:
        rule = f"FREQ={frequency};INTERVAL={interval}{weekdays}{months}{ends}"
        begin = datetime(start.year, start.month, start.day)  # noqa: DTZ001
        expected = [
            each.date() for each in rrulestr(rule, dtstart=begin, ignoretz=True)
        ]
        try:
            calendar = RuleCalendar(rule, start)
        except InvalidTriggerError:
            assert not expected
        else:
            found = days_of(calendar, date(1999, 1, 1), date(2037, 1, 1))
            assert found == [each for each in expected if each.year < 2037]


def test_one_method_makes_a_calendar() -> None:
    class PayDays(Calendar):
        def includes(self, day: date) -> bool:
            return (day + DAY).day == 1

    register_calendar("pay-days", PayDays())
    assert is_in(["pay-days"], date(2028, 2, 29))


def test_without_it_there_is_none() -> None:
    make: Callable[[], object] = Calendar
    with pytest.raises(TypeError, match="includes"):
        make()


def test_a_calendar_of_almost_all_days_of_centuries_is_searched_to_its_end() -> None:
    most = [(date(year, 1, 1), date(year, 12, 30)) for year in range(2000, 2240)]
    register_calendar("most", DateCalendar(most))
    left = ExceptTrigger(
        CronTrigger("* * * * * * *"), ["most", CronTrigger("* * * 31 12 * *")]
    )
    found = left.next_fire_time(datetime(2030, 1, 1, tzinfo=UTC))
    assert found == datetime(2240, 1, 1, tzinfo=UTC)
