"""How SQL stores go over what is parked, and have what has failed run again.

Whoever goes over what is parked waits for no row that somebody else has locked: whoever
does while it has a slot locked might be waited for in a circle.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID, uuid4

from go_scheduler.policies import Overlap
from go_scheduler.stores import rules
from go_scheduler.stores.messages import Reviewed
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.edits import batch_of, free_slots
from go_scheduler.stores.sql.runs import NOT_ELSEWHERE
from go_scheduler.stores.sql.statement import Execute, SQLPart, Statement, own_or
from go_scheduler.stores.sql.tables import instances

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence, Set

    from sqlalchemy import Connection, Select

    from go_scheduler.models import TaskInstance

_ANY_PARKED = Statement(
    "SELECT id FROM task_instances WHERE parked AND NOT frozen LIMIT 1"
)


def _found(sql: str) -> Statement:
    """Finds parked instances, with how one of their own is, behind whom they stand.

    That is *open*; or *met*, if it has ended, and not before they were due. It is not
    asked within a transaction: on CockroachDB it would wait for a row that somebody
    else has written, as it waits for none that is skipped.
    """
    return Statement(f"""
SELECT found.slot, found.id,
       (SELECT CASE WHEN h.completed_at IS NULL THEN 'open'
                    WHEN h.completed_at >= t.due_at THEN 'met' END
          FROM task_instances AS t
          JOIN task_instances AS h
            ON h.id = t.behind AND h.definition_key = t.definition_key
         WHERE t.id = found.id) AS other
  FROM ({sql}) AS found
 ORDER BY found.slot
""")


# Each name is looked up behind the one before: as many look-ups as there are names,
# however many instances are parked under one.
_FIND_TURNS = _found("""
  WITH RECURSIVE names (name) AS (
    SELECT min(slot) FROM task_instances
     WHERE parked AND NOT frozen AND slot > CAST(:after AS text)
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
           SELECT 1 FROM task_slots AS s
             JOIN task_instances AS h ON h.id = s.instance_id
            WHERE s.name = names.name AND h.completed_at IS NULL)
   ORDER BY names.name LIMIT :limit""")
# Their slot is taken, or one of their own has had it when they were due.
_FIND_UNDECIDED = _found("""
  SELECT t.slot, t.id FROM task_instances AS t
   WHERE t.parked AND NOT t.frozen AND t.overlap IS NOT NULL AND t.due_at <= now()
     AND t.slot > CAST(:after AS text)
     AND (EXISTS (
           SELECT 1 FROM task_slots AS s
             JOIN task_instances AS h ON h.id = s.instance_id
            WHERE s.name = t.slot AND h.completed_at IS NULL)
       OR EXISTS (
           SELECT 1 FROM task_instances AS h
            WHERE h.id = t.behind AND h.definition_key = t.definition_key
              AND h.completed_at >= t.due_at))
   ORDER BY t.slot, t.due_at, t.execute_at, t.id LIMIT :limit""")
_IDS = "(SELECT x.id FROM batch AS x (id uuid))"
_READ = (
    *("id", "definition_key", "slot", "overlap", "due_at", "execute_at", "behind"),
    *("backfilled", "cancel_requested", "started_at", "waits"),
)


def _instances(where: str, *, index: str = "task_instances_pkey") -> Statement:
    """Reads instances in their turn, and locks those that nobody else has locked."""
    return Statement(f"""
SELECT {", ".join(f"t.{each}" for each in _READ)}, now() AS now
  FROM task_instances@{index} AS t
 WHERE {where}
 ORDER BY t.due_at, t.execute_at, t.id FOR UPDATE OF t SKIP LOCKED
""")


_IS_PARKED = f"""t.id IN {_IDS}
   AND t.parked AND NOT t.frozen AND t.completed_at IS NULL"""
_PARKED = _instances(_IS_PARKED)
_UNDECIDED = _instances(f"{_IS_PARKED}\n   AND t.overlap IS NOT NULL")
_HOLDERS = _instances(f"t.id IN {_IDS} AND t.completed_at IS NULL")
_WAITING_IN_SLOTS = _instances(
    f"""t.definition_key IN {_IDS}
   AND t.completed_at IS NULL AND t.outcome IS NULL AND t.parked
   AND t.overlap IS NULL""",
    index="task_instances_open_idx",
)
_NAMES = "(SELECT n.name FROM batch AS n (name text))"
_SLOTS = Statement(f"""
SELECT name, instance_id FROM task_slots@task_slots_pkey
 WHERE name IN {_NAMES} FOR UPDATE SKIP LOCKED
""")
_HOLD = Statement("""
INSERT INTO task_slots (name, instance_id)
SELECT n.name, CAST(:holder AS uuid) FROM batch AS n (name text) WHERE true
ON CONFLICT DO NOTHING
RETURNING name
""")
_LET_GO_OF = Statement(f"""
DELETE FROM task_slots@task_slots_pkey AS s
 WHERE s.name IN {_NAMES} AND s.instance_id = CAST(:holder AS uuid)
RETURNING name
""")


def _change(values: str, batch: str = "x (id uuid)") -> Statement:
    return Statement(f"""
UPDATE task_instances@task_instances_pkey AS t
   SET {values}
  FROM batch AS {batch}
 WHERE t.id = x.id
RETURNING t.id
""")


# An earlier time would lie below the bound of every scan.
_LET_GO_ON = _change("parked = false, claimable_at = greatest(t.due_at, now())")
_ACCEPT = _change("overlap = NULL")
_SKIP = _change(
    """parked = false, outcome = 'skipped', completed_at = now(),
       skipped_first = coalesce(t.fire_time, t.execute_at),
       skipped_last = coalesce(t.fire_time, t.execute_at), skipped_count = 1,
       skipped_reason = x.reason""",
    "x (id uuid, reason text)",
)
_ASK_TO_STOP = _change("cancel_requested = true")
_END = _change("outcome = 'cancelled', completed_at = now(), claimable_at = NULL")


# The key of a definition, and whether it is of what was backfilled of that.
_Class: TypeAlias = "tuple[UUID, bool]"


class ParkedInstances:
    """Instances that are parked, in a transaction that goes over them.

    Args:
        execute: Executes a statement in that transaction.
        found: As they were found, by their ids.

    Attributes:
        skipped: Why they were skipped, by their ids.
        replaced: What is to stop for their sake, by the ids of that.
    """

    def __init__(self, execute: Execute, found: Mapping[UUID, Any]) -> None:
        self._execute = execute
        self._found = found
        self.skipped: dict[UUID, str] = {}
        self.replaced: dict[UUID, Any] = {}

    def let_go_on(self) -> Sequence[UUID]:
        """Make them claimable, but for those that are locked; answer which.

        What has yet to be decided on stays parked.
        """
        parked = self._read(_PARKED, self._found)
        free = [row for row in parked if not self._has_met(row)]
        # Nobody is to find a slot taken by one that has ended.
        free_slots(self._execute, (row.slot for row in free))
        ids = [row.id for row in free]
        self._change(_LET_GO_ON, ids)
        return ids

    def decide(self) -> int:
        """Decide on them, but for those that are locked; answer on how many."""
        # Whoever has locked the slots decides on what waits for them, and nobody else.
        names = sorted({each.slot for each in self._found.values()})
        slots = self._execute(_SLOTS, {}, {"n": [(each,) for each in names]})
        holding = {row.name: row.instance_id for row in slots}
        # What is free of the others is taken until all is decided. What is being taken
        # by somebody else is short: a start is one statement.
        nobody = {"holder": uuid4()}
        others = [(each,) for each in names if each not in holding]
        free = self._execute(_HOLD, nobody, {"n": others}) if others else ()
        holding |= {row.name: nobody["holder"] for row in free}
        holders = {row.id: row for row in self._read(_HOLDERS, holding.values())}
        # CockroachDB has no plan that looks up rows by two batches. What is in another
        # slot by now is left for the next time.
        mine = [id for id, each in self._found.items() if each.slot in holding]
        found = [row for row in self._read(_UNDECIDED, mine) if row.slot in holding]
        met = {row.id for row in found if self._has_met(row, holding[row.slot])}
        rows = [row for row in found if holding[row.slot] in holders or row.id in met]
        waiting: dict[_Class, list[UUID]] = defaultdict(list)
        for row in self._read(_WAITING_IN_SLOTS, {row.definition_key for row in rows}):
            waiting[_class_of(row)].append(row.id)
        accepted = [
            row.id
            for row in rows
            if self._waits(
                row,
                holders.get(holding[row.slot]),
                waiting[_class_of(row)],
                met=row.id in met,
            )
        ]
        self._change(_ACCEPT, accepted)
        if self.skipped:
            self._execute(_SKIP, {}, {"x": [*self.skipped.items()]})
        self._stop()
        if free:
            self._execute(_LET_GO_OF, nobody, {"n": [(row.name,) for row in free]})
        return len(rows)

    def _has_met(self, row: Any, holder: UUID | None = None) -> bool:
        """Whether it was due and undecided beside one of its own that has ended."""
        if row.overlap is None or row.due_at > row.now:
            return False
        # Who had not ended at the look held the slot; of a free one it was given back.
        other = self._found[row.id].other
        was_held = holder is not None and other == "open"
        return other == "met" or (was_held and holder != row.behind)

    def _waits(
        self, row: Any, holder: Any | None, waiting: list[UUID], *, met: bool
    ) -> bool:
        """Decide on one; true: it waits."""
        runs = holder is not None and holder.definition_key == row.definition_key
        fate = rules.fate_of(
            Overlap(row.overlap), runs=runs or met, waiting=tuple(waiting)
        )
        for each in fate.replaced:
            self.skipped[each] = rules.REPLACED
            waiting.remove(each)
        if fate.stops and runs and holder is not None and not holder.cancel_requested:
            self.replaced[holder.id] = holder
        if fate.reason is not None:
            self.skipped[row.id] = fate.reason
            return False
        waiting.append(row.id)
        return True

    def _stop(self) -> None:
        asked = {
            id
            for id, row in self.replaced.items()
            # Whoever ends one that its trigger waits for says when that fires next.
            if row.started_at is not None or row.waits
        }
        self._change(_ASK_TO_STOP, asked)
        ended = self.replaced.keys() - asked
        self._change(_END, ended)
        free_slots(self._execute, (self.replaced[each].slot for each in ended))

    def _read(self, statement: Statement, ids: Iterable[UUID]) -> Sequence[Any]:
        """The rows of a statement that nobody else has locked."""
        return self._execute(statement, {}, {"x": batch_of(ids)})

    def _change(self, statement: Statement, ids: Collection[UUID]) -> None:
        if ids:
            self._execute(statement, {}, {"x": batch_of(ids)})


def _class_of(row: Any) -> _Class:
    """With which others of its definition one is decided on."""
    return row.definition_key, row.backfilled is not None


_FAILED = Statement(f"""
SELECT t.id, t.definition_key, t.backfilled,
       t.fire_time IS NOT NULL AND t.backfilled IS NULL AS fired
  FROM task_instances@task_instances_pkey AS t
 WHERE t.id IN {_IDS} AND t.outcome = 'failed'
 ORDER BY t.execute_at DESC, t.id DESC FOR UPDATE OF t
""")
_DEFINITIONS = Statement(f"""
SELECT d.key AS d_key, d.id AS d_id, d.waits AS d_waits, d.slot AS d_slot
  FROM task_definitions@task_definitions_pkey AS d
 WHERE d.key IN {_IDS} AND d.deleted_at IS NULL
 ORDER BY d.key FOR UPDATE OF d
""")
_AWAITED = Statement(f"""
SELECT t.definition_key FROM task_instances@task_instances_open_idx AS t
 WHERE t.definition_key IN {_IDS} AND t.completed_at IS NULL AND t.outcome IS NULL
   AND t.fire_time IS NOT NULL AND t.backfilled IS NULL
""")
# As new ones that are due. Somebody wants them to run: they wait for their turn,
# whatever runs. Of a definition that waits for the end, none fires before.
_REOPEN = Statement(f"""
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
""")


class SQLReviewing(SQLPart):
    """Goes over what is parked. Reads are not part of what is written by them."""

    # Behind which slot the next look of a statement begins.
    _reviewed: dict[Statement, str]
    _both: Select[tuple[object, ...]]

    def review_parked(self, *, limit: int) -> Reviewed:
        """Go over what is parked."""
        if not self._statements.read(Lane.BY_TIME, _ANY_PARKED, {}):
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
        turns, more = self._find_parked(_FIND_TURNS, limit)
        if not turns:
            return (), more
        unparked = self._database.transact(
            lambda each: ParkedInstances(
                partial(self._statements.execute, each), turns
            ).let_go_on()
        )
        return unparked, more or len(unparked) < len(turns)

    def _decide(self, limit: int) -> tuple[ParkedInstances | None, bool]:
        """Decide on those that are due; whether there may be more."""
        undecided, more = self._find_parked(_FIND_UNDECIDED, limit)
        if not undecided:
            return None, more

        def decide(connection: Connection) -> tuple[ParkedInstances, int]:
            execute = partial(self._statements.execute, connection)
            parked = ParkedInstances(execute, undecided)
            return parked, parked.decide()

        parked, decided = self._database.transact(decide)
        return parked, more or decided < len(undecided)

    def _find_parked(
        self, statement: Statement, limit: int
    ) -> tuple[Mapping[UUID, Any], bool]:
        """Find parked instances, in the order of the names of their slots.

        If a look finds as many as it may, the next one begins behind it: what can not
        be done now, as others have locked it, keeps nothing else from its turn.

        Returns:
            Those that were found, by their ids; and whether there may be more.
        """
        after = self._reviewed.get(statement, "")
        terms = {"after": after, "limit": limit}
        rows = self._statements.read(Lane.BY_TIME, statement, terms)
        self._reviewed[statement] = rows[-1].slot if len(rows) == limit else ""
        return {row.id: row for row in rows}, after != self._reviewed[statement]

    def _instances(self, ids: Collection[UUID]) -> Sequence[TaskInstance]:
        if not ids:
            return ()
        query = self._both.where(self._dialect.among(instances.c.id, [*ids]))
        query = self._dialect.looked_up(query, instances, "task_instances_pkey")
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
    if of.d_slot is not None and of.d_slot.startswith(rules.LOCK):
        return str(of.d_slot)
    if row.backfilled is not None:
        return None if row.backfilled == Overlap.ALLOW.value else str(of.d_id)
    return None if row.fired and of.d_waits else of.d_slot
