"""The triggers of an instant, an interval, the end of a run, and of demand."""

from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_scheduler.client import Client
from go_scheduler.errors import ConfigurationError, InvalidTriggerError
from go_scheduler.models import DefinitionState, TaskDefinition
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.triggers import (
    AnyOfTrigger,
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    LimitedTrigger,
    OnDemandTrigger,
    explain,
    preview,
)

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MICROSECOND = timedelta(microseconds=1)
MILLISECOND = timedelta(milliseconds=1)
END = datetime.max.replace(tzinfo=UTC)


instants = st.datetimes(timezones=st.just(UTC))
lengths = st.timedeltas(min_value=MILLISECOND, max_value=timedelta(days=400_000))


class TestIntervalTrigger:
    @settings(max_examples=60, deadline=None)
    @given(every=lengths, anchor=instants, after=instants)
    def test_it_is_exact_over_any_distance(
        self, every: timedelta, anchor: datetime, after: datetime
    ) -> None:
        found = IntervalTrigger(every, anchor).next_fire_time(after)
        gone = Fraction((after - anchor) // MICROSECOND, every // MICROSECOND)
        count = max(0, gone.__floor__() + 1)
        micros = count * (every // MICROSECOND)
        if micros > (END - anchor) // MICROSECOND:
            assert found is None
        else:
            assert found == anchor + timedelta(microseconds=micros)

    @pytest.mark.parametrize("every", [HOUR, timedelta(days=2_900_000)])
    def test_it_never_fires_beyond_the_last_year(self, every: timedelta) -> None:
        for anchor in (None, NOON, END - MICROSECOND):
            assert IntervalTrigger(every, anchor).next_fire_time(END) is None

    def test_the_series_starts_one_interval_after_it_was_scheduled(self) -> None:
        trigger = IntervalTrigger(HOUR).anchored(NOON)
        assert trigger.first_fire_time(NOON) == NOON + HOUR
        assert trigger.next_fire_time(NOON + HOUR * 1.5) == NOON + 2 * HOUR

    def test_what_it_counts_from_is_kept_but_not_compared(self) -> None:
        assert IntervalTrigger(HOUR, NOON).anchored(NOON + HOUR).anchored_at is None
        plain = IntervalTrigger(HOUR)
        anchored = plain.anchored(NOON)
        assert anchored.anchored_at == NOON
        assert anchored == plain
        assert hash(anchored) == hash(plain)
        assert repr(anchored) == repr(plain)
        assert IntervalTrigger.from_dict(anchored.to_dict()).anchored_at == NOON

    def test_an_anchor_the_user_gave_is_part_of_its_value(self) -> None:
        assert IntervalTrigger(HOUR, NOON) != IntervalTrigger(HOUR)
        tokyo = NOON.astimezone(ZoneInfo("Asia/Tokyo"))
        assert IntervalTrigger(HOUR, anchor=tokyo) == IntervalTrigger(HOUR, NOON)
        assert IntervalTrigger(HOUR, tokyo).anchor.tzinfo is UTC  # type: ignore[union-attr]

    def test_what_is_written_out_has_its_anchor_and_can_be_replaced(self) -> None:
        written = IntervalTrigger(minutes=60, anchor=NOON)
        assert written == IntervalTrigger(HOUR, NOON)
        assert replace(written, anchor=None) == IntervalTrigger(HOUR)
        assert replace(written, every=2 * HOUR) == IntervalTrigger(2 * HOUR, NOON)


@pytest.mark.parametrize("kind", [IntervalTrigger, DelayTrigger])
class TestLengths:
    def test_they_may_be_written_out(
        self, kind: type[IntervalTrigger | DelayTrigger]
    ) -> None:
        lengths: Any = {"weeks": 1, "days": 2, "hours": 3, "minutes": 4, "seconds": 5.5}
        written, length = kind(**lengths), kind(timedelta(**lengths))
        assert written == length
        assert hash(written) == hash(length)
        assert written.to_dict() == length.to_dict()
        assert repr(written) == repr(length)
        assert pickle.loads(pickle.dumps(written)) == written
        assert replace(written, every=timedelta(**lengths)) == written

    def test_a_time_beyond_the_last_year_never_comes(
        self, kind: type[IntervalTrigger | DelayTrigger]
    ) -> None:
        trigger = kind(timedelta(days=2_920_000))
        assert trigger.next_fire_time(NOON) is None
        assert trigger.warnings(NOON) == ("it never fires from now on",)
        assert kind(HOUR).warnings(NOON) == ()


class TestExecuteOnceTrigger:
    def test_it_fires_at_its_time_and_never_again(self) -> None:
        trigger = ExecuteOnceTrigger(NOON)
        assert trigger.next_fire_time(NOON - MICROSECOND) == NOON
        assert trigger.next_fire_time(NOON) is None

    def test_a_time_that_has_passed_is_still_its_first_fire_time(self) -> None:
        trigger = ExecuteOnceTrigger(NOON)
        assert trigger.first_fire_time(NOON + timedelta(days=900)) == NOON

    def test_the_same_instant_in_another_zone_is_the_same_trigger(self) -> None:
        tokyo = NOON.astimezone(ZoneInfo("Asia/Tokyo"))
        trigger = ExecuteOnceTrigger(tokyo)
        assert trigger == ExecuteOnceTrigger(NOON)
        assert trigger.fire_at.tzinfo is UTC


class TestDelayTrigger:
    def test_it_counts_from_the_instant_it_is_given(self) -> None:
        trigger = DelayTrigger(timedelta(minutes=5))
        ended = NOON + timedelta(seconds=17, microseconds=3)
        assert trigger.next_fire_time(ended) == ended + timedelta(minutes=5)
        assert trigger.first_fire_time(NOON) == NOON + timedelta(minutes=5)

    def test_its_first_time_may_be_said(self) -> None:
        trigger = DelayTrigger(timedelta(hours=1), first_at=NOON)
        before = NOON - timedelta(minutes=7)
        assert trigger.first_fire_time(before) == NOON
        assert trigger.next_fire_time(NOON) == NOON + timedelta(hours=1)
        assert DelayTrigger.from_dict(trigger.to_dict()).first_at == NOON
        with pytest.raises(InvalidTriggerError, match="first_at has no time zone"):
            DelayTrigger(hours=1, first_at=NOON.replace(tzinfo=None))

    def test_its_first_time_is_no_part_of_its_value_nor_kept_if_nobody_said_it(
        self,
    ) -> None:
        trigger = DelayTrigger(timedelta(hours=1))
        assert trigger == DelayTrigger(timedelta(hours=1), first_at=NOON)
        assert trigger.to_dict() == {"every": {"microseconds": 3_600_000_000}}
        assert DelayTrigger.from_dict(trigger.to_dict()).first_at is None


class TestOnDemandTrigger:
    def test_it_never_fires(self) -> None:
        trigger = OnDemandTrigger()
        assert trigger.first_fire_time(NOON) is None
        assert trigger.next_fire_time(NOON) is None
        assert not trigger.recurring
        assert not trigger.waits
        assert trigger.warnings(NOON) == ()

    def test_it_is_shown_as_what_it_is(self) -> None:
        trigger = OnDemandTrigger()
        assert preview(trigger, 3, NOON) == []
        assert explain(trigger, NOON) == "on demand, at no time of its own"

    def test_whether_it_lasts_must_be_a_bool(self) -> None:
        with pytest.raises(ConfigurationError, match="lasting must be a bool"):
            OnDemandTrigger(lasting=1)  # type: ignore[arg-type]

    def test_it_is_no_part_of_others(self) -> None:
        with pytest.raises(InvalidTriggerError, match="never fires, so that it has"):
            AnyOfTrigger([OnDemandTrigger()])
        with pytest.raises(InvalidTriggerError, match="runs any definition on demand"):
            LimitedTrigger(OnDemandTrigger(), limit=1)

    def test_what_is_scheduled_on_demand_is_active(self) -> None:
        client = Client(MemoryStore())
        given = TaskDefinition(trigger=OnDemandTrigger(), name="send")
        stored = client.schedule(given)
        assert stored.state is DefinitionState.ACTIVE
        assert client.schedule(given) == stored
