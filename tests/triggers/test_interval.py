from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_scheduler.triggers import IntervalTrigger

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

    def test_one_that_will_not_pass_any_more_is_warned_about(self) -> None:
        trigger = IntervalTrigger(timedelta(days=2_920_000))
        assert trigger.warnings(NOON) == ("it never fires from now on",)
        assert trigger.warnings(datetime(1980, 1, 1, tzinfo=UTC)) == ()

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

    def test_it_may_be_written_out(self) -> None:
        written = IntervalTrigger(weeks=1, days=2, hours=3, minutes=4, seconds=5.5)
        length = timedelta(weeks=1, days=2, hours=3, minutes=4, seconds=5.5)
        assert written == IntervalTrigger(length)
        assert hash(written) == hash(IntervalTrigger(length))
        assert written.to_dict() == IntervalTrigger(length).to_dict()
        assert repr(written) == repr(IntervalTrigger(length))
        assert pickle.loads(pickle.dumps(written)) == written

    def test_what_is_written_out_has_its_anchor_and_can_be_replaced(self) -> None:
        written = IntervalTrigger(minutes=60, anchor=NOON)
        assert written == IntervalTrigger(HOUR, NOON)
        assert replace(written, anchor=None) == IntervalTrigger(HOUR)
        assert replace(written, every=2 * HOUR) == IntervalTrigger(2 * HOUR, NOON)
