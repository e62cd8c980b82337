"""Store suite: the trace in which something was put stays with it.

A store may leave it out, of definitions and of instances: then it has none of any.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Addition
from go_scheduler.testing.builders import (
    HOUR,
    HOURLY,
    claim,
    claimant,
    definition,
    fire,
    put,
    start,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.on_demand import OnDemandTrigger

if TYPE_CHECKING:
    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

FIRST = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SECOND = "x" * 600


class TraceTests:
    """``trace_context`` of definitions and instances."""

    def test_that_of_a_definition_stays_until_it_is_changed(self, store: Store) -> None:
        given = replace(definition(HOUR + START, trigger=HOURLY), trace_context=FIRST)
        new = put(store, given)
        context = new.trace_context
        assert context in (None, FIRST)

        def stored() -> TaskDefinition:
            return store.get_definition(new.id)

        assert stored().trace_context == context
        again = put(store, replace(given, trace_context=SECOND))
        assert (again.trace_context, again.revision) == (context, new.revision)
        assert (stored().trace_context, stored().revision) == (context, new.revision)
        store.pause_definitions([new.id])
        store.resume_definitions([new.id])
        assert stored().trace_context == context
        edited = put(store, replace(given, name="other", trace_context=SECOND))
        assert edited.trace_context in (None, SECOND)
        assert stored().trace_context == edited.trace_context
        other = replace(
            given, trigger=OnDemandTrigger(), next_fire_time=None, trace_context=None
        )
        assert put(store, other).trace_context is None
        assert stored().trace_context is None

    def test_what_fires_has_that_of_its_definition(
        self, store: Store, clock: ManualClock
    ) -> None:
        new = put(store, replace(definition(START), trace_context=FIRST))
        fire(store, new)
        [claimed] = claim(store)
        [run] = start(store, claimed)
        for each in (claimed, run, store.get_instance(run.id), *store.list_instances()):
            assert each.trace_context == new.trace_context
            assert each.own_trace_context is None

    def test_what_is_added_has_its_own(self, store: Store) -> None:
        of = put(
            store,
            replace(definition(None, trigger=OnDemandTrigger()), trace_context=FIRST),
        )
        additions = [Addition(key="a", trace_context=SECOND), Addition()]
        traced, plain = store.add_instances(of.id, additions)
        assert traced.own_trace_context in (None, SECOND)
        assert traced.trace_context == (traced.own_trace_context or of.trace_context)
        assert (plain.own_trace_context, plain.trace_context) == (
            None,
            of.trace_context,
        )
        assert list(store.add_instances(of.id, additions)) == [traced, plain]
        claimed = claim(store)
        for each in (*claimed, *start(store, *claimed), *store.list_instances()):
            expected = traced if each.id == traced.id else plain
            assert each.own_trace_context == expected.own_trace_context
        [started] = store.add_and_start(
            of.id, [Addition(trace_context=SECOND)], claimant(), names=None
        )
        assert started.own_trace_context == traced.own_trace_context
        assert store.get_instance(started.id) == started

    def test_what_is_backfilled_has_that_of_the_call(self, store: Store) -> None:
        of = put(store, definition(START + HOUR, trigger=HOURLY))
        asked = replace(of, trace_context=SECOND)
        store.backfill_instances(asked, [START - HOUR, START], overlap=Overlap.ALLOW)
        contexts = {each.trace_context for each in claim(store)}
        assert contexts in ({None}, {SECOND})
        assert store.get_definition(of.id).trace_context is None
