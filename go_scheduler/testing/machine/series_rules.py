"""What the store machine looks for in the series of fire times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis.stateful import invariant

from go_scheduler.testing.machine.drawn import ALL
from go_scheduler.testing.machine.pair import StorePair
from go_scheduler.triggers.stored import dump_trigger

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID


class SeriesRules(StorePair):
    """No fire time is fired twice, however soon its instance is deleted."""

    def __init__(self) -> None:
        super().__init__()
        # By definition: whose series it is, and where that stands.
        self._series: dict[UUID, tuple[object, datetime | None]] = {}
        self._begun: dict[UUID, set[datetime]] = {}
        # Instances of other series that a definition has had.
        self._former: set[UUID] = set()

    @invariant()
    def nothing_that_has_begun_is_gone_back_over(self) -> None:
        """What has started or ended is not before the next fire time again."""
        made = self.oracle.list_instances(limit=ALL)
        for each in self._stored():
            series = dump_trigger(each.trigger), self._lives[each.id][True]
            before, last = self._series.get(each.id, (None, None))
            self._series[each.id] = series, each.next_fire_time
            theirs = [one for one in made if one.definition.id == each.id]
            if series != before:
                self._former |= {one.id for one in theirs}
                self._begun[each.id] = set()
            begun = self._begun[each.id]
            at = each.next_fire_time
            # What waits is told its next fire time by whoever ends a run.
            if series == before and at is not None and not each.trigger.waits:
                again = {
                    one for one in begun if at <= one and not (last and last <= one)
                }
                assert not again, f"to be fired twice: {again}"
            begun |= {
                one.fire_time
                for one in theirs
                if one.fire_time is not None
                and one.id not in self._former
                and (one.runs or one.completed_at)
            }
