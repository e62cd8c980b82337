"""The part of the store interface that people look at: lists that never walk over all.

A store may leave these as they stand here: they say the same of any store, and take as
long as there is much in it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from go_scheduler.models import RUNS, Outcome, State, TaskInstance
from go_scheduler.models.looked_up import Backlog, Counted
from go_scheduler.stores import orders
from go_scheduler.stores.declared import is_among
from go_scheduler.stores.definition_store import DefinitionStore
from go_scheduler.stores.fired_store import FiredStore
from go_scheduler.stores.messages import Position

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from go_scheduler.models import TaskDefinition

LOOKED_AT = 5_000
"""Of so many rows a list is picked at most."""
STRETCH = 1_000
"""Of so many that ended, at most; then it says where to go on."""
KEYS_LOOKED_AT = 1_000
"""In so many definitions a key is looked for."""
_PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of a list, which ends where it is full, or where enough was looked at.

    Attributes:
        found: What is in it.
        next: Where to go on; None: that was all.
    """

    found: Sequence[TaskInstance]
    next: Position | None


class ViewStore(FiredStore, DefinitionStore):
    """Reads what pages show, in a time that does not depend on how much there is."""

    @abstractmethod
    def now(self) -> datetime:
        """The store's time."""

    def counts_up_to(
        self,
        most: int,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
    ) -> Mapping[State, Counted]:
        """How many instances are in each state, as far as they have to be counted.

        Args:
            most: So many; of a state that has more, ``more`` is said. One that is amid
                more than so many others may have fewer counted than there are, and says
                ``more`` as well. Of some queues or owners a store may look at fewer.
            queues: Their definition's queue is among these; None: any.
            owners: It is in the declared set of one of these; None: of any, or none.

        Returns:
            Every state has a number.
        """
        counts = self.counts()
        if queues is None and owners is None:
            return {state: Counted.up_to(most, counts[state]) for state in State}
        seen, theirs = Counter[State](), Counter[State]()
        for each in islice(self._every(None, newest_first=True), most):
            seen[each.state] += 1
            theirs[each.state] += is_among(each.definition, queues, owners)
        return {
            state: Counted(count=theirs[state], more=counts[state] > seen[state])
            for state in State
        }

    def list_backlog(
        self, most: int, *, queues: Collection[str] | None = None
    ) -> Sequence[Backlog]:
        """What is due and has not been claimed, by queue.

        What is frozen or parked is not due.

        Args:
            most: So many are counted of a queue.
            queues: Of these alone; None: of all.

        Returns:
            At most a hundred queues in which anything is due, by their names.
        """
        now = self.now()
        due: dict[str, list[datetime]] = {}
        for each in self._every(State.PENDING, queues=queues):
            definition = each.definition
            if each.due_at <= now and not (each.parked or definition.paused):
                due.setdefault(definition.queue, []).append(each.due_at)
        return [
            Backlog(queue=queue, due=Counted.up_to(most, len(times)), oldest=min(times))
            for queue, times in sorted(due.items())[:100]
        ]

    def list_ended(
        self,
        outcome: Outcome,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        before: Position | None = None,
        limit: int,
    ) -> Stretch:
        """Read instances that ended in one way, those that ended last first.

        Args:
            outcome: How they ended.
            queues: Their definition's queue is among these; None: any.
            owners: It is in the declared set of one of these; None: of any, or none.
            before: They come after this: the ``next`` of a stretch, whose ``at`` is a
                ``completed_at``.
            limit: Most instances to return; at least 1.

        Returns:
            They, in the order of ``(completed_at, id)`` backwards. With fewer than
            ``limit`` there may be more behind ``next``.
        """
        ended = self._every(State(outcome.value), queues=queues, owners=owners)
        found = sorted(ended, key=orders.by_end, reverse=True)
        if before is not None:
            last = (before.at, before.id)
            found = [each for each in found if orders.by_end(each) < last]
        more = len(found) > limit
        page = found[:limit]
        return Stretch(found=page, next=_ended_position(page[-1]) if more else None)

    def list_waiting(
        self,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        limit: int,
    ) -> Sequence[TaskInstance]:
        """Read what can be claimed, or will be when it is due, earliest due first.

        What is frozen or parked is not among it. Where owners are asked for, some that
        come behind many of others may be missing.

        Args:
            queues: Their definition's queue is among these; None: any.
            owners: It is in the declared set of one of these; None: of any, or none.
            limit: Most instances to return; at least 1.
        """
        found = [
            each
            for each in self._every(State.PENDING, queues=queues, owners=owners)
            if not (each.parked or each.definition.paused)
        ]
        return sorted(found, key=orders.by_due)[:limit]

    def list_claims(
        self,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        limit: int,
    ) -> Sequence[TaskInstance]:
        """Read what nodes hold and run, those first whose claims expire first.

        What is frozen, as its definition has been paused, may be left out.

        Args:
            queues: Their definition's queue is among these; None: any.
            owners: It is in the declared set of one of these; None: of any, or none.
            limit: Most instances to return; at least 1.
        """
        found = [
            each
            for state in (*RUNS, State.CLAIMED)
            for each in self._every(state, queues=queues, owners=owners)
        ]
        return sorted(found, key=orders.by_expiry)[:limit]

    def search_names(
        self,
        prefix: str,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        limit: int,
    ) -> Sequence[TaskDefinition]:
        """Read definitions whose name begins with a text, in the order of their ids.

        Args:
            prefix: How it begins.
            queues: Their queue is among these; None: any.
            owners: They are in the set of one of these; None: of any, or none.
            limit: Most definitions to return; at least 1.
        """
        found: list[TaskDefinition] = []
        after = None
        while len(found) < limit:
            page = self.list_definitions(
                queues=queues, owners=owners, after=after, limit=_PAGE
            )
            found += [each for each in page if (each.name or "").startswith(prefix)]
            if len(page) < _PAGE:
                break
            after = Position.of_definition(page[-1])
        return found[:limit]

    def search_key(
        self,
        key: str,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        limit: int,
    ) -> Sequence[TaskInstance]:
        """Read the instances that have a key, of a thousand definitions at most.

        Args:
            key: The key.
            queues: Their definition's queue is among these; None: any.
            owners: It is in the declared set of one of these; None: of any, or none.
            limit: Most instances to return; at least 1.

        Returns:
            They, in the order of ``(execute_at, id)``.
        """
        definitions = self.list_definitions(
            queues=queues, owners=owners, limit=KEYS_LOOKED_AT
        )
        found = [
            each
            for definition in definitions
            for each in self._every(None, definition.id)
            if each.key == key
        ]
        return sorted(found, key=orders.by_execution)[:limit]


def _ended_position(instance: TaskInstance) -> Position:
    return Position(at=instance.completed_at, id=instance.id)
