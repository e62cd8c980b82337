"""How SQL stores go over what is parked, and have what has failed run again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import bindparam, text

from go_scheduler.policies import Overlap
from go_scheduler.stores.base import InstanceStore
from go_scheduler.stores.messages import Reviewed
from go_scheduler.stores.rules import LOCK
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.lists import BOTH
from go_scheduler.stores.sql.locks import IDS, SEEN, Behind, ParkedInstances, batch_of
from go_scheduler.stores.sql.runs import NOT_ELSEWHERE
from go_scheduler.stores.sql.statement import Statement, own_or
from go_scheduler.stores.sql.tables import definitions, instances

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
    from uuid import UUID

    from sqlalchemy import Connection
    from sqlalchemy.sql.selectable import TextualSelect

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.sql.database import Database
    from go_scheduler.stores.sql.reader import Reader
    from go_scheduler.stores.sql.statement import Statements
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
FIND_TURNS = text(_TURNS).columns(*_OF_PARKED)
FIND_UNDECIDED = text(_UNDECIDED).bindparams(_NOW).columns(*_OF_PARKED)


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


_FAILED = Statement(
    f"""
SELECT t.id, t.definition_key, t.backfilled,
       t.fire_time IS NOT NULL AND t.backfilled IS NULL AS fired
  FROM task_instances@task_instances_pkey AS t
 WHERE t.id IN {IDS} AND t.outcome = 'failed'
 ORDER BY t.execute_at DESC, t.id DESC FOR UPDATE OF t
""",
    ("id", "definition_key", "backfilled", "fired"),
)
_DEFINITIONS = Statement(
    f"""
SELECT d.key, d.id, d.waits, d.slot FROM task_definitions@task_definitions_pkey AS d
 WHERE d.key IN {IDS} AND d.deleted_at IS NULL
 ORDER BY d.key FOR UPDATE OF d
""",
    ("d_key", "d_id", "d_waits", "d_slot"),
)
_AWAITED = Statement(
    f"""
SELECT t.definition_key FROM task_instances@task_instances_open_idx AS t
 WHERE t.definition_key IN {IDS} AND t.completed_at IS NULL AND t.outcome IS NULL
   AND t.fire_time IS NOT NULL AND t.backfilled IS NULL
""",
    ("definition_key",),
)
# As new ones that are due. Somebody wants them to run: they wait for their turn,
# whatever runs. Of a definition that waits for the end, none fires before.
_REOPEN = Statement(
    f"""
WITH awaits AS (
  UPDATE task_definitions@task_definitions_pkey AS d
     SET next_fire_time = NULL, completed_at = NULL
    FROM batch AS k (key uuid)
   WHERE d.key = k.key
  RETURNING d.key),
made AS (
  UPDATE task_instances@task_instances_pkey AS t
     SET queue = {own_or("t", "queue", "d.queue")},
         priority = {own_or("t", "priority", "d.priority")},
         expire_after = {own_or("t", "expire_after", "d.expire_after")},
         slot = {own_or("t", "slot", "x.slot")}, overlap = NULL,
         waits = d.waits AND x.fired, frozen = d.paused,
         parked = false, due_at = now(), reopened_at = now(),
         claimable_at = CASE WHEN NOT d.paused THEN now() END,
         runs = 0, hangs = 0, claimed_by = NULL, expires_at = NULL, started_at = NULL,
         completed_at = NULL, outcome = NULL, ended_attempt = NULL,
         cancel_requested = false, {NOT_ELSEWHERE},
         given_back = NULL
    FROM batch AS x (id uuid, fired boolean, slot text)
    JOIN task_definitions@task_definitions_pkey AS d ON true
   WHERE t.id = x.id AND d.key = t.definition_key
  RETURNING t.id, t.claimable_at)
SELECT id, notified(made, claimable_at, i) AS hinted FROM made
""",
    ("id", "hinted"),
)


class SQLReviewing(InstanceStore):
    """Goes over what is parked. Reads are not part of what is written by them."""

    _database: Database
    _dialect: Dialect
    _reader: Reader
    _statements: Statements
    _turns: Walk
    _undecided: Walk

    def review_parked(self, *, limit: int) -> Reviewed:
        """Go over what is parked."""
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
            lambda each: ParkedInstances(
                partial(self._statements.execute, each), turns, behind
            ).let_go_on()
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
            execute = partial(self._statements.execute, connection)
            parked = ParkedInstances(execute, undecided, behind)
            return parked, parked.decide()

        parked, decided = self._database.transact(decide)
        return parked, more or decided < len(undecided)

    def _behind(self, ids: Iterable[UUID]) -> Behind:
        """How those are behind whom some were parked.

        Not asked within the transaction: on CockroachDB it would wait for a row that
        somebody else has written, as it waits for none that is skipped.
        """
        parked = [row for row in self._seen(ids) if row.behind is not None]
        former = {row.id: row for row in self._seen(row.behind for row in parked)}
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

    def _seen(self, ids: Iterable[UUID]) -> Sequence[Any]:
        return self._statements.read(Lane.BY_TIME, SEEN, {}, {"x": batch_of(ids)})

    def _instances(self, ids: Collection[UUID]) -> Sequence[TaskInstance]:
        if not ids:
            return ()
        query = BOTH.where(self._dialect.among(instances.c.id, [*ids]))
        query = self._dialect.looked_up(query, instances, "task_instances_pkey")
        query = self._dialect.looked_up(query, definitions, "task_definitions_pkey")
        rows = self._look(lambda connection: connection.execute(query).all())
        return self._reader.instances(Lane.BY_TIME, rows)

    def reopen_instances(self, ids: Collection[UUID]) -> Set[UUID]:
        """Make instances run again that have failed."""
        return self._database.transact(
            lambda each: self._reopen(each, ids),
            # One that was done, and is repeated, finds nothing that has failed.
            repeatable=False,
        )

    def _reopen(self, connection: Connection, ids: Iterable[UUID]) -> Set[UUID]:
        execute = partial(self._statements.execute, connection)
        # None of them succeeds after all now; the latest come first.
        failed = execute(_FAILED, {}, {"x": batch_of(ids)})
        keys = batch_of({row.definition_key for row in failed})
        # Those that are there; none is edited, or fires, until then.
        live = {row.d_key: row for row in execute(_DEFINITIONS, {}, {"x": keys})}
        # Those whose trigger waits for the end of it, if its schedule has made it.
        fired = {row.definition_key for row in failed if row.fired}
        waiting = batch_of(key for key in fired if key in live and live[key].d_waits)
        found = execute(_AWAITED, {}, {"x": waiting})
        awaited = {row.definition_key for row in found}
        chosen, begun = [], []
        for row in failed:
            of = live.get(row.definition_key)
            if of is None or (row.fired and of.d_key in awaited):
                continue
            chosen.append((row.id, bool(row.fired), _slot(row, of)))
            # Of such a definition a single instance is open at a time.
            if row.fired and of.d_waits:
                awaited.add(of.d_key)
                begun.append((of.d_key,))
        soon = self._dialect.hint_within(connection, late=False)
        made = execute(_REOPEN, {"hint_within": soon}, {"x": chosen, "k": begun})
        return {row.id for row in made}


def _slot(row: Any, of: Any) -> str | None:
    """The slot of an instance, beside the row of its definition."""
    if of.d_slot is not None and of.d_slot.startswith(LOCK):
        return str(of.d_slot)
    if row.backfilled is not None:
        return None if row.backfilled == Overlap.ALLOW.value else str(of.d_id)
    return None if row.fired and of.d_waits else of.d_slot
