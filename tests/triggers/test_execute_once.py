from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.testing.triggers import TriggerSuite
from go_scheduler.triggers import ExecuteOnceTrigger, Trigger

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class TestExecuteOnceTrigger(TriggerSuite):
    @pytest.fixture(params=[NOON, datetime(1965, 1, 1, 0, 0, 0, 1, tzinfo=UTC)])
    def trigger(self, request: pytest.FixtureRequest) -> Trigger:
        return ExecuteOnceTrigger(request.param)

    def test_it_is_not_recurring(self) -> None:
        assert not ExecuteOnceTrigger(NOON).recurring

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

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            (NOON.replace(tzinfo=None), "fire_at has no time zone"),
            ("2030-06-01T12:00:00Z", "fire_at must be a datetime, not '2030"),
            (date(2030, 6, 1), "fire_at must be a datetime"),
            (1_906_545_600, "fire_at must be a datetime, not 1906545600"),
            (None, "fire_at must be a datetime, not None"),
            (
                datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
                "fire_at is out of range",
            ),
        ],
    )
    def test_what_is_no_instant_is_refused(self, value: object, message: str) -> None:
        with pytest.raises(InvalidTriggerError, match=message):
            ExecuteOnceTrigger(value)  # type: ignore[arg-type]
