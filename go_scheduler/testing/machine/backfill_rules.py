"""The rule of the store machine that backfills."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from go_scheduler.errors import ConflictError, TaskDefinitionNotFoundError
from go_scheduler.policies import Overlap
from go_scheduler.testing.clock import START
from go_scheduler.testing.machine.drawn import ALL, SECOND
from go_scheduler.testing.machine.pair import StorePair, revision_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.stores.base import Store

# Long before anything else: each store has its own order of what is due at one moment.
_LONG_AGO = [START - (1_000_000 + number) * SECOND for number in range(4)]


class BackfillRules(StorePair):
    """Fire times that have passed are given instances."""

    @precondition(lambda self: self._stored() or self._read)
    @rule(data=st.data(), overlap=st.sampled_from(Overlap))
    def backfill(self, data: st.DataObject, overlap: Overlap) -> None:
        """Some of a definition, as it was read now or some time ago."""
        known = [(each, self._lives[each.id]) for each in self._stored()]
        read, life = data.draw(st.sampled_from([*known, *self._read[-2:]]))
        edits = revision_of(read) - life[True]
        chosen = self._some(data, self._fire_times(read.id), most=4)
        if overlap is Overlap.ALLOW:
            self._loosened.add(read.id)

        def backfill(store: Store) -> object:
            mine = replace(read, revision=life[store is self.oracle] + edits)
            try:
                return store.backfill_instances(mine, chosen, overlap=overlap)
            except TaskDefinitionNotFoundError as error:
                return error.definition_id
            except ConflictError as error:
                return error.definition_id, "conflict"

        self._alike(backfill)
        self._note_made(read.id)

    def _fire_times(self, definition_id: UUID) -> Sequence[datetime]:
        """Some that have an instance perhaps, and some that have it only by this."""
        found = self.oracle.list_instances(definition_id=definition_id, limit=ALL)
        passed = {each.fire_time for each in found if each.fire_time is not None}
        now = self.clock.now()
        return [*_LONG_AGO, *sorted(each for each in passed if each <= now)]
