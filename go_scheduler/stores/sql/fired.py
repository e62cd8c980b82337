"""The part of a SQL store that reads what one definition has fired, by its indexes."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sqlalchemy import literal, select, union_all

from go_scheduler.models import State
from go_scheduler.stores.fired_store import FiredStore
from go_scheduler.stores.sql.counting import count_waiting, with_state
from go_scheduler.stores.sql.instance_lists import InstanceLists
from go_scheduler.stores.sql.tables import definitions, instances
from go_scheduler.stores.view_store import LOOKED_AT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection, ScalarSelect

    from go_scheduler.models import TaskInstance

_column = instances.c
_STATES = {each.value: each for each in State}
# With statistics of the table CockroachDB 26.1 answers by an internal error ("cannot
# overwrite [limit hint: 1.00]") if it is asked for less than five rows.
_FEWEST = 20


class SQLFired(InstanceLists, FiredStore):
    """What a SQL store reads of one definition."""

    def list_fired(
        self,
        definition_id: UUID,
        *,
        since: datetime,
        before: datetime,
        newest_first: bool = False,
        limit: int,
    ) -> Sequence[TaskInstance]:
        """Read what a definition has fired, in the order of fire times."""
        order = _column.fire_time.desc() if newest_first else _column.fire_time
        query = self._both.where(
            _column.definition_key == self._live(definition_id),
            _column.fire_time >= since,
            _column.fire_time < before,
        )
        index = "task_instances_fire_key"
        query = self._dialect.looked_up(query, instances, index)
        query = query.order_by(order).limit(max(_FEWEST, limit))
        return self._listed(query)[:limit]

    def count_fired(
        self, definition_id: UUID, bounds: Sequence[datetime], *, most: int
    ) -> Sequence[Mapping[State, int]]:
        """How many a definition has fired, by their state, in some spans of time."""
        counts: list[Counter[State]] = [Counter() for _ in bounds[1:]]

        def read(connection: Connection) -> Sequence[Any]:
            key = connection.execute(select(self._live(definition_id))).scalar()
            if key is None:
                return []
            parts = (
                with_state(_column.definition_key == key)
                .add_columns(literal(number).label("part"))
                .where(_column.fire_time >= since, _column.fire_time < before)
                .order_by(_column.fire_time)
                .limit(most)
                .subquery()
                for number, (since, before) in enumerate(pairwise(bounds))
            )
            heads = (select(each.c.part, each.c.state) for each in parts)
            return connection.execute(union_all(*heads)).all()

        for part, state in self._list(read):
            # What is no outcome of ours, and was written by hand, has not ended.
            counts[part][_STATES.get(state, State.PENDING)] += 1
        return counts

    def list_unscheduled(
        self, definition_id: UUID, *, limit: int
    ) -> Sequence[TaskInstance]:
        """Read what a definition has without a fire time, the latest first."""
        without = select(_column.id, _column.execute_at).where(
            _column.definition_key == self._live(definition_id),
            _column.fire_time.is_(None),
        )
        index = "task_instances_fire_key"
        without = self._dialect.looked_up(without, instances, index)
        some = without.limit(LOOKED_AT).subquery()
        order = (some.c.execute_at.desc(), some.c.id.desc())
        latest = select(some.c.id).order_by(*order).limit(limit)
        ids = self._list(lambda connection: connection.execute(latest).scalars().all())
        return self._in_order(ids)

    def count_waiting(self, definition_id: UUID, *, most: int) -> int:
        """How many instances of a definition have not ended, and have not begun."""
        key = self._live(definition_id)
        found: int = self._list(
            lambda each: count_waiting(each, self._dialect, key=key, most=most)
        )
        return found

    def _live(self, definition_id: UUID) -> ScalarSelect[Any]:
        live = select(definitions.c.key).where(
            definitions.c.id == definition_id, definitions.c.deleted_at.is_(None)
        )
        return self._dialect.looked_up(
            live, definitions, "task_definitions_id_key"
        ).scalar_subquery()
