from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.testing.triggers import TriggerSuite
from go_scheduler.triggers import DelayTrigger, Trigger

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)


class TestDelayTrigger(TriggerSuite):
    @pytest.fixture
    def trigger(self) -> Trigger:
        return DelayTrigger(timedelta(minutes=5, microseconds=1))

    def test_it_waits_for_the_end_of_a_run(self) -> None:
        trigger = DelayTrigger(timedelta(minutes=5))
        assert trigger.waits
        assert trigger.recurring

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

    def test_it_never_fires_beyond_the_last_year(self) -> None:
        trigger = DelayTrigger(timedelta(days=2_920_000))
        assert trigger.next_fire_time(NOON) is None
        assert trigger.warnings(NOON) == ("it never fires from now on",)
        assert DelayTrigger(timedelta(days=1)).warnings(NOON) == ()

    def test_it_may_be_written_out(self) -> None:
        written = DelayTrigger(weeks=1, days=2, hours=3, minutes=4, seconds=5)
        length = timedelta(weeks=1, days=2, hours=3, minutes=4, seconds=5)
        assert written == DelayTrigger(length)
        assert written.to_dict() == DelayTrigger(length).to_dict()
        assert replace(written, every=length) == written
