"""Store suite: triggers whose class is not known are kept as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar

from go_scheduler.json import JSON
from go_scheduler.testing.builders import (
    HOUR,
    SECOND,
    definition,
    due,
    finish,
    put,
    running,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.values import TEXTS
from go_scheduler.triggers import registry
from go_scheduler.triggers.base import Trigger
from go_scheduler.triggers.stored import UnknownTrigger, dump_trigger

if TYPE_CHECKING:
    import pytest

    from go_scheduler.stores.base import Store


@dataclass(frozen=True)
class PassingTrigger(Trigger):
    """A trigger whose class this process can lose; it fires once a day.

    Attributes:
        data: Anything.
    """

    kind: ClassVar[str] = "go_scheduler.testing.passing"

    data: Mapping[str, JSON]

    def next_fire_time(self, after: datetime) -> datetime | None:
        """A day later."""
        return after + timedelta(days=1)


class UnknownTriggerTests:
    """Triggers that this process cannot load."""

    def test_an_unknown_trigger_keeps_its_kind_and_state(self, store: Store) -> None:
        state: Mapping[str, JSON] = {
            "text": TEXTS[2],
            "nested": [{"a": None}],
            "big": 2**70,
            "float": 0.1,
        }
        unknown = UnknownTrigger("from.another.node", state, "not here")
        new = put(store, definition(trigger=unknown))
        found = store.get_definition(new.id).trigger
        assert isinstance(found, UnknownTrigger)
        assert dump_trigger(found) == ("from.another.node", state)
        assert found.reason

    def test_an_unknown_trigger_survives_an_edit(self, store: Store) -> None:
        unknown = UnknownTrigger("from.another.node", {"a": 1}, "not here")
        read = put(store, definition(trigger=unknown))
        edited = put(store, replace(read, name="edited", next_fire_time=None))
        assert (edited.name, edited.revision) == ("edited", 2)
        assert edited.next_fire_time == START
        kept = store.get_definition(read.id)
        assert dump_trigger(kept.trigger) == ("from.another.node", {"a": 1})

    def test_an_instance_of_an_unknown_trigger_runs(self, store: Store) -> None:
        unknown = UnknownTrigger("from.another.node", {"a": 1}, "not here")
        instance = running(store, definition(trigger=unknown))
        assert isinstance(instance.definition.trigger, UnknownTrigger)
        assert finish(store, instance)

    def test_a_trigger_is_not_lost_with_its_class(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        trigger = PassingTrigger({"a": [1, "é"]})
        passing = put(store, definition(trigger=trigger))
        other = put(store, definition(START + SECOND))
        with monkeypatch.context() as patch:
            # As in a process that never imported the class.
            patch.delitem(registry._kinds, PassingTrigger.kind)
            found = store.list_definitions(ids=[passing.id, other.id])
            assert {each.id for each in found} == {passing.id, other.id}
            first, second = due(store, ahead=HOUR, limit=10)
            assert dump_trigger(first.trigger) == dump_trigger(trigger)
            assert second == other
            put(store, replace(first, name="edited"))
            store.pause_definitions([passing.id])
            store.resume_definitions([passing.id])
        found_again = store.get_definition(passing.id)
        assert (found_again.trigger, found_again.name) == (trigger, "edited")
        assert found_again.trigger.next_fire_time(START) == START + 24 * HOUR
