"""Jitter beside pauses and edits, over the real loops: each fire time counts once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler import Because, CatchUp, IntervalTrigger, TaskDefinition
from go_scheduler.testing.builders import MINUTE, NOBODY, SECOND
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from go_scheduler import TaskInstance
    from tests.behaviour.house import World

EVERY = 20 * SECOND
SOON = {"schedule_window": 4 * SECOND, "runner_window": 4 * SECOND}
FORGETS = {"retention": 5 * SECOND, "cleanup_window": 2 * SECOND}


class Ledger:
    """A definition with jitter, and what becomes of its fire times."""

    def __init__(self, world: World) -> None:
        self.clock = world.clock
        self.ran: Counter[datetime | None] = Counter()
        self.recorded: dict[object, TaskInstance] = {}
        self.scheduler = world.node(
            lambda instance: self.ran.update([instance.fire_time]), **SOON, **FORGETS
        )
        # Its jitter goes by its id: with some a run is just about to begin at an edit.
        self.id = NOBODY
        of = TaskDefinition(id=self.id, trigger=IntervalTrigger(EVERY))
        catch_up = CatchUp(mode="all")
        self.scheduler.schedule(replace(of, jitter=2 * MINUTE, catch_up=catch_up))

    def go_on(self, duration: timedelta) -> None:
        """Let time pass, and keep what is recorded before it is cleaned up."""
        for _ in range(duration // SECOND):
            self.clock.advance(SECOND)
            for each in self.scheduler.list_instances(definition_id=self.id):
                if each.skipped is not None:
                    self.recorded[each.id] = each

    def edit(self, **changes: object) -> None:
        """Schedule it with other values."""
        read = self.scheduler.get_definition(self.id)
        self.scheduler.schedule(replace(read, **changes))  # type: ignore[arg-type]

    @property
    def skipped(self) -> Counter[datetime | None]:
        """The fire times that were skipped."""
        found = [each.skipped for each in self.recorded.values() if each.skipped]
        assert all(each.count == 1 for each in found)
        return Counter(each.first for each in found)

    def fire_times(self, until: datetime) -> Counter[datetime | None]:
        """Each fire time of its first trigger up to an instant, once."""
        count = (until - START) // EVERY
        return Counter(START + (number + 1) * EVERY for number in range(count))


@pytest.fixture
def ledger(world: World) -> Ledger:
    return Ledger(world)


def test_what_ran_before_a_pause_does_not_run_again_after_it(ledger: Ledger) -> None:
    ledger.go_on(3 * MINUTE)
    assert ledger.ran
    ledger.scheduler.pause(ledger.id)
    ledger.go_on(MINUTE)
    ledger.scheduler.resume(ledger.id)
    last = ledger.clock.now()
    ledger.go_on(3 * MINUTE)
    assert {each: n for each, n in ledger.ran.items() if n > 1} == {}
    assert ledger.fire_times(last) <= ledger.ran


def test_what_had_passed_at_an_edit_of_the_trigger_ran_or_is_recorded(
    ledger: Ledger,
) -> None:
    ledger.go_on(2 * MINUTE)
    edited = ledger.clock.now()
    before = ledger.ran.copy()
    ledger.edit(trigger=IntervalTrigger(MINUTE, anchor=edited + SECOND / 2))
    waited = (ledger.fire_times(edited) - before).keys()
    found = [ledger.scheduler.why(ledger.id, at) for at in waited]
    assert {each.because for each in found} == {Because.SKIPPED}
    ledger.go_on(3 * MINUTE)
    assert ledger.skipped
    assert before + ledger.skipped == ledger.fire_times(edited)


def test_after_an_edit_of_the_jitter_each_fire_time_runs_once(ledger: Ledger) -> None:
    ledger.go_on(2 * MINUTE)
    ledger.edit(jitter=10 * SECOND)
    ledger.go_on(3 * MINUTE)
    last = ledger.clock.now() - 2 * MINUTE
    assert ledger.fire_times(last) <= ledger.ran
    assert {each: n for each, n in ledger.ran.items() if n > 1} == {}
    assert not ledger.skipped
