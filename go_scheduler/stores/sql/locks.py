"""Slots in SQL: by which one an instance goes, who lets go of it, and who is next.

As ``stores.rules`` has it: ``slot_of``, ``overlap_of`` and ``overlap_of_backfilled``.

Nothing here waits for a row that somebody else has locked: whoever does while it has a
slot locked might be waited for in a circle.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from uuid import UUID, uuid4

from go_scheduler.policies import Overlap
from go_scheduler.stores import rules
from go_scheduler.stores.sql.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence, Set

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.sql.statement import Batch, Execute


class Exclusion(NamedTuple):
    """Expressions for what an instance has to have, and by what it is decided on.

    They say of the columns of its definition what ``slot_of`` and ``overlap_of`` in
    ``stores.rules`` say of the definition.
    """

    slot: str
    overlap: str


def exclusion(of: str) -> Exclusion:
    """What an instance excludes that has a fire time.

    Args:
        of: The name by which the row of its definition is known.
    """
    has_lock = f"{of}.slot LIKE '{rules.LOCK}%'"
    return Exclusion(
        slot=f"CASE WHEN NOT {of}.waits OR {has_lock} THEN {of}.slot END",
        overlap=f"CASE WHEN NOT {of}.waits THEN {of}.overlap END",
    )


def kinds(of: TaskDefinition) -> Batch:
    """What each kind of instances of a definition has: its slot, and its overlap."""
    return [
        ("fired", rules.slot_of(of, fired=True), rules.overlap_of(of, fired=True)),
        ("by hand", rules.slot_of(of, fired=False), rules.overlap_of(of, fired=False)),
        *(
            (
                each.value,
                rules.slot_of(of, fired=False, backfilled=each),
                rules.overlap_of_backfilled(each),
            )
            for each in Overlap
        ),
    ]


_NAMES = "(SELECT n.name FROM batch AS n (name text))"
_FREE_SLOTS = Statement(
    """
WITH free AS MATERIALIZED (
  SELECT s.name, s.instance_id
    FROM batch AS n (name text) JOIN task_slots@task_slots_pkey AS s ON s.name = n.name
   WHERE NOT EXISTS (SELECT 1 FROM task_instances@task_instances_pkey AS i
                      WHERE i.id = s.instance_id AND i.completed_at IS NULL))
DELETE FROM task_slots@task_slots_pkey AS s USING free AS f
 WHERE s.name = f.name AND s.instance_id = f.instance_id
RETURNING s.name
""",
    ("name",),
)


def free_slots(execute: Execute, names: Iterable[str | None]) -> None:
    """Take back slots of these names whose instance has ended, or is gone."""
    if batch := [(name,) for name in sorted({*filter(None, names)})]:
        execute(_FREE_SLOTS, {}, {"n": batch})


def batch_of(ids: Iterable[object]) -> Batch:
    """A batch of ids; a row that was written by other means may have none."""
    return [(id,) for id in ids if isinstance(id, UUID)]


IDS = "(SELECT x.id FROM batch AS x (id uuid))"
_READ = (
    *("id", "definition_key", "slot", "overlap", "due_at", "execute_at", "behind"),
    *("backfilled", "cancel_requested", "started_at", "waits", "completed_at"),
)


def _instances(
    where: str, *, index: str = "task_instances_pkey", lock: bool = True
) -> Statement:
    """Reads instances in their turn, and locks those that nobody else has locked."""
    return Statement(
        f"""
SELECT {", ".join(f"t.{each}" for each in _READ)}, now() AS now
  FROM task_instances@{index} AS t
 WHERE {where}
 ORDER BY t.due_at, t.execute_at, t.id{" FOR UPDATE OF t SKIP LOCKED" if lock else ""}
""",
        (*_READ, "now"),
    )


SEEN = _instances(f"t.id IN {IDS}", lock=False)
_IS_PARKED = f"""t.id IN {IDS}
   AND t.parked AND NOT t.frozen AND t.completed_at IS NULL"""
_PARKED = _instances(_IS_PARKED)
_UNDECIDED = _instances(f"{_IS_PARKED}\n   AND t.overlap IS NOT NULL")
_HOLDERS = _instances(f"t.id IN {IDS} AND t.completed_at IS NULL")
_WAITING_IN_SLOTS = _instances(
    f"""t.definition_key IN {IDS}
   AND t.completed_at IS NULL AND t.outcome IS NULL AND t.parked
   AND t.overlap IS NULL""",
    index="task_instances_open_idx",
)
_SLOTS = Statement(
    f"""
SELECT name, instance_id FROM task_slots@task_slots_pkey
 WHERE name IN {_NAMES} FOR UPDATE SKIP LOCKED
""",
    ("name", "instance_id"),
)
_HOLD = Statement(
    """
INSERT INTO task_slots (name, instance_id)
SELECT n.name, CAST(:holder AS uuid) FROM batch AS n (name text) WHERE true
ON CONFLICT DO NOTHING
RETURNING name
""",
    ("name",),
)
_LET_GO_OF = Statement(
    f"""
DELETE FROM task_slots@task_slots_pkey AS s
 WHERE s.name IN {_NAMES} AND s.instance_id = CAST(:holder AS uuid)
RETURNING name
""",
    ("name",),
)


def _change(values: str, batch: str = "x (id uuid)") -> Statement:
    return Statement(
        f"""
UPDATE task_instances@task_instances_pkey AS t
   SET {values}
  FROM batch AS {batch}
 WHERE t.id = x.id
RETURNING t.id
""",
        ("id",),
    )


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


class Behind(NamedTuple):
    """Parked instances by how one of their own was, behind whom they were parked.

    Attributes:
        met: The ids of those for which it has ended, and not before they were due.
        open: The ids of those for which it has not ended.
    """

    met: Set[UUID]
    open: Set[UUID]


class ParkedInstances:
    """Instances that are parked, in a transaction that goes over them.

    Args:
        execute: Executes a statement in that transaction.
        names: Those of their slots, by their ids.
        behind: Behind whom they were parked.

    Attributes:
        skipped: Why they were skipped, by their ids.
        replaced: What is to stop for their sake, by the ids of that.
    """

    def __init__(
        self, execute: Execute, names: Mapping[UUID, str], behind: Behind
    ) -> None:
        self._execute = execute
        self._names = names
        self._behind = behind
        self.skipped: dict[UUID, str] = {}
        self.replaced: dict[UUID, Any] = {}

    def let_go_on(self) -> Sequence[UUID]:
        """Make them claimable, but for those that are locked; answer which.

        What has yet to be decided on stays parked.
        """
        parked = self._read(_PARKED, self._names)
        free = [row for row in parked if not self._has_met(row)]
        # Nobody is to find a slot taken by one that has ended.
        free_slots(self._execute, (row.slot for row in free))
        ids = [row.id for row in free]
        self._change(_LET_GO_ON, ids)
        return ids

    def decide(self) -> int:
        """Decide on them, but for those that are locked; answer on how many."""
        # Whoever has locked the slots decides on what waits for them, and nobody else.
        names = sorted({*self._names.values()})
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
        mine = [id for id, name in self._names.items() if name in holding]
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
        # Who had not ended at the look held the slot.
        ended_since = row.id in self._behind.open and holder != row.behind
        return row.id in self._behind.met or ended_since

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
