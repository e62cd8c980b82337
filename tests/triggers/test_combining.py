from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, ClassVar, Self
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_scheduler.errors import ConfigurationError, InvalidTriggerError
from go_scheduler.triggers import (
    CronTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    RecurrenceTrigger,
    Trigger,
    UnknownTrigger,
    dump_trigger,
    load_trigger,
)
from go_scheduler.triggers.base import UndecidedError, is_own
from go_scheduler.triggers.calendars import DateCalendar, register_calendar
from go_scheduler.triggers.combining import (
    AllOfTrigger,
    AnyOfTrigger,
    ExceptTrigger,
    LimitedTrigger,
    OnlyTrigger,
)
from go_scheduler.triggers.compound import DEEPEST, FireTimeSearch
from tests.case_tables import json_table, table
from tests.patience import FAILED_AFTER
from tests.triggers.combinations import (
    DAILY,
    DAY,
    END,
    HOUR,
    HOURLY,
    MINUTE,
    NAIVE,
    NOON,
    SECOND,
    SteadyTrigger,
    WrongTrigger,
    listed,
    nested,
)
from tests.triggers.cron_oracle import fire_times_until as series

if TYPE_CHECKING:
    from collections.abc import Mapping

    from go_scheduler.json import JSON


class TestAnyOf:
    def test_one_that_stands_in_two_places_is_asked_for_both(self) -> None:
        trigger = AnyOfTrigger([AllOfTrigger([DAILY, HOURLY]), HOURLY])
        assert trigger.next_fire_time(NOON + 2 * HOUR) == NOON + 3 * HOUR

    def test_it_goes_on_without_what_has_ended(self) -> None:
        trigger = AnyOfTrigger([ExecuteOnceTrigger(NOON), DAILY])
        assert trigger.next_fire_time(NOON) == DAILY.next_fire_time(NOON)
        ended = AnyOfTrigger([ExecuteOnceTrigger(NOON), ExecuteOnceTrigger(NOON - DAY)])
        assert ended.next_fire_time(NOON) is None

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

    def test_it_ends_with_the_first_that_ends(self) -> None:
        trigger = AllOfTrigger([DAILY, LimitedTrigger(HOURLY, end=NOON)])
        assert trigger.next_fire_time(NOON) is None
        trigger = AllOfTrigger([LimitedTrigger(HOURLY, end=NOON), DAILY])
        assert trigger.next_fire_time(NOON) is None

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


def test_what_can_fire_once_only_does_not_recur() -> None:
    once = ExecuteOnceTrigger(NOON)
    assert not AnyOfTrigger([once]).recurring
    assert AnyOfTrigger([once, once]).recurring
    assert not AllOfTrigger([once, CronTrigger("0 12 * * *")]).recurring
    assert AllOfTrigger([DAILY, HOURLY]).recurring
    assert not ExceptTrigger(once, "tests.may-2030").recurring
    assert not OnlyTrigger(once, "tests.june").recurring
    assert not LimitedTrigger(once, limit=5).recurring
    assert not LimitedTrigger(DAILY, limit=1).recurring
    assert LimitedTrigger(DAILY, limit=2).recurring


@pytest.mark.parametrize(
    "trigger",
    [
        AnyOfTrigger([ExecuteOnceTrigger(NOON)]),
        AllOfTrigger([CronTrigger("0 12 * * *"), ExecuteOnceTrigger(NOON)]),
        ExceptTrigger(ExecuteOnceTrigger(NOON), "tests.may-2030"),
        LimitedTrigger(ExecuteOnceTrigger(NOON), limit=1, start=NOON - DAY),
        LimitedTrigger(CronTrigger("0 12 * * *"), limit=1, start=NOON),
    ],
)
def test_what_fires_once_does_so_though_its_time_has_passed(trigger: Trigger) -> None:
    assert trigger.first_fire_time(NOON + 99 * DAY) == NOON


class TestParts:
    @pytest.mark.parametrize(
        ("trigger", "parts"),
        [
            (AnyOfTrigger([DAILY, HOURLY]), (DAILY, HOURLY)),
            (AllOfTrigger([DAILY, HOURLY]), (DAILY, HOURLY)),
            (ExceptTrigger(HOURLY, ["tests.may-2030", DAILY]), (HOURLY, DAILY)),
            (OnlyTrigger(HOURLY, "tests.may-2030"), (HOURLY,)),
            (LimitedTrigger(HOURLY, limit=3), (HOURLY,)),
        ],
    )
    def test_it_tells_what_it_is_made_of(
        self, trigger: Trigger, parts: tuple[Trigger, ...]
    ) -> None:
        assert trigger.parts() == parts
        assert is_own(trigger)
        assert not is_own(AnyOfTrigger([trigger, listed(NOON)]))

    def test_it_warns_of_what_its_parts_warn_of_once(self) -> None:
        one, two = listed(NOON), listed(NOON, NOON + DAY)
        trigger = AnyOfTrigger([one, ExceptTrigger(two, "tests.may-2030"), one])
        assert trigger.warnings(NOON) == ("1 times", "2 times")

    def test_its_parts_are_anchored_with_it(self) -> None:
        every = IntervalTrigger(7 * HOUR)
        for trigger in (
            AnyOfTrigger([DAILY, every]),
            ExceptTrigger(every, IntervalTrigger(14 * HOUR)),
            LimitedTrigger(OnlyTrigger(every, "tests.weekends"), end=NOON + 99 * DAY),
        ):
            anchored = trigger.anchored(NOON)
            assert anchored == trigger
            assert anchored is not trigger
            assert anchored.anchored(NOON + HOUR) is anchored
        anchored = ExceptTrigger(every, IntervalTrigger(14 * HOUR)).anchored(NOON)
        found = series(anchored, NOON, NOON + 50 * HOUR)
        assert found == [NOON + hours * HOUR for hours in (7, 21, 35, 49)]

    def test_what_needs_no_anchor_is_itself(self) -> None:
        trigger = AnyOfTrigger([DAILY, IntervalTrigger(HOUR, NOON)])
        assert trigger.anchored(NOON) is trigger

    def test_whether_it_ever_fires_is_said_when_it_is_scheduled(self) -> None:
        trigger = AllOfTrigger([AnyOfTrigger([IntervalTrigger(HOUR)]), HOURLY])
        assert trigger.anchored(NOON).next_fire_time(NOON) == NOON + HOUR
        assert trigger.warnings(NOON) == ()
        (warning,) = trigger.warnings(NOON + MINUTE)
        assert (
            warning == f"after 2030-06-01 12:01 it does not fire: {trigger.describe()}"
        )
        ended = LimitedTrigger(DAILY, end=NOON)
        assert ended.warnings(NOON - DAY) == ()
        assert len(AnyOfTrigger([ended, DAILY]).warnings(NOON)) == 1

    def test_something_else_than_an_instant_is_no_anchor(self) -> None:
        with pytest.raises(ConfigurationError, match="now has no time zone"):
            LimitedTrigger(DAILY, limit=3).anchored(NAIVE)

    @pytest.mark.parametrize("what", ["anchors text", "anchors another"])
    def test_a_part_that_is_not_itself_when_anchored_is_refused(
        self, what: str
    ) -> None:
        trigger = AnyOfTrigger([WrongTrigger(what)])
        with pytest.raises(InvalidTriggerError, match="not equal to itself"):
            trigger.anchored(NOON)
        with pytest.raises(InvalidTriggerError, match="not equal to itself"):
            LimitedTrigger(WrongTrigger(what), start=NOON)

    @pytest.mark.parametrize(
        "what", ["raises", "is early", "stands still", "is naive", "is text"]
    )
    def test_a_part_that_misbehaves_costs_its_definition_a_clear_error(
        self, what: str
    ) -> None:
        wrong = WrongTrigger(what, since=NOON)
        error = RuntimeError if what == "raises" else InvalidTriggerError
        match = "out of order" if what == "raises" else r"WrongTrigger.* returned"
        for trigger in (
            AnyOfTrigger([wrong, DAILY]),
            AllOfTrigger([wrong]),
            ExceptTrigger(DAILY, wrong),
            OnlyTrigger(wrong, "tests.weekends"),
            LimitedTrigger(wrong, limit=3),
        ):
            with pytest.raises(error, match=match):
                trigger.next_fire_time(NOON)

    @pytest.mark.parametrize(
        "what", ["raises", "is early", "stands still", "is naive", "is text"]
    )
    def test_one_that_does_so_at_once_is_refused(self, what: str) -> None:
        wrong = WrongTrigger(what)
        with pytest.raises(InvalidTriggerError, match=r"out of order|returned"):
            AllOfTrigger([wrong, DAILY])
        with pytest.raises(InvalidTriggerError, match=r"out of order|returned"):
            ExceptTrigger(wrong, "tests.june")


@pytest.mark.parametrize(("made", "form"), table("triggers/combined_descriptions"))
def test_it_is_put_together_from_those_of_its_parts(made: str, form: str) -> None:
    daily, hourly = DAILY.describe(), HOURLY.describe()
    assert eval(made).describe() == form.format(daily=daily, hourly=hourly)


def test_times_are_those_of_its_zone_or_utc() -> None:
    every = IntervalTrigger(HOUR, NOON)
    limited = LimitedTrigger(every, start=NOON)
    assert limited.describe().endswith(" starting 2030-06-01 12:00Z")
    apia = AnyOfTrigger([every, CronTrigger("0 1 * * *", "Pacific/Apia")])
    assert LimitedTrigger(apia, start=NOON).describe().endswith("2030-06-02 01:00")


class TestStored:
    @pytest.mark.parametrize(
        ("state", "kind", "reason"),
        json_table("triggers/states_refused"),
    )
    def test_a_state_that_does_not_load_is_kept(
        self, state: Mapping[str, JSON], kind: str, reason: str
    ) -> None:
        loaded = load_trigger(kind, state)
        assert isinstance(loaded, UnknownTrigger)
        assert reason in loaded.reason
        assert dump_trigger(loaded) == (kind, state)

    @pytest.mark.parametrize("levels", [DEEPEST, 5000])
    def test_what_is_nested_too_deep_is_not_loaded(self, levels: int) -> None:
        state: Any = DAILY.to_dict()
        kind = "cron"
        for _ in range(levels):
            state = {"triggers": [{"kind": kind, "state": state}]}
            kind = "any_of"
        loaded = load_trigger("any_of", state)
        assert isinstance(loaded, UnknownTrigger)
        assert "deep" in loaded.reason

    def test_what_is_nested_as_deep_as_allowed_is(self) -> None:
        trigger = nested(DAILY, DEEPEST - 1)
        assert load_trigger(*dump_trigger(trigger)) == trigger
        with pytest.raises(InvalidTriggerError, match="11 deep"):
            AnyOfTrigger([trigger])


@settings(max_examples=50, deadline=None)
@given(
    junk=st.recursive(
        st.none() | st.text() | st.integers() | st.binary() | st.floats(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    )
)
def test_whatever_it_is_there_is_no_other_error(junk: Any) -> None:
    for make in (
        lambda: AnyOfTrigger(junk),
        lambda: AllOfTrigger([junk]),
        lambda: ExceptTrigger(DAILY, junk),
        lambda: OnlyTrigger(DAILY, junk),
        lambda: LimitedTrigger(junk),
    ):
        with pytest.raises(InvalidTriggerError):
            make()
    for kind in ("any_of", "all_of", "except", "only", "limited"):
        assert isinstance(load_trigger(kind, junk), UnknownTrigger)


@dataclass(frozen=True)
class HangsWhenAnchored(Trigger):
    """A user's trigger whose ``anchored`` goes on until an event is set."""

    kind: ClassVar[str] = "tests.hangs_when_anchored"
    until: ClassVar[Event] = Event()

    def next_fire_time(self, after: datetime) -> datetime | None:
        return after + HOUR

    def anchored(self, now: datetime) -> Self:
        self.until.wait(FAILED_AFTER)
        return self


def test_a_part_that_hangs_keeps_no_other_combination_waiting() -> None:
    ends = HangsWhenAnchored.until
    hangs = AnyOfTrigger([HangsWhenAnchored(), CronTrigger("0 9 * * *")])
    threads = [Thread(target=hangs.next_fire_time, args=[NOON], daemon=True)]
    found: list[datetime | None] = []
    other = AnyOfTrigger([CronTrigger("0 9 * * *"), CronTrigger("0 10 * * *")])
    threads.append(Thread(target=lambda: found.append(other.next_fire_time(NOON))))
    try:
        for each in threads:
            each.start()
        threads[1].join(FAILED_AFTER / 2)
        assert len(found) == 1
    finally:
        ends.set()
        for each in threads:
            each.join(FAILED_AFTER)


def test_half_seconds_never_meet_whole_ones_whatever_is_left_out() -> None:
    foreign = listed(NOON)
    halves = IntervalTrigger(7 * SECOND, anchor=NOON + SECOND / 2)
    with pytest.raises(InvalidTriggerError, match="it never fires"):
        AllOfTrigger([ExceptTrigger(CronTrigger("* * * * * * *"), [foreign]), halves])


class TestLimits:
    @pytest.mark.parametrize(
        ("limits", "hours"),
        [
            ({"start": NOON, "end": NOON + HOUR}, [0, 1]),
            ({"start": NOON, "duration": 2 * HOUR}, [0, 1, 2]),
            ({"start": NOON, "duration": DAY, "end": NOON + HOUR}, [0, 1]),
            ({"start": NOON, "duration": HOUR, "end": NOON + DAY}, [0, 1]),
            ({"start": NOON, "limit": 3}, [0, 1, 2]),
            ({"limit": 3}, [1, 2, 3]),
            ({"duration": 2 * HOUR}, [1, 2]),
            ({"end": NOON + HOUR}, [-1, 0, 1]),
            ({"end": NOON + HOUR, "limit": 3}, [1]),
            ({}, [1, 2, 3, 4]),
        ],
        ids=str,
    )
    def test_each_bound_counts_from_the_start_or_from_when_it_is_scheduled(
        self, limits: Any, hours: list[int]
    ) -> None:
        plain = LimitedTrigger(HOURLY, **limits)
        trigger = plain.anchored(NOON)
        assert trigger == plain
        assert repr(trigger) == repr(plain)
        assert trigger.anchored(NOON + DAY) is trigger
        found = series(trigger, NOON - 2 * HOUR, NOON + 4 * HOUR)
        assert found == [NOON + each * HOUR for each in hours]
        ended = hours[-1] < 4
        assert (trigger.next_fire_time(NOON + 99 * DAY) is None) == ended
        assert (trigger.first_fire_time(NOON + 99 * DAY) is None) == ended

    def test_they_are_kept_in_utc(self) -> None:
        tokyo = NOON.astimezone(ZoneInfo("Asia/Tokyo"))
        trigger = LimitedTrigger(DAILY, start=tokyo, end=tokyo + 9 * DAY)
        assert trigger.start is not None
        assert trigger.start.tzinfo is UTC
        assert trigger == LimitedTrigger(DAILY, start=NOON, end=NOON + 9 * DAY)

    def test_an_interval_without_an_anchor_is_anchored_at_the_start(self) -> None:
        every = IntervalTrigger(10 * MINUTE)
        trigger = LimitedTrigger(every, start=NOON, limit=3)
        expected = [NOON, NOON + 10 * MINUTE, NOON + 20 * MINUTE]
        assert series(trigger, NOON - DAY, NOON + DAY) == expected
        assert trigger.anchored(NOON + HOUR) is trigger
        inner = AnyOfTrigger([every, IntervalTrigger(HOUR, NOON - HOUR)])
        assert LimitedTrigger(inner, start=NOON).next_fire_time(NOON - DAY) == NOON

    def test_before_it_is_scheduled_nothing_is_counted(self) -> None:
        trigger = LimitedTrigger(DAILY, limit=1)
        assert len(series(trigger, NOON, NOON + 5 * DAY)) == 5
        assert trigger.first_fire_time(NOON) == DAILY.next_fire_time(NOON)
        plain = LimitedTrigger(HOURLY, duration=2 * HOUR)
        assert plain.next_fire_time(NOON + 99 * DAY) == NOON + 99 * DAY + HOUR

    def test_scheduled_at_the_end_of_time_it_never_fires(self) -> None:
        assert LimitedTrigger(DAILY, limit=1).anchored(END).first_fire_time(END) is None

    def test_it_may_last_for_ever(self) -> None:
        trigger = LimitedTrigger(HOURLY, start=NOON, duration=timedelta.max)
        assert trigger.next_fire_time(NOON + 999_999 * DAY) is not None

    def test_fire_times_are_not_counted_again(self) -> None:
        trigger = LimitedTrigger(SteadyTrigger(60), start=NOON, limit=1000)
        last = NOON + 999 * MINUTE
        assert trigger.next_fire_time(last - MINUTE) == last
        SteadyTrigger.asked.clear()
        again = LimitedTrigger.from_dict(json.loads(json.dumps(trigger.to_dict())))
        assert again.next_fire_time(last - MINUTE) == last
        assert again.next_fire_time(last) is None
        assert again.next_fire_time(NOON + MINUTE) == NOON + 2 * MINUTE
        assert len(SteadyTrigger.asked) <= 6

    def test_fire_times_are_counted_anew_when_a_calendar_changes(self) -> None:
        register_calendar("tests.off", DateCalendar([NOON.date() + DAY]))
        trigger = LimitedTrigger(ExceptTrigger(DAILY, "tests.off"), start=NOON, limit=2)
        found = series(trigger, NOON, NOON + 9 * DAY)
        assert [each.day for each in found] == [1, 3]
        register_calendar("tests.off", DateCalendar([NOON.date() + 2 * DAY]))
        found = series(trigger, NOON, NOON + 9 * DAY)
        assert [each.day for each in found] == [1, 2]

    def test_a_low_limit_is_counted_one_by_one_where_sets_take_too_much(self) -> None:
        rules = [
            RecurrenceTrigger(f"FREQ=SECONDLY;INTERVAL={n}", start=NOON)
            for n in range(1009, 1049)
        ]
        trigger = AnyOfTrigger(rules)
        begin = NOON - 700 * DAY
        low = LimitedTrigger(trigger, start=begin, limit=3)
        expected = [NOON, NOON + 1009 * SECOND, NOON + 1010 * SECOND]
        assert series(low, begin, NOON + DAY) == expected
        high = LimitedTrigger(trigger, start=begin, limit=101)
        with pytest.raises(UndecidedError):
            high.next_fire_time(begin)

    def test_a_count_that_takes_too_many_candidates_is_left_open(self) -> None:
        seldom = AllOfTrigger([SteadyTrigger(20), SteadyTrigger(21)])
        begin = datetime(1970, 1, 2, tzinfo=UTC)
        trigger = LimitedTrigger(seldom, start=begin, limit=100_000)
        assert len(series(trigger, begin, begin + DAY)) == 206
        with pytest.raises(InvalidTriggerError, match="could not be decided"):
            trigger.next_fire_time(begin + 40 * DAY)

    def test_a_limit_of_a_series_that_ends_earlier_is_never_reached(self) -> None:
        trigger = LimitedTrigger(
            LimitedTrigger(DAILY, end=NOON + 2 * DAY), start=NOON, limit=9
        )
        assert len(series(trigger, NOON, NOON + 99 * DAY)) == 2

    @pytest.mark.parametrize(
        "limits",
        [
            {"start": NOON, "end": NOON + HOUR},
            {"end": datetime(1969, 1, 1, tzinfo=UTC)},
            {"start": END},
        ],
    )
    def test_what_never_fires_within_its_bounds_is_refused(self, limits: Any) -> None:
        with pytest.raises(InvalidTriggerError, match="limited: it never fires"):
            LimitedTrigger(CronTrigger("30 9 * * *"), **limits)


@pytest.mark.parametrize("kind", [AnyOfTrigger, AllOfTrigger])
def test_a_wrong_call_is_told_by_the_name_of_the_class(kind: Any) -> None:
    with pytest.raises(TypeError, match=kind.__name__):
        kind()
