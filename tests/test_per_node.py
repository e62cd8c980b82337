"""How many of a definition one node has at once, over the real loops."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler import MemoryStore, OnDemandTrigger, Scheduler, State, TaskDefinition
from go_scheduler.events import InstanceGivenBack, hears
from go_scheduler.running.admission import PerNode
from go_scheduler.running.held import Held, HeldRun
from go_scheduler.testing.builders import EXPIRE_AFTER, definition
from tests.conftest import instance, seconds
from tests.test_policies_overlap import Slow

if TYPE_CHECKING:
    from uuid import UUID

    from go_scheduler.events import Event
    from go_scheduler.testing import ManualClock


def test_a_node_has_no_more_of_a_definition_and_others_go_on(
    clock: ManualClock,
) -> None:
    told: list[Event] = []
    slow = Slow(clock)
    few = TaskDefinition(trigger=OnDemandTrigger(), name="few", max_per_node=2)
    any_number = TaskDefinition(trigger=OnDemandTrigger(), name="any")
    with Scheduler(
        slow.handle,
        MemoryStore(clock),
        executor=slow,
        clock=clock,
        listeners=[hears(InstanceGivenBack)(told.append)],
    ) as scheduler:
        for new in (few, any_number):
            scheduler.schedule(new)
        made = [scheduler.run_now(few.id) for _ in range(4)]
        made += [scheduler.run_now(any_number.id) for _ in range(3)]
        clock.advance(seconds(1))
        names = [each.instance.definition.name for each in slow.called]
        assert sorted(map(str, names)) == ["any"] * 3 + ["few"] * 2
        of_few = [each for each in slow.called if each.instance.definition == few]
        begun = {each.instance.id for each in of_few}
        waits = next(each for each in made if each.id not in begun)
        assert "at most 2 at once" in scheduler.why(waits.id).text
        of_few[0].end()
        clock.advance(seconds(3))
        assert [each.instance.definition.name for each in slow.called[5:]] == ["few"]
        while len(slow.called) < len(made):
            for each in slow.called:
                each.end()
            clock.advance(seconds(2))
        for each in slow.called:
            each.end()
        clock.advance(seconds(1))
        found = [scheduler.get_instance(each.id) for each in made]
    assert {(each.state, each.runs) for each in found} == {(State.COMPLETED, 1)}
    event = told[0]
    assert isinstance(event, InstanceGivenBack)
    assert event.delay == seconds(1)
    assert event.reason == (
        "2 of few are here already, and no more may be on one node (max_per_node)"
    )


def test_the_more_there_is_the_later_it_comes() -> None:
    held = Held()
    per_node, few = PerNode(held), replace(definition(), max_per_node=2)

    def take(full: set[UUID]) -> float:
        run = HeldRun(instance(few), expire_after=EXPIRE_AFTER)
        later = per_node.take(run, full)
        return 0 if later is None else later.delay.total_seconds()

    full: set[UUID] = set()
    assert [take(full) for _ in range(7)] == [0, 0, 1, 1, 2, 2, 3]
    assert full == {few.id}
    held.add([HeldRun(instance(), expire_after=EXPIRE_AFTER)])
    assert [take(set()) for _ in range(60)][-1] == 30
    for run in held.uncalled():
        held.drop(run)
    assert [take(set()) for _ in range(3)] == [0, 0, 1]
