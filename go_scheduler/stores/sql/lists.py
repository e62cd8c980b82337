"""Parts of the queries for lists: states, and where a page begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, case, literal, literal_column, or_, select

from go_scheduler.models import OPEN, DefinitionState, State
from go_scheduler.stores.sql.edits import LIVE, live_among
from go_scheduler.stores.sql.instance_rows import INSTANCE_COLUMNS
from go_scheduler.stores.sql.rows import DEFINITION_COLUMNS, LATEST
from go_scheduler.stores.sql.tables import contents, definitions, instances

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import ColumnElement, Select, Subquery

    from go_scheduler.json import JSON
    from go_scheduler.stores.messages import Position
    from go_scheduler.stores.sql.dialect import Dialect


BOTH = select(
    *(instances.c[name] for name in INSTANCE_COLUMNS),
    *(definitions.c[name].label(f"d_{name}") for name in DEFINITION_COLUMNS),
).outerjoin_from(
    instances, definitions, definitions.c.key == instances.c.definition_key
)


def definitions_like(
    dialect: Dialect,
    *,
    ids: Collection[UUID] | None = None,
    metadata: Mapping[str, JSON] | None = None,
    name: str | None = None,
    queue: str | None = None,
    owner: str | None = None,
    queues: Collection[str] | None = None,
    owners: Collection[str] | None = None,
    state: DefinitionState | None = None,
    soonest_first: bool = False,
    after: Position | None = None,
    limit: int,
) -> Select[Any]:
    """A page of definitions with their contents, as ``Store.list_definitions``."""
    query = LIVE if ids is None else live_among(dialect, ids)
    query = query.limit(limit)
    if soonest_first:
        query = query.order_by(definitions.c.next_fire_time.nulls_last())
    query = query.order_by(definitions.c.id)
    if metadata is not None:
        query = query.where(dialect.contains(metadata))
    if name is not None:
        query = query.where(contents.c.name == name)
    if queue is not None:
        query = query.where(*among([queue], None))
    if owner is not None:
        query = query.where(definitions.c.owner == owner)
    query = query.where(*among(queues, owners))
    if state is not None:
        query = query.where(definition_state == state.value)
    if after is not None and soonest_first:
        query = query.where(fires_after(after))
    elif after is not None:
        query = query.where(definitions.c.id > after.id)
    return query


def instances_like(
    query: Select[Any],
    dialect: Dialect,
    *,
    definition_id: UUID | None,
    name: str | None,
    key: str | None,
    state: State | None,
    since: datetime | None,
    fired_since: datetime | None,
    fired_before: datetime | None,
    queues: Collection[str] | None,
    owners: Collection[str] | None,
    newest_first: bool,
    after: Position | None,
) -> Select[Any]:
    """Instances in their order, as ``Store.list_instances``.

    Args:
        query: Selects them all.
        dialect: The engine's own words.
        definition_id: The others are as there.
        name: As there.
        key: As there.
        state: As there.
        since: As there.
        fired_since: As there.
        fired_before: As there.
        queues: As there.
        owners: As there.
        newest_first: As there.
        after: As there.
    """
    column = instances.c
    order = (column.execute_at, column.id)
    query = query.order_by(
        *((each.desc() for each in order) if newest_first else order)
    )
    if definition_id is not None:
        live = select(definitions.c.key).where(
            definitions.c.id == definition_id, definitions.c.deleted_at.is_(None)
        )
        live = dialect.looked_up(live, definitions, "task_definitions_id_key")
        query = dialect.looked_up(
            query.where(column.definition_key == live.scalar_subquery()),
            instances,
            _index_of(key, state),
        )
    if name is not None:
        named = select(contents.c.key).where(contents.c.name == name)
        query = query.where(column.definition_key.in_(named))
    if key is not None:
        query = query.where(column.key == key)
    if state is not None:
        query = query.where(instance_state == state.value)
    if state in OPEN:
        # By this alone it is known that the index of what is open has them all.
        query = query.where(column.completed_at.is_(None), column.outcome.is_(None))
    if since is not None:
        query = query.where(column.execute_at >= since)
    if fired_since is not None:
        query = query.where(column.fire_time >= fired_since)
    if fired_before is not None:
        query = query.where(column.fire_time < fired_before)
    query = query.where(*among(queues, owners))
    if after is not None:
        query = query.where(comes_after(after, newest_first=newest_first))
    return query


def _index_of(key: str | None, state: State | None) -> str:
    """The index by which a definition's instances are looked up."""
    if key is not None:
        return "task_instances_key_key"
    return "task_instances_open_idx" if state in OPEN else "task_instances_fire_key"


_ANY: ColumnElement[str] = literal_column("''")


def among(
    queues: Collection[str] | None, owners: Collection[str] | None
) -> Sequence[ColumnElement[bool]]:
    """Whether a definition has one of these queues and owners; None: any will do."""
    columns = ((definitions.c.queue, queues), (definitions.c.owner, owners))
    found = [each.in_(sorted(of)) for each, of in columns if of is not None]
    # As the index of queues says it, so that it is known to have them all.
    return found if queues is None else [*found, definitions.c.queue >= _ANY]


def are_of(
    some: Subquery, queues: Collection[str] | None, owners: Collection[str] | None
) -> list[ColumnElement[bool]]:
    """Whether some instances are of these queues and owners: looked up for each."""
    found: list[ColumnElement[bool]] = []
    for column, of in ((definitions.c.queue, queues), (definitions.c.owner, owners)):
        if of is not None:
            value = select(column).where(definitions.c.key == some.c.definition_key)
            found.append(value.scalar_subquery().in_(sorted(of)))
    return found


def comes_after(last: Position, *, newest_first: bool) -> ColumnElement[bool]:
    """Whether an instance belongs on the next page."""
    column = instances.c
    if newest_first:
        earlier = column.execute_at < last.at
        same = and_(column.execute_at == last.at, column.id < last.id)
        return or_(earlier, same)
    if last.at == LATEST:
        # LATEST stands for all times that cannot be read: they are one place.
        return and_(column.execute_at >= LATEST, column.id > last.id)
    same = and_(column.execute_at == last.at, column.id > last.id)
    return or_(column.execute_at > last.at, same)


def fires_after(last: Position) -> ColumnElement[bool]:
    """Whether a definition belongs on the next page, those that fire soonest first."""
    column = definitions.c
    never = column.next_fire_time.is_(None)
    if last.at is None:
        return and_(never, column.id > last.id)
    same = and_(column.next_fire_time == last.at, column.id > last.id)
    return or_(column.next_fire_time > last.at, same, never)


definition_state = case(
    (
        definitions.c.completed_at.is_not(None),
        literal(DefinitionState.COMPLETED.value),
    ),
    (definitions.c.paused, literal(DefinitionState.PAUSED.value)),
    else_=literal(DefinitionState.ACTIVE.value),
)
instance_state = case(
    (instances.c.outcome.is_not(None), instances.c.outcome),
    (instances.c.claimed_by.is_(None), literal(State.PENDING.value)),
    (instances.c.started_at.is_(None), literal(State.CLAIMED.value)),
    (instances.c.cancel_requested, literal(State.CANCELLING.value)),
    else_=literal(State.RUNNING.value),
)
