"""How SQL stores go over what is parked, and have what has failed run again.

In words that every engine and every driver understands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import and_, bindparam, case, literal, select, text, update

from go_scheduler.models import Outcome
from go_scheduler.stores.messages import Reviewed
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.lists import BOTH
from go_scheduler.stores.sql.locks import (
    HAS_OWN_OVERLAP,
    IS_FIRED,
    SLOT_BY_ROW,
    Behind,
    ParkedInstances,
)
from go_scheduler.stores.sql.rows import NOT_ELSEWHERE
from go_scheduler.stores.sql.tables import definitions, instances

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence, Set
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection, Row
    from sqlalchemy.sql.selectable import TextualSelect

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.sql.database import Database
    from go_scheduler.stores.sql.reader import Reader
    from go_scheduler.stores.sql.tables import Dialect

Found = TypeVar("Found")

_PARKED = text("SELECT id FROM task_instances WHERE parked AND NOT frozen LIMIT 1")
# Each name is looked up behind the one before: as many look-ups as there are names,
# however many instances are parked under one.
_TURNS = """
WITH RECURSIVE names (name) AS (
  SELECT min(slot) FROM task_instances WHERE parked AND NOT frozen AND slot > :after
  UNION ALL
  SELECT (SELECT min(t.slot) FROM task_instances AS t
           WHERE t.parked AND NOT t.frozen AND t.slot > names.name)
    FROM names WHERE names.name IS NOT NULL)
SELECT names.name AS slot,
       (SELECT t.id FROM task_instances AS t
         WHERE t.parked AND NOT t.frozen AND t.slot = names.name
         ORDER BY t.priority, t.due_at, t.execute_at, t.id LIMIT 1) AS id
  FROM names
 WHERE names.name IS NOT NULL
   AND NOT EXISTS (
         SELECT 1 FROM task_slots AS s JOIN task_instances AS h ON h.id = s.instance_id
          WHERE s.name = names.name AND h.completed_at IS NULL)
 ORDER BY names.name LIMIT :limit
"""
# Their slot is taken, or one of their own has had it when they were due.
_UNDECIDED = """
SELECT t.slot, t.id FROM task_instances AS t
 WHERE t.parked AND NOT t.frozen AND t.overlap IS NOT NULL AND t.due_at <= :now
   AND t.slot > :after
   AND (EXISTS (
          SELECT 1 FROM task_slots AS s JOIN task_instances AS h ON h.id = s.instance_id
           WHERE s.name = t.slot AND h.completed_at IS NULL)
     OR EXISTS (
          SELECT 1 FROM task_instances AS h
           WHERE h.id = t.behind AND h.definition_key = t.definition_key
             AND h.completed_at >= t.due_at))
 ORDER BY t.slot, t.due_at, t.execute_at, t.id LIMIT :limit
"""
_NOW = bindparam("now", type_=instances.c.due_at.type)
_OF_PARKED = instances.c.slot, instances.c.id
_FIND_TURNS = text(_TURNS).columns(*_OF_PARKED)
_FIND_UNDECIDED = text(_UNDECIDED).bindparams(_NOW).columns(*_OF_PARKED)


class Walk:
    """Looks at parked instances by the names of their slots, a part in each look.

    If a look finds as many as it may, the next one begins behind it: what can not be
    done now, as others have locked it, keeps nothing else from its turn.

    Args:
        statement: Finds some behind a name.
    """

    def __init__(self, statement: TextualSelect) -> None:
        self._statement = statement
        self._after = ""

    def find(
        self, connection: Connection, limit: int, **parameters: object
    ) -> tuple[Mapping[UUID, str], bool]:
        """The names of their slots by their ids, and whether there may be more."""
        after = self._after
        terms = {"after": after, "limit": limit, **parameters}
        rows = connection.execute(self._statement, terms).all()
        self._after = rows[-1].slot if len(rows) == limit else ""
        return {row.id: row.slot for row in rows}, after != self._after


class Reviewing:
    """Goes over what is parked. Reads are not part of what is written by them.

    Args:
        database: Where.
        dialect: The engine's own words.
        reader: Makes instances of rows.
    """

    def __init__(self, database: Database, dialect: Dialect, reader: Reader) -> None:
        self._database = database
        self._dialect = dialect
        self._reader = reader
        self._turns = Walk(_FIND_TURNS)
        self._undecided = Walk(_FIND_UNDECIDED)

    def review(self, limit: int) -> Reviewed:
        """Decide, and let go on, as ``Store.review_parked``."""
        if not self._look(lambda connection: connection.execute(_PARKED).all()):
            return Reviewed()
        # First: whose slot is free by now may have been due beside one of its own.
        decided, undecided_left = self._decide(limit)
        unparked, turns_left = self._let_go_on(limit)
        return Reviewed(
            unparked=self._instances(unparked),
            skipped=self._instances(decided.skipped if decided else ()),
            replaced=self._instances(decided.replaced if decided else ()),
            parked=True,
            more=turns_left or undecided_left,
        )

    def _let_go_on(self, limit: int) -> tuple[Sequence[UUID], bool]:
        """Let those go on whose turn it is; whether there may be more."""
        turns, more = self._look(lambda each: self._turns.find(each, limit))
        if not turns:
            return (), more
        behind = self._behind(turns)
        unparked = self._database.transact(
            lambda each: ParkedInstances(each, self._dialect, turns, behind).let_go_on()
        )
        return unparked, more or len(unparked) < len(turns)

    def _decide(self, limit: int) -> tuple[ParkedInstances | None, bool]:
        """Decide on those that are due; whether there may be more."""

        def find(connection: Connection) -> tuple[Mapping[UUID, str], bool]:
            now = self._dialect.now(connection)
            return self._undecided.find(connection, limit, now=now)

        undecided, more = self._look(find)
        if not undecided:
            return None, more
        behind = self._behind(undecided)

        def decide(connection: Connection) -> tuple[ParkedInstances, int]:
            parked = ParkedInstances(connection, self._dialect, undecided, behind)
            return parked, parked.decide()

        parked, decided = self._database.transact(decide)
        return parked, more or decided < len(undecided)

    def _behind(self, ids: Collection[UUID]) -> Behind:
        """How those are behind whom some were parked.

        Not asked within the transaction: on CockroachDB it would wait for a row that
        somebody else has written, as it waits for none that is skipped.
        """
        parked = [row for row in self._rows(ids) if row.behind is not None]
        former = {row.id: row for row in self._rows({row.behind for row in parked})}
        pairs = [
            (row, theirs)
            for row in parked
            if (theirs := former.get(row.behind)) is not None
            and theirs.definition_key == row.definition_key
        ]
        ended = [each for each in pairs if each[1].completed_at is not None]
        return Behind(
            met={row.id for row, other in ended if other.completed_at >= row.due_at},
            open={row.id for row, other in pairs if other.completed_at is None},
        )

    def _look(self, read: Callable[[Connection], Found]) -> Found:
        return self._database.run(
            Lane.BY_TIME, lambda connection: self._dialect.past_locks(connection, read)
        )

    def _rows(self, ids: Collection[UUID]) -> Sequence[Row[Any]]:
        query = select(instances).where(self._dialect.among(instances.c.id, ids))
        query = self._dialect.looked_up(query, instances, "task_instances_pkey")
        return self._look(lambda connection: connection.execute(query).all())

    def _instances(self, ids: Collection[UUID]) -> Sequence[TaskInstance]:
        if not ids:
            return ()
        query = BOTH.where(self._dialect.among(instances.c.id, ids))
        query = self._dialect.looked_up(query, instances, "task_instances_pkey")
        query = self._dialect.looked_up(query, definitions, "task_definitions_pkey")
        rows = self._look(lambda connection: connection.execute(query).all())
        return self._reader.instances(Lane.BY_TIME, rows)


def reopen(
    connection: Connection, dialect: Dialect, ids: Collection[UUID]
) -> Set[UUID]:
    """Make failed instances run again, as ``Store.reopen_instances``.

    Args:
        connection: In a transaction.
        dialect: The engine's own words.
        ids: Those of the instances.
    """
    failed = _lock_failed(connection, dialect, ids)
    locked = _lock_definitions(
        connection, dialect, {row.definition_key for row in failed}
    )
    # Those whose trigger waits for the end of it, if its schedule has made it.
    keys = {row.id: row.definition_key for row in failed if row.fired}
    waiting = {each for each in keys.values() if each in locked and locked[each].waits}
    awaited = _awaited(connection, dialect, waiting)
    chosen: list[UUID] = []
    begun: set[UUID] = set()
    for row in failed:
        key = keys.get(row.id)
        if row.definition_key in locked and key not in awaited:
            chosen.append(row.id)
            # Of such a definition a single instance is open at a time.
            if key is not None and key in waiting:
                awaited.add(key)
                begun.add(key)
    _await(connection, dialect, begun)
    reopened = _reopen(connection, dialect, chosen)
    for key in {row.definition_key for row in failed if row.excludes} & locked.keys():
        _exclude(connection, dialect, locked[key], reopened)
    return reopened


def _lock_failed(
    connection: Connection, dialect: Dialect, ids: Collection[UUID]
) -> Sequence[Row[Any]]:
    """Those that have failed, latest first; none of them succeeds after all now."""
    column = instances.c
    query = (
        select(
            column.id,
            column.definition_key,
            IS_FIRED.label("fired"),
            HAS_OWN_OVERLAP.label("excludes"),
        )
        .where(dialect.among(column.id, ids), column.outcome == Outcome.FAILED.value)
        .order_by(column.execute_at.desc(), column.id.desc())
        .with_for_update()
    )
    return connection.execute(query).all()


def _lock_definitions(
    connection: Connection, dialect: Dialect, keys: Collection[UUID]
) -> Mapping[UUID, Row[Any]]:
    """Those that are there; none is edited, or fires, until then."""
    column = definitions.c
    query = (
        select(column.key, column.id, column.waits, column.slot)
        .where(
            dialect.among(definitions.c.key, keys), definitions.c.deleted_at.is_(None)
        )
        .order_by(definitions.c.key)
        .with_for_update()
    )
    return {row.key: row for row in connection.execute(query)}


def _awaited(
    connection: Connection, dialect: Dialect, keys: Collection[UUID]
) -> set[UUID]:
    """Those that wait for the end of an instance already."""
    column = instances.c
    query = select(column.definition_key).where(
        dialect.among(column.definition_key, keys),
        column.completed_at.is_(None),
        column.outcome.is_(None),
        IS_FIRED,
    )
    query = dialect.looked_up(query, instances, "task_instances_open_idx")
    return set(connection.execute(query).scalars())


def _await(connection: Connection, dialect: Dialect, keys: Collection[UUID]) -> None:
    """Let definitions wait for the end of an instance, and not fire before."""
    connection.execute(
        update(definitions)
        .where(dialect.among(definitions.c.key, keys))
        .values(next_fire_time=None, completed_at=None)
    )


def _reopen(
    connection: Connection, dialect: Dialect, ids: Collection[UUID]
) -> Set[UUID]:
    """Make rows as those of new instances that are due, and follow their definition."""
    column, of = instances.c, definitions.c
    now: datetime = dialect.now(connection)
    at = literal(now, column.due_at.type)
    statement = (
        update(instances)
        .where(dialect.among(column.id, ids), column.definition_key == of.key)
        .values(
            queue=of.queue,
            priority=of.priority,
            expire_after=of.expire_after,
            slot=SLOT_BY_ROW,
            # Somebody wants it to run: it waits for its turn, whatever runs.
            overlap=None,
            waits=and_(of.waits, IS_FIRED),
            frozen=of.paused,
            parked=False,
            due_at=at,
            reopened_at=at,
            claimable_at=case((of.paused, None), else_=at),
            runs=0,
            hangs=0,
            claimed_by=None,
            expires_at=None,
            started_at=None,
            completed_at=None,
            outcome=None,
            ended_attempt=None,
            cancel_requested=False,
            **NOT_ELSEWHERE,
        )
        .returning(column.id)
    )
    reopened = set(connection.execute(statement).scalars())
    dialect.hint(connection, [now for _ in reopened], now)
    return reopened


def _exclude(
    connection: Connection, dialect: Dialect, of: Row[Any], ids: Collection[UUID]
) -> None:
    """Let what was backfilled of a definition exclude others by its own overlap."""
    column = instances.c
    connection.execute(
        update(instances)
        .where(
            dialect.among(column.id, ids),
            column.definition_key == of.key,
            column.slot.is_(None),
            HAS_OWN_OVERLAP,
        )
        .values(slot=f"{of.id}")
    )
