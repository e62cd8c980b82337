"""The triggers of one instant, of the end of a run, and of demand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from go_scheduler.client import Client
from go_scheduler.errors import ConfigurationError, InvalidTriggerError
from go_scheduler.models import DefinitionState, TaskDefinition
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.triggers import (
    AnyOfTrigger,
    DelayTrigger,
    ExecuteOnceTrigger,
    LimitedTrigger,
    OnDemandTrigger,
    explain,
    preview,
)

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


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
