from __future__ import annotations

from datetime import UTC, datetime

import pytest

from go_scheduler.client import Client
from go_scheduler.errors import ConfigurationError, InvalidTriggerError
from go_scheduler.models import DefinitionState, TaskDefinition
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.testing.triggers import TriggerSuite
from go_scheduler.triggers import (
    AnyOfTrigger,
    LimitedTrigger,
    OnDemandTrigger,
    Trigger,
    explain,
    preview,
)

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)


class TestOnDemandTrigger(TriggerSuite):
    @pytest.fixture
    def trigger(self) -> Trigger:
        return OnDemandTrigger()

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
